package secret

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/windlass-run/windlass/sdk"
)

// minRedacted is the shortest value that is sought: a shorter one would
// stand by chance in every other line.
const minRedacted = 4

// Redactor replaces values that it has learnt, in our own log lines and
// errors; a job's output is never touched. It finds a value as it is, without
// its last newline, line by line, and in base64, hex, JSON and URLs. Values
// under 4 bytes are not sought. The zero value knows none; it is safe for
// concurrent use.
type Redactor struct {
	mu       sync.RWMutex
	count    map[string]int
	known    map[[sha256.Size]byte]bool
	replacer *strings.Replacer
}

// Learn adds a value. It is forgotten when forget has been called for each
// Learn of it.
func (r *Redactor) Learn(v sdk.SecretValue) (forget func()) {
	forms := formsOf(string(v.Reveal()))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count == nil {
		r.count = map[string]int{}
	}
	for _, f := range forms {
		if r.count[f]++; r.count[f] == 1 {
			r.replacer = nil
		}
	}
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, f := range forms {
			if r.count[f]--; r.count[f] == 0 {
				delete(r.count, f)
				r.replacer = nil
			}
		}
	})
}

// Know adds a value for good, once however often it comes.
func (r *Redactor) Know(v sdk.SecretValue) {
	if r == nil {
		return
	}
	r.mu.Lock()
	h := sha256.Sum256(v.Reveal())
	known := r.known[h]
	if !known {
		if r.known == nil {
			r.known = map[[sha256.Size]byte]bool{}
		}
		r.known[h] = true
	}
	r.mu.Unlock()
	if !known {
		r.Learn(v)
	}
}

// formsOf lists the texts in which a value may turn up.
func formsOf(v string) []string {
	var out []string
	add := func(s string) {
		if len(s) >= minRedacted && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	parts := []string{v, strings.TrimRight(v, "\r\n")}
	if lines := strings.FieldsFunc(v, func(r rune) bool { return r == '\n' || r == '\r' }); len(lines) > 1 {
		// Short lines of a file, such as a brace, say nothing.
		parts = append(parts, slices.DeleteFunc(lines, func(l string) bool { return len(strings.TrimSpace(l)) < 8 })...)
	}
	for _, p := range parts {
		if len(p) < minRedacted {
			continue
		}
		add(p)
		if b, err := json.Marshal(p); err == nil {
			add(strings.Trim(string(b), `"`))
		}
		add(strings.Trim(fmt.Sprintf("%q", p), `"`))
		add(url.QueryEscape(p))
		add(url.PathEscape(p))
		b := []byte(p)
		add(base64.StdEncoding.EncodeToString(b))
		add(base64.RawStdEncoding.EncodeToString(b))
		add(base64.URLEncoding.EncodeToString(b))
		add(base64.RawURLEncoding.EncodeToString(b))
		add(hex.EncodeToString(b))
	}
	return out
}

// Redact returns s with every known value replaced.
func (r *Redactor) Redact(s string) string {
	if r == nil || s == "" {
		return s
	}
	r.mu.RLock()
	rep, n := r.replacer, len(r.count)
	r.mu.RUnlock()
	if n == 0 {
		return s
	}
	if rep == nil {
		rep = r.build()
	}
	return rep.Replace(s)
}

func (r *Redactor) build() *strings.Replacer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.replacer != nil {
		return r.replacer
	}
	forms := make([]string, 0, len(r.count))
	for f := range r.count {
		forms = append(forms, f)
	}
	// At one place the longest wins, so that nothing of it stays behind.
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	pairs := make([]string, 0, 2*len(forms))
	for _, f := range forms {
		pairs = append(pairs, f, sdk.Redacted)
	}
	r.replacer = strings.NewReplacer(pairs...)
	return r.replacer
}

// Error returns err, or, where its message holds a known value, an error with
// the same code and a redacted message, which no longer unwraps to the cause.
func (r *Redactor) Error(err error) error {
	if err == nil || r == nil {
		return err
	}
	msg := err.Error()
	clean := r.Redact(msg)
	if clean == msg {
		return err
	}
	out := &sdk.Error{Code: sdk.CodeOf(err), Retryable: sdk.IsRetryable(err), RetryAfter: sdk.RetryAfter(err), Unreached: sdk.IsUnreached(err)}
	out.ID = idOrNone(err)
	out.Err = redacted(clean)
	return out
}

type redacted string

func (e redacted) Error() string { return string(e) }

// Handler returns a log handler that redacts before next sees anything.
func (r *Redactor) Handler(next slog.Handler) slog.Handler { return handler{r, next} }

type handler struct {
	r    *Redactor
	next slog.Handler
}

var _ slog.Handler = handler{}

func (h handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

func (h handler) Handle(ctx context.Context, rec slog.Record) error {
	out := slog.NewRecord(rec.Time, rec.Level, h.r.Redact(rec.Message), rec.PC)
	rec.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a))
		return true
	})
	return h.next.Handle(ctx, out)
}

func (h handler) WithAttrs(as []slog.Attr) slog.Handler {
	out := make([]slog.Attr, len(as))
	for i, a := range as {
		out[i] = h.attr(a)
	}
	return handler{h.r, h.next.WithAttrs(out)}
}

func (h handler) WithGroup(name string) slog.Handler { return handler{h.r, h.next.WithGroup(name)} }

func (h handler) attr(a slog.Attr) slog.Attr {
	key := h.r.Redact(a.Key)
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return slog.String(key, h.r.Redact(v.String()))
	case slog.KindGroup:
		var out []any
		for _, g := range v.Group() {
			out = append(out, h.attr(g))
		}
		return slog.Group(key, out...)
	case slog.KindAny:
		// Handlers print errors by their message, other values as JSON or %+v.
		s := fmt.Sprintf("%+v", v.Any())
		if h.r.Redact(s) != s {
			return slog.String(key, h.r.Redact(s))
		}
		// What only its JSON shows may stand beside more of its kind that
		// nobody has named yet, so all of it goes.
		if b, err := json.Marshal(v.Any()); err == nil && h.r.Redact(string(b)) != string(b) {
			switch v.Any().(type) {
			case fmt.Formatter, fmt.Stringer, error:
				return slog.String(key, s)
			}
			return slog.String(key, sdk.Redacted)
		}
	}
	return slog.Attr{Key: key, Value: v}
}

func idOrNone(err error) string {
	var e *sdk.Error
	if errors.As(err, &e) {
		return e.ID
	}
	return ""
}

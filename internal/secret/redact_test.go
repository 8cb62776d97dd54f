package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

const canary = `hunter2/"x" +y`

func learnt(values ...string) *Redactor {
	r := &Redactor{}
	for _, v := range values {
		r.Learn(sdk.NewSecretValue([]byte(v)))
	}
	return r
}

func TestRedact(t *testing.T) {
	r := learnt(canary, "abc", "first-line-of-it\n}\nsecond-line-of-it\n", "tail\n")
	quoted, _ := json.Marshal(canary)
	for _, in := range []string{canary, "before " + canary + " after", string(quoted), fmt.Sprintf("%q", canary), url.QueryEscape(canary), url.PathEscape(canary),
		base64.StdEncoding.EncodeToString([]byte(canary)), base64.RawURLEncoding.EncodeToString([]byte(canary)), fmt.Sprintf("%x", canary),
		"second-line-of-it", "first-line-of-it", "x tail x"} {
		got := r.Redact(in)
		if strings.Contains(got, "hunter2") || strings.Contains(got, "line-of-it") || !strings.Contains(got, sdk.Redacted) {
			t.Errorf("%q becomes %q", in, got)
		}
	}
	// Too short to be sought, and not a secret at all.
	for _, in := range []string{"abc", "}", "nothing here", ""} {
		if got := r.Redact(in); got != in {
			t.Errorf("%q becomes %q", in, got)
		}
	}
	var none *Redactor
	if got := none.Redact("x"); got != "x" {
		t.Errorf("got %q", got)
	}
}

// TestLongestWins: a value that starts as another does leaves nothing behind.
func TestLongestWins(t *testing.T) {
	if got := learnt("pass", "password-long").Redact("password-long pass"); got != sdk.Redacted+" "+sdk.Redacted {
		t.Errorf("got %q", got)
	}
}

func TestForget(t *testing.T) {
	var r Redactor
	one := r.Learn(sdk.NewSecretValue([]byte("canary")))
	two := r.Learn(sdk.NewSecretValue([]byte("canary")))
	one()
	one()
	if got := r.Redact("canary"); got != sdk.Redacted {
		t.Errorf("forgotten too early: %q", got)
	}
	two()
	if got := r.Redact("canary"); got != "canary" {
		t.Errorf("not forgotten: %q", got)
	}
	if len(r.count) != 0 {
		t.Errorf("%d forms stay behind", len(r.count))
	}
}

func TestRedactError(t *testing.T) {
	r := learnt("canary")
	plain := errors.New("nothing")
	if got := r.Error(plain); got != plain { //nolint:errorlint // the very same value is asked for
		t.Errorf("got %v", got)
	}
	if r.Error(nil) != nil {
		t.Error("nil became an error")
	}
	got := r.Error(&sdk.Error{Code: sdk.Unavailable, Op: "call", Retryable: true, ID: "x.y", Err: errors.New("header canary")})
	if strings.Contains(got.Error(), "canary") || !errors.Is(got, sdk.Unavailable) || !sdk.IsRetryable(got) || strings.Contains(fmt.Sprintf("%#v", errors.Unwrap(got)), "canary") {
		t.Errorf("got %v", got)
	}
}

type leaky struct{ Name, Token string }

type valuer struct{}

func (valuer) LogValue() slog.Value { return slog.StringValue("lazy canary") }

// TestF84LogHandler logs the value in every way that slog has.
func TestF84LogHandler(t *testing.T) {
	for name, make := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var out bytes.Buffer
		log := slog.New(learnt("canary").Handler(make(&out)))
		log.With("token", "canary").WithGroup("g").With("k canary", 1).Info("message canary", "s", "canary", "err", fmt.Errorf("wrap: %w", errors.New("canary")),
			"struct", leaky{"n", "canary"}, "pointer", &leaky{"n", "canary"}, "bytes", []byte("canary"), "list", []string{"canary"}, "map", map[string]string{"a": "canary"},
			slog.Group("deep", "x", "canary", slog.Group("deeper", "y", "canary")), "lazy", valuer{}, "n", 5, "url", &url.URL{Host: "canary"})
		if s := out.String(); strings.Contains(s, "canary") || strings.Contains(s, "Y2FuYXJ5") || !strings.Contains(s, sdk.Redacted) || !strings.Contains(s, "5") {
			t.Errorf("%s: %s", name, s)
		}
	}
}

// reticent prints itself as "reticent", but its JSON holds all that it has.
type reticent struct{ Env [][]byte }

func (reticent) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("reticent")) }

// A value whose JSON alone holds a known secret is logged in its other form, or
// not at all: what stands beside may be a secret that nobody has named yet.
func TestF84OneSecretOfMany(t *testing.T) {
	for name, make := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var out bytes.Buffer
		env := [][]byte{[]byte("canary"), []byte("other")}
		slog.New(learnt("canary").Handler(make(&out))).Info("m", "from", reticent{env}, "env", env)
		s := out.String()
		if strings.Contains(s, "b3RoZX") || strings.Contains(s, "Y2FuYXJ5") || !strings.Contains(s, "reticent") || !strings.Contains(s, sdk.Redacted) {
			t.Errorf("%s: %s", name, s)
		}
	}
}

func TestRedactorConcurrently(t *testing.T) {
	var r Redactor
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			v := fmt.Sprintf("canary-%d", i)
			for range 50 {
				forget := r.Learn(sdk.NewSecretValue([]byte(v)))
				if got := r.Redact("x " + v); strings.Contains(got, v) {
					t.Errorf("got %q", got)
				}
				forget()
			}
		})
	}
	wg.Wait()
}

// FuzzRedact looks for values that survive, whole, in one of the forms.
func FuzzRedact(f *testing.F) {
	f.Add("canary", "before", "after")
	f.Add("\x00\xff\xfe\n", "a", "b")
	f.Add("aaaa", "a", "a")
	f.Fuzz(func(t *testing.T, value, before, after string) {
		if len(value) < minRedacted {
			t.Skip()
		}
		r := learnt(value)
		for _, form := range []string{value, base64.StdEncoding.EncodeToString([]byte(value)), url.QueryEscape(value)} {
			got := r.Redact(before + form + after)
			if strings.Contains(got, form) && !strings.Contains(sdk.Redacted, form) && !strings.Contains(before+sdk.Redacted, form) && !strings.Contains(sdk.Redacted+after, form) {
				t.Errorf("%q in %q survives as %q", form, before+form+after, got)
			}
		}
	})
}

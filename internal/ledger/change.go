package ledger

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/windlass-run/windlass/sdk"
)

// EncodeChange returns the canonical JSON of a change, and the change as
// decoding that gives it back: times in UTC, embedded JSON canonical, text
// with U+FFFD where it was not UTF-8 (a provider's message may hold anything,
// and must not keep its event out of the ledger). A time outside the years
// 1678 to 2261, and embedded JSON that is not JSON, is InvalidArgument.
func EncodeChange(c Change) (Change, []byte, error) {
	if c.V == 0 {
		c.V = ChangeVersion
	}
	if err := normalize(&c); err != nil {
		return c, nil, &sdk.Error{Code: sdk.InvalidArgument, Op: "encode change", Err: err}
	}
	b, err := sdk.EncodeCanonical(c)
	return c, b, err
}

func normalize(c *Change) error {
	var errs []error
	for name, t := range map[string]*time.Time{"sent_at": &c.SentAt, "created_at": &c.CreatedAt, "started_at": &c.StartedAt,
		"seen_running": &c.SeenRunning, "ended_at": &c.EndedAt, "not_before": &c.NotBefore} {
		errs = append(errs, normalizeTime(name, t))
	}
	if r := c.Requested; r != nil {
		q := *r
		errs = append(errs, normalizeJSON("spec", (*[]byte)(&q.Spec)), normalizeJSON("settings", (*[]byte)(&q.Settings)))
		for _, s := range []*string{&q.Actor, &q.Action, &q.Target, &q.Provider, &q.RequestID, &q.SpecHash, &q.Name,
			&q.Identity.Kind, &q.Identity.Account, &q.Identity.Region, &q.Identity.Endpoint} {
			*s = validText(*s)
		}
		c.Requested = &q
	}
	if r := c.Launched; r != nil {
		l := *r
		errs = append(errs, normalizeJSON("launch", (*[]byte)(&l.Launch)))
		c.Launched = &l
	}
	errs = append(errs, normalizeJSON("handle", (*[]byte)(&c.Handle)))
	for _, s := range []**string{&c.Message, &c.CleanupErr} {
		if *s != nil {
			t := validText(**s)
			*s = &t
		}
	}
	for _, s := range []*string{&c.Signal, &c.CancelBy, &c.CancelWhy} {
		*s = validText(*s)
	}
	c.Raw, c.Detail = validMap(c.Raw), validMap(c.Detail)
	return errors.Join(errs...)
}

// The bounds of an int64 of nanoseconds.
func normalizeTime(name string, t *time.Time) error {
	if t.IsZero() {
		*t = time.Time{}
		return nil
	}
	if t.Before(time.Unix(0, math.MinInt64)) || t.After(time.Unix(0, math.MaxInt64)) {
		return fmt.Errorf("%s: %s is out of range", name, t)
	}
	*t = t.UTC().Round(0)
	return nil
}

func normalizeJSON(name string, b *[]byte) error {
	if len(*b) == 0 || string(*b) == "null" {
		*b = nil
		return nil
	}
	out, err := sdk.CanonicalJSON(*b)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	*b = out
	return nil
}

func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func validMap(m map[string]string) map[string]string {
	ok := true
	for k, v := range m {
		ok = ok && utf8.ValidString(k) && utf8.ValidString(v)
	}
	if ok {
		return m
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[validText(k)] = validText(v)
	}
	return out
}

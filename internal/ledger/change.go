package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
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
	b, err := encodeSorted(c)
	if err != nil {
		return c, nil, &sdk.Error{Code: sdk.InvalidArgument, Op: "encode change", Err: err}
	}
	return c, b, nil
}

// sortedChange is Change with its members in the order of their names, so that
// encoding/json gives the canonical form at once: every write pays for it. A
// test compares it with sdk.EncodeCanonical.
type sortedChange struct {
	AttemptOnly bool              `json:"attempt_only,omitzero"`
	CancelBy    string            `json:"cancel_by,omitzero"`
	CancelWhy   string            `json:"cancel_why,omitzero"`
	Checkpoint  *sortedCheckpoint `json:"checkpoint,omitzero"`
	CleanupErr  *string           `json:"cleanup_error,omitzero"`
	CreatedAt   time.Time         `json:"created_at,omitzero"`
	Detail      map[string]string `json:"detail,omitzero"`
	EndedAt     time.Time         `json:"ended_at,omitzero"`
	ExitCode    *int              `json:"exit_code,omitzero"`
	Finished    bool              `json:"finished,omitzero"`
	Handle      json.RawMessage   `json:"handle,omitzero"`
	Launched    *Launched         `json:"launched,omitzero"`
	Launches    int               `json:"launches,omitzero"`
	Message     *string           `json:"message,omitzero"`
	NotBefore   time.Time         `json:"not_before,omitzero"`
	OOM         bool              `json:"oom,omitzero"`
	Phase       Phase             `json:"phase,omitzero"`
	Raw         map[string]string `json:"raw,omitzero"`
	Reason      *sdk.Reason       `json:"reason,omitzero"`
	Requested   *sortedRequested  `json:"requested,omitzero"`
	SeenRunning time.Time         `json:"seen_running,omitzero"`
	SentAt      time.Time         `json:"sent_at,omitzero"`
	Signal      string            `json:"signal,omitzero"`
	StartedAt   time.Time         `json:"started_at,omitzero"`
	State       sdk.JobState      `json:"state,omitzero"`
	V           int               `json:"v"`
	Verdict     sdk.Verdict       `json:"verdict,omitzero"`
}

type sortedRequested struct {
	Action    string          `json:"action"`
	Actor     string          `json:"actor"`
	Identity  sortedIdentity  `json:"identity"`
	Name      string          `json:"name,omitzero"`
	Provider  string          `json:"provider"`
	RequestID string          `json:"request_id,omitzero"`
	Settings  json.RawMessage `json:"settings,omitzero"`
	Spec      json.RawMessage `json:"spec,omitzero"`
	SpecHash  string          `json:"spec_hash,omitzero"`
	Target    string          `json:"target,omitzero"`
}

type sortedIdentity struct {
	Account  string `json:"account,omitzero"`
	Endpoint string `json:"endpoint,omitzero"`
	Kind     string `json:"kind"`
	Region   string `json:"region,omitzero"`
}

type sortedCheckpoint struct {
	Before time.Time   `json:"before"`
	Events int64       `json:"events"`
	Gaps   []sortedGap `json:"gaps,omitzero"`
	Runs   int64       `json:"runs"`
}

type sortedGap struct {
	From int64  `json:"from"`
	Hash string `json:"hash"`
	To   int64  `json:"to"`
}

func encodeSorted(c Change) ([]byte, error) {
	s := sortedChange{AttemptOnly: c.AttemptOnly, CancelBy: c.CancelBy, CancelWhy: c.CancelWhy, CleanupErr: c.CleanupErr, CreatedAt: c.CreatedAt,
		Detail: c.Detail, EndedAt: c.EndedAt, ExitCode: c.ExitCode, Finished: c.Finished, Handle: c.Handle, Launched: c.Launched,
		Launches: c.Launches, Message: c.Message, NotBefore: c.NotBefore, OOM: c.OOM, Phase: c.Phase, Raw: c.Raw, Reason: c.Reason,
		SeenRunning: c.SeenRunning, SentAt: c.SentAt, Signal: c.Signal, StartedAt: c.StartedAt, State: c.State, V: c.V, Verdict: c.Verdict}
	if q := c.Requested; q != nil {
		s.Requested = &sortedRequested{Action: q.Action, Actor: q.Actor, Name: q.Name, Provider: q.Provider, RequestID: q.RequestID,
			Settings: q.Settings, Spec: q.Spec, SpecHash: q.SpecHash, Target: q.Target,
			Identity: sortedIdentity{Account: q.Identity.Account, Endpoint: q.Identity.Endpoint, Kind: q.Identity.Kind, Region: q.Identity.Region}}
	}
	if p := c.Checkpoint; p != nil {
		s.Checkpoint = &sortedCheckpoint{Before: p.Before, Events: p.Events, Runs: p.Runs}
		for _, g := range p.Gaps {
			s.Checkpoint.Gaps = append(s.Checkpoint.Gaps, sortedGap{From: g.From, Hash: g.Hash, To: g.To})
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func normalize(c *Change) error {
	var errs []error
	for _, t := range []struct {
		name string
		at   *time.Time
	}{{"sent_at", &c.SentAt}, {"created_at", &c.CreatedAt}, {"started_at", &c.StartedAt}, {"seen_running", &c.SeenRunning},
		{"ended_at", &c.EndedAt}, {"not_before", &c.NotBefore}} {
		errs = append(errs, normalizeTime(t.name, t.at))
	}
	if r := c.Requested; r != nil {
		q := *r
		errs = append(errs, normalizeJSON("spec", (*[]byte)(&q.Spec)), normalizeJSON("settings", (*[]byte)(&q.Settings)))
		for _, s := range []*string{&q.Actor, &q.Action, &q.Target, &q.Provider, &q.RequestID, &q.SpecHash, &q.Name,
			&q.Identity.Kind, &q.Identity.Account, &q.Identity.Region, &q.Identity.Endpoint} {
			*s = ValidText(*s)
		}
		c.Requested = &q
	}
	if p := c.Checkpoint; p != nil {
		q := *p
		errs = append(errs, normalizeTime("before", &q.Before))
		q.Gaps = slices.Clone(q.Gaps)
		for i := range q.Gaps {
			q.Gaps[i].Hash = ValidText(q.Gaps[i].Hash)
		}
		c.Checkpoint = &q
	}
	if r := c.Launched; r != nil {
		l := *r
		errs = append(errs, normalizeJSON("launch", (*[]byte)(&l.Launch)))
		c.Launched = &l
	}
	errs = append(errs, normalizeJSON("handle", (*[]byte)(&c.Handle)))
	for _, s := range []**string{&c.Message, &c.CleanupErr} {
		if *s != nil && !utf8.ValidString(**s) {
			t := ValidText(**s)
			*s = &t
		}
	}
	for _, s := range []*string{&c.Signal, &c.CancelBy, &c.CancelWhy, (*string)(&c.Phase), (*string)(&c.State), (*string)(&c.Verdict)} {
		*s = ValidText(*s)
	}
	if c.Reason != nil && !utf8.ValidString(string(*c.Reason)) {
		r := sdk.Reason(ValidText(string(*c.Reason)))
		c.Reason = &r
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
	if isCanonical(*b) {
		*b = bytes.Clone(*b)
		return nil
	}
	out, err := sdk.CanonicalJSON(*b)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	*b = out
	return nil
}

// ValidText returns s with U+FFFD for what is not UTF-8.
func ValidText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

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
		out[ValidText(k)] = ValidText(v)
	}
	return out
}

package ledgertest

import (
	"fmt"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// Script is the life of one run as a list of writes.
type Script struct {
	Run, Attempt sdk.ID
	Writes       []ledger.Write
}

// NewScript returns the writes of a run that succeeds, as an engine makes them:
// the first claims it for holder (none when that is zero), the last finishes
// it. change may set the row's own fields; nil leaves them.
func NewScript(ids sdk.IDSource, holder sdk.ID, change func(*ledger.Requested)) Script {
	s := Script{Run: ids.NewID(), Attempt: ids.NewID()}
	spec := []byte(`{"args":["ZWNobw==","aGVsbG8="],"env":{"TOKEN":"Y2FuYXJ5"},"image":"registry.example.com/team/app:1.4","labels":{"team":"payments"},"v":1}`)
	launch := fmt.Appendf(nil, `{"attempt":1,"attempt_id":%q,"identity":{"kind":"fake"},"kind":"fake","ledger_id":"l","owner":"o","request":{"env":["TOKEN=canary"],"image":"registry.example.com/team/app:1.4"},"resubmit":{"by":"name"},"run_id":%q,"v":1}`, s.Attempt, s.Run)
	handle := fmt.Appendf(nil, `{"id":%q,"identity":{"kind":"fake"},"kind":"fake","v":1}`, s.Attempt)
	requested := &ledger.Requested{Actor: "ann@host", Action: "run", Target: "registry.example.com/team/app:1.4", Provider: "fake",
		Identity: sdk.Identity{Kind: "fake", Region: "r1"}, SpecHash: sdk.HashCanonical(spec), Spec: spec, Settings: []byte(`{"v":1}`)}
	if change != nil {
		change(requested)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.FixedZone("", 3600))
	add := func(events ...ledger.NewEvent) {
		s.Writes = append(s.Writes, ledger.Write{Run: s.Run, Holder: holder, Fence: 1, Events: events})
	}
	add(ledger.NewEvent{Kind: ledger.KindRequested, Actor: requested.Actor, Change: ledger.Change{Requested: requested}},
		ledger.NewEvent{Kind: ledger.KindIntent, Actor: "command", Attempt: 1, Change: ledger.Change{Launched: &ledger.Launched{ID: s.Attempt, Launch: launch}}})
	s.Writes[0].Claim = !holder.IsZero()
	attempt := func(kind ledger.Kind, c ledger.Change) ledger.NewEvent {
		return ledger.NewEvent{Kind: kind, Actor: "command", Attempt: 1, Change: c}
	}
	add(attempt(ledger.KindSubmitting, ledger.Change{Phase: ledger.PhaseSubmitting, SentAt: now}))
	add(attempt(ledger.KindSubmitted, ledger.Change{Phase: ledger.PhaseSubmitted, Handle: handle}))
	add(attempt(ledger.KindRunning, ledger.Change{Phase: ledger.PhaseRunning, State: sdk.StateRunning, StartedAt: now, SeenRunning: now.Add(time.Second), Launches: 1}))
	add(attempt(ledger.KindEnded, ledger.Change{Phase: ledger.PhaseEnded, State: sdk.StateSucceeded, Reason: ptr(sdk.ReasonCompleted), ExitCode: ptr(0),
		EndedAt: now.Add(time.Minute), Message: ptr("done"), Raw: map[string]string{"status": "exited", "b": "2"}}))
	add(attempt(ledger.KindDrained, ledger.Change{Phase: ledger.PhaseDrained, Verdict: sdk.VerdictComplete}))
	add(attempt(ledger.KindCleaned, ledger.Change{Phase: ledger.PhaseCleaned}),
		ledger.NewEvent{Kind: ledger.KindFinished, Actor: "command", Change: ledger.Change{Finished: true}})
	return s
}

// Events is how many events the whole script has.
func (s Script) Events() int64 {
	n := 0
	for _, w := range s.Writes {
		n += len(w.Events)
	}
	return int64(n)
}

func note(text string) ledger.NewEvent {
	return ledger.NewEvent{Kind: ledger.KindNote, Actor: "ann@host", Change: ledger.Change{Detail: map[string]string{"text": text}}}
}

func newIDs() sdk.IDSource { return sdk.NewIDSource(sdk.SystemClock()) }

func ptr[T any](v T) *T { return &v }

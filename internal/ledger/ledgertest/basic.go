package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// check compares a run's rows with the fold of its events, field by field.
func check(t testing.TB, s ledger.Store, id sdk.ID) (ledger.Run, []ledger.Attempt) {
	t.Helper()
	run := mustRun(t, s, id)
	attempts, err := s.Attempts(context.Background(), id)
	if err != nil {
		t.Fatalf("attempts: %v", err)
	}
	for _, f := range ledger.RowCheck(id, &run, attempts, events(t, s, ledger.EventFilter{Run: id})) {
		t.Errorf("%s: %s", f.What, f.Detail)
	}
	return run, attempts
}

func testLife(t *testing.T, h Harness) {
	s := h.open(t)
	ids := newIDs()
	holder := ids.NewID()
	sc := NewScript(ids, holder, func(q *ledger.Requested) { q.RequestID, q.Name = "key-1", "nightly" })
	start := time.Now()
	for i, w := range sc.Writes {
		mustWrite(t, s, w)
		run, attempts := check(t, s, sc.Run)
		if run.Holder != holder || run.Fence != 1 {
			t.Fatalf("after write %d: holder %s fence %d", i, run.Holder, run.Fence)
		}
		if len(attempts) != 1 || attempts[0].ID != sc.Attempt {
			t.Fatalf("after write %d: attempts %+v", i, attempts)
		}
		if run.Open() != (i < len(sc.Writes)-1) {
			t.Fatalf("after write %d: open is %v", i, run.Open())
		}
	}
	run, attempts := check(t, s, sc.Run)
	if run.State != sdk.StateSucceeded || run.Reason != sdk.ReasonCompleted || run.ExitCode == nil || *run.ExitCode != 0 || run.Message != "done" ||
		run.Verdict != sdk.VerdictComplete || run.Events != sc.Events() || run.Identity.Region != "r1" || run.Name != "nightly" || len(run.Spec) == 0 {
		t.Errorf("run: %+v", run)
	}
	if run.RequestedAt.Before(start) || run.FinishedAt.Before(run.RequestedAt) || run.RequestedAt.Location() != time.UTC {
		t.Errorf("times: requested %s, finished %s, now %s", run.RequestedAt, run.FinishedAt, start)
	}
	if a := attempts[0]; a.Raw["status"] != "exited" || a.Launches != 1 || len(a.Handle) == 0 || a.SentAt.Nanosecond() != 123456789 || a.Phase != ledger.PhaseCleaned {
		t.Errorf("attempt: %+v", a)
	}
	byKey, err := s.RunByRequest(t.Context(), "key-1")
	if err != nil || byKey.ID != sc.Run {
		t.Errorf("by request: %v, %v", byKey.ID, err)
	}
	evs := events(t, s, ledger.EventFilter{})
	prev := ledger.GenesisHash(s.ID())
	for i, ev := range evs {
		if ev.Seq != int64(i)+1 || ev.Prev != prev || ev.Hash != ledger.HashEvent(ev) || ev.Run != sc.Run {
			t.Errorf("event %d: %+v", i, ev)
		}
		prev = ev.Hash
	}
	rep := sound(t, s)
	if rep.Events != sc.Events() || rep.Runs != 1 || rep.Head.Count != sc.Events() || rep.Head.Hash != prev {
		t.Errorf("report: %+v", rep)
	}
}

func testRequests(t *testing.T, h Harness) {
	s := h.open(t)
	ids := newIDs()
	key := func(k string) func(*ledger.Requested) { return func(q *ledger.Requested) { q.RequestID = k } }
	first := NewScript(ids, sdk.ID{}, key("k"))
	mustWrite(t, s, first.Writes[0])
	head, _ := s.Head(t.Context())
	wantCode(t, s.Write(t.Context(), NewScript(ids, sdk.ID{}, key("k")).Writes[0]), sdk.AlreadyExists, "second run of a request id")
	wantCode(t, s.Write(t.Context(), first.Writes[0]), sdk.AlreadyExists, "the same run again")
	if after, _ := s.Head(t.Context()); after != head {
		t.Errorf("a refused write moved the head from %v to %v", head, after)
	}
	mustWrite(t, s, NewScript(ids, sdk.ID{}, nil).Writes[0], NewScript(ids, sdk.ID{}, nil).Writes[0]) // no key is no conflict
	_, err := s.RunByRequest(t.Context(), "other")
	wantCode(t, err, sdk.NotFound, "unknown request id")
	_, err = s.RunByRequest(t.Context(), "")
	wantCode(t, err, sdk.NotFound, "empty request id")

	// Of many that race for a key one wins, and the losers leave nothing.
	const racers = 20
	results := make(chan error, racers)
	for range racers {
		w := NewScript(ids, sdk.ID{}, key("raced")).Writes[0]
		go func() { results <- s.Write(context.Background(), w) }()
	}
	won := 0
	for range racers {
		if err := <-results; err == nil {
			won++
		} else if !errors.Is(err, sdk.AlreadyExists) {
			t.Errorf("race: %v", err)
		}
	}
	if won != 1 {
		t.Errorf("%d writes won the key", won)
	}
	if n := len(runs(t, s, ledger.RunFilter{})); n != 4 {
		t.Errorf("%d runs", n)
	}
	sound(t, s)
}

func testRefusals(t *testing.T, h Harness) {
	s := h.open(t)
	ids := newIDs()
	sc := NewScript(ids, sdk.ID{}, nil)
	mustWrite(t, s, sc.Writes...)
	before := mustRun(t, s, sc.Run)
	at := func(c ledger.Change) ledger.NewEvent {
		return ledger.NewEvent{Attempt: 1, Kind: ledger.KindNote, Actor: "x", Change: c}
	}
	for _, tc := range []struct {
		name   string
		run    sdk.ID
		code   sdk.Code
		events []ledger.NewEvent
	}{
		{"unknown run", ids.NewID(), sdk.NotFound, []ledger.NewEvent{note("x")}},
		{"no run", sdk.ID{}, sdk.InvalidArgument, []ledger.NewEvent{note("x")}},
		{"no events", sc.Run, sdk.InvalidArgument, nil},
		{"other state", sc.Run, sdk.FailedPrecondition, []ledger.NewEvent{at(ledger.Change{State: sdk.StateFailed, Reason: ptr(sdk.ReasonNonzeroExit)})}},
		{"back to running", sc.Run, sdk.FailedPrecondition, []ledger.NewEvent{at(ledger.Change{State: sdk.StateRunning})}},
		{"other code", sc.Run, sdk.FailedPrecondition, []ledger.NewEvent{at(ledger.Change{ExitCode: ptr(3)})}},
		{"phase back", sc.Run, sdk.FailedPrecondition, []ledger.NewEvent{at(ledger.Change{Phase: ledger.PhaseRunning})}},
		{"good then bad", sc.Run, sdk.FailedPrecondition, []ledger.NewEvent{note("good"), at(ledger.Change{Phase: ledger.PhaseRunning})}},
		{"attempt out of turn", sc.Run, sdk.FailedPrecondition, []ledger.NewEvent{{Attempt: 5, Kind: ledger.KindIntent, Change: ledger.Change{Launched: &ledger.Launched{ID: ids.NewID()}}}}},
		{"requested twice", sc.Run, sdk.InvalidArgument, []ledger.NewEvent{note("x"), {Kind: ledger.KindRequested, Change: ledger.Change{Requested: &ledger.Requested{Actor: "a", Action: "run"}}}}},
		{"no actor", ids.NewID(), sdk.FailedPrecondition, []ledger.NewEvent{{Kind: ledger.KindRequested, Change: ledger.Change{Requested: &ledger.Requested{Action: "run"}}}}},
		{"bad handle", sc.Run, sdk.InvalidArgument, []ledger.NewEvent{at(ledger.Change{Handle: []byte("{")})}},
		{"time out of range", sc.Run, sdk.InvalidArgument, []ledger.NewEvent{at(ledger.Change{EndedAt: time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)})}},
		{"checkpoint", sc.Run, sdk.InvalidArgument, []ledger.NewEvent{{Kind: ledger.KindCheckpoint, Change: ledger.Change{Checkpoint: &ledger.Checkpoint{}}}}},
	} {
		wantCode(t, s.Write(t.Context(), ledger.Write{Run: tc.run, Events: tc.events}), tc.code, tc.name)
	}
	if after := mustRun(t, s, sc.Run); after.Events != before.Events {
		t.Errorf("refused writes left %d events, there were %d", after.Events, before.Events)
	}
	_, err := s.Run(t.Context(), ids.NewID())
	wantCode(t, err, sdk.NotFound, "unknown run")
	if a, err := s.Attempts(t.Context(), ids.NewID()); err != nil || len(a) != 0 {
		t.Errorf("attempts of an unknown run: %v, %v", a, err)
	}
	// Refused and good writes that share a commit don't touch each other.
	results := make(chan error)
	const pairs = 50
	for i := range 2 * pairs {
		w := ledger.Write{Run: sc.Run, Events: []ledger.NewEvent{note(fmt.Sprint(i))}}
		if i%2 == 1 {
			w.Events = append(w.Events, at(ledger.Change{State: sdk.StateRunning}))
		}
		go func() { results <- s.Write(context.Background(), w) }()
	}
	failed := 0
	for range 2 * pairs {
		if err := <-results; err != nil {
			failed++
		}
	}
	if after := mustRun(t, s, sc.Run); failed != pairs || after.Events != before.Events+pairs {
		t.Errorf("%d failed, %d events more", failed, after.Events-before.Events)
	}
	check(t, s, sc.Run)
	sound(t, s)
}

// testAnyText writes what a provider may say, whatever it is.
func testAnyText(t *testing.T, h Harness) {
	s := h.open(t)
	ids := newIDs()
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.Custom(func(rt *rapid.T) string {
			return string(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(rt, "bytes"))
		})
		sc := NewScript(ids, sdk.ID{}, func(q *ledger.Requested) {
			q.Target, q.Name, q.Provider = text.Draw(rt, "target"), text.Draw(rt, "name"), rapid.String().Draw(rt, "provider")
		})
		c := ledger.Change{Message: ptr(text.Draw(rt, "message")), Raw: rapid.MapOfN(text, text, 0, 3).Draw(rt, "raw"),
			Signal: text.Draw(rt, "signal"), CleanupErr: ptr(text.Draw(rt, "cleanup")), CancelBy: text.Draw(rt, "by"),
			StartedAt: time.Unix(rapid.Int64Range(-9e9, 9e9).Draw(rt, "sec"), rapid.Int64Range(0, 1e9-1).Draw(rt, "ns")),
			OOM:       rapid.Bool().Draw(rt, "oom"), Launches: rapid.IntRange(0, 9).Draw(rt, "launches")}
		mustWrite(t, s, sc.Writes[0], ledger.Write{Run: sc.Run, Events: []ledger.NewEvent{{Attempt: 1, Kind: ledger.KindObserved, Actor: "x", Change: c}}})
		run, _ := check(t, s, sc.Run)
		if want := strings.ToValidUTF8(*c.Message, "\uFFFD"); run.Message != want {
			rt.Fatalf("message %q, want %q", run.Message, want)
		}
	})
	big := NewScript(ids, sdk.ID{}, func(q *ledger.Requested) {
		q.Spec = fmt.Appendf(nil, `{"v":1,"workdir":%q}`, strings.Repeat("x", 1<<20))
	})
	mustWrite(t, s, big.Writes...)
	if run, _ := check(t, s, big.Run); len(run.Spec) < 1<<20 {
		t.Errorf("the spec has %d bytes", len(run.Spec))
	}
	sound(t, s)
}

// testTerminal writes random events and holds the store against the fold: an
// outcome never changes once it is there.
func testTerminal(t *testing.T, h Harness) {
	s := h.open(t)
	ids := newIDs()
	rapid.Check(t, func(rt *rapid.T) {
		sc := NewScript(ids, sdk.ID{}, nil)
		mustWrite(t, s, sc.Writes[0])
		run, attempts := check(t, s, sc.Run)
		for i := range rapid.IntRange(1, 12).Draw(rt, "events") {
			ev := ledger.NewEvent{Kind: ledger.KindObserved, Actor: "x", Attempt: rapid.IntRange(0, 2).Draw(rt, "attempt"), Change: randomChange(rt, ids)}
			err := s.Write(context.Background(), ledger.Write{Run: sc.Run, Events: []ledger.NewEvent{ev}})
			if err != nil && !errors.Is(err, sdk.FailedPrecondition) {
				rt.Fatalf("event %d: %v", i, err)
			}
			next, nextAttempts := check(t, s, sc.Run)
			if err != nil && next.Events != run.Events {
				rt.Fatalf("event %d was refused and is there", i)
			}
			sameOutcome(rt, "run", run.State, next.State, run.Reason, next.Reason, run.ExitCode, next.ExitCode)
			for j, a := range attempts {
				b := nextAttempts[j]
				sameOutcome(rt, "attempt", a.State, b.State, a.Reason, b.Reason, a.ExitCode, b.ExitCode)
			}
			if !run.FinishedAt.IsZero() && !next.FinishedAt.Equal(run.FinishedAt) {
				rt.Fatalf("finished at %s, then at %s", run.FinishedAt, next.FinishedAt)
			}
			run, attempts = next, nextAttempts
		}
	})
	sound(t, s)
}

func sameOutcome(rt *rapid.T, what string, s1, s2 sdk.JobState, r1, r2 sdk.Reason, c1, c2 *int) {
	if !s1.Terminal() {
		return
	}
	if s1 != s2 || r1 != r2 {
		rt.Fatalf("%s: %s/%s became %s/%s", what, s1, r1, s2, r2)
	}
	if c1 != nil && (c2 == nil || *c1 != *c2) {
		rt.Fatalf("%s: exit code %d became %v", what, *c1, c2)
	}
}

func randomChange(rt *rapid.T, ids sdk.IDSource) ledger.Change {
	c := ledger.Change{AttemptOnly: rapid.Bool().Draw(rt, "attempt_only"), Finished: rapid.IntRange(0, 5).Draw(rt, "finished") == 0,
		OOM: rapid.Bool().Draw(rt, "oom")}
	if rapid.Bool().Draw(rt, "has state") {
		c.State = rapid.SampledFrom(sdk.JobStates()).Draw(rt, "state")
		if fit := reasonsOf(c.State); len(fit) > 0 {
			c.Reason = ptr(rapid.SampledFrom(fit).Draw(rt, "reason"))
		}
	} else if rapid.Bool().Draw(rt, "has reason") {
		c.Reason = ptr(rapid.SampledFrom(sdk.ReasonRules()).Draw(rt, "any reason").Reason)
	}
	if rapid.Bool().Draw(rt, "has code") {
		c.ExitCode = ptr(rapid.IntRange(0, 3).Draw(rt, "code"))
	}
	if rapid.Bool().Draw(rt, "has phase") {
		c.Phase = rapid.SampledFrom([]ledger.Phase{ledger.PhaseIntent, ledger.PhaseSubmitting, ledger.PhaseSubmitted, ledger.PhaseRunning,
			ledger.PhaseEnded, ledger.PhaseDrained, ledger.PhaseCleaned, ledger.PhaseKept}).Draw(rt, "phase")
	}
	if rapid.IntRange(0, 4).Draw(rt, "launch") == 0 {
		c.Launched = &ledger.Launched{ID: ids.NewID(), Launch: []byte(`{"v":1}`)}
	}
	if rapid.IntRange(0, 4).Draw(rt, "cancel") == 0 {
		c.CancelBy, c.CancelWhy = "ann", "why not"
	}
	return c
}

func reasonsOf(s sdk.JobState) []sdk.Reason {
	var out []sdk.Reason
	for _, r := range sdk.ReasonRules() {
		if slices.Contains(r.States, s) {
			out = append(out, r.Reason)
		}
	}
	return out
}

package ledger_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

func ptr[T any](v T) *T { return &v }

// step is an event before it is one: what of it matters to the fold.
type step struct {
	attempt int
	c       ledger.Change
}

var (
	requested = step{0, ledger.Change{Requested: &ledger.Requested{Actor: "ann", Action: "run", Provider: "p"}}}
	launched  = step{1, ledger.Change{Launched: &ledger.Launched{ID: sdk.ID{1}, Launch: []byte(`{"v":1}`)}}}
	running   = step{1, ledger.Change{Phase: ledger.PhaseRunning, State: sdk.StateRunning}}
	failed    = step{1, ledger.Change{Phase: ledger.PhaseEnded, State: sdk.StateFailed, Reason: ptr(sdk.ReasonNonzeroExit), ExitCode: ptr(3)}}
)

// fold applies steps a second apart, starting at 0, both as changes and as
// encoded events, and returns the result and the first error.
func fold(t rapid.TB, steps ...step) (run ledger.Run, attempts []ledger.Attempt, err error) {
	t.Helper()
	for i, s := range steps {
		c, encoded, eerr := ledger.EncodeChange(s.c)
		if eerr != nil {
			t.Fatalf("encode step %d: %v", i, eerr)
		}
		ev := ledger.Event{Seq: int64(i + 1), At: time.Unix(int64(i), 0).UTC(), Run: sdk.ID{9}, Attempt: s.attempt, Kind: ledger.KindNote, Change: encoded}
		r1, a1, err1 := ledger.Apply(run, attempts, ev, c)
		r2, a2, err2 := ledger.Fold(run, attempts, ev)
		if (err1 == nil) != (err2 == nil) || !reflect.DeepEqual(r1, r2) || !reflect.DeepEqual(a1, a2) {
			t.Fatalf("step %d: the change gives\n%+v %+v %v\nits encoding\n%+v %+v %v", i, r1, a1, err1, r2, a2, err2)
		}
		if err1 != nil {
			if !reflect.DeepEqual(r1, run) || !reflect.DeepEqual(a1, attempts) {
				t.Fatalf("step %d was refused and changed something", i)
			}
			return run, attempts, err1
		}
		run, attempts = r1, a1
	}
	return run, attempts, nil
}

func TestFold(t *testing.T) {
	at := func(sec int64) time.Time { return time.Unix(sec, 0).UTC() }
	for _, tc := range []struct {
		name  string
		steps []step
		check func(r ledger.Run, a []ledger.Attempt) bool
	}{
		{"requested", []step{requested}, func(r ledger.Run, a []ledger.Attempt) bool {
			return r.State == sdk.StatePending && r.Phase == "" && r.Attempt == 0 && len(a) == 0 && r.RequestedAt.Equal(at(0)) && r.Open() && r.Events == 1
		}},
		{"launched", []step{requested, launched}, func(r ledger.Run, a []ledger.Attempt) bool {
			return r.Attempt == 1 && r.Phase == ledger.PhaseIntent && len(a) == 1 && a[0].State == sdk.StatePending && a[0].ID == sdk.ID{1}
		}},
		{"running", []step{requested, launched, running}, func(r ledger.Run, a []ledger.Attempt) bool {
			return r.State == sdk.StateRunning && a[0].State == sdk.StateRunning && r.StartedAt.IsZero()
		}},
		{"first sight of running starts it", []step{requested, launched, {1, ledger.Change{SeenRunning: at(50)}}, {1, ledger.Change{StartedAt: at(40)}}}, func(r ledger.Run, a []ledger.Attempt) bool {
			return r.StartedAt.Equal(at(50)) && a[0].StartedAt.Equal(at(40)) && a[0].SeenRunning.Equal(at(50))
		}},
		{"failed", []step{requested, launched, running, failed}, func(r ledger.Run, a []ledger.Attempt) bool {
			return r.State == sdk.StateFailed && *r.ExitCode == 3 && r.EndedAt.Equal(at(3)) && a[0].Reason == sdk.ReasonNonzeroExit
		}},
		{"the backend's end wins over ours", []step{requested, launched, {1, ledger.Change{State: sdk.StateFailed, Reason: ptr(sdk.ReasonNonzeroExit), EndedAt: at(70)}}}, func(r ledger.Run, _ []ledger.Attempt) bool {
			return r.EndedAt.Equal(at(70))
		}},
		{"only the attempt ends", []step{requested, launched, running, {1, ledger.Change{State: sdk.StateFailed, Reason: ptr(sdk.ReasonNonzeroExit), ExitCode: ptr(3), AttemptOnly: true, OOM: true}}},
			func(r ledger.Run, a []ledger.Attempt) bool {
				return r.State == sdk.StateRunning && r.ExitCode == nil && r.OOM && a[0].State == sdk.StateFailed
			}},
		{"second attempt", []step{requested, launched, {1, ledger.Change{State: sdk.StateFailed, Reason: ptr(sdk.ReasonNonzeroExit), AttemptOnly: true, Phase: ledger.PhaseCleaned}},
			{2, ledger.Change{Launched: &ledger.Launched{ID: sdk.ID{2}}}}, {2, ledger.Change{State: sdk.StateSucceeded, Reason: ptr(sdk.ReasonCompleted), ExitCode: ptr(0)}}},
			func(r ledger.Run, a []ledger.Attempt) bool {
				return r.State == sdk.StateSucceeded && r.Attempt == 2 && r.Phase == ledger.PhaseIntent && len(a) == 2 && a[0].State == sdk.StateFailed && a[1].State == sdk.StateSucceeded
			}},
		{"an old attempt's phase is its own", []step{requested, launched, {2, ledger.Change{Launched: &ledger.Launched{ID: sdk.ID{2}}}}, {1, ledger.Change{Phase: ledger.PhaseKept}}},
			func(r ledger.Run, a []ledger.Attempt) bool {
				return r.Phase == ledger.PhaseIntent && a[0].Phase == ledger.PhaseKept
			}},
		{"the worst verdict stays", []step{requested, launched, {1, ledger.Change{Verdict: sdk.VerdictQuiet}}, {1, ledger.Change{Verdict: sdk.VerdictComplete}}},
			func(r ledger.Run, a []ledger.Attempt) bool {
				return r.Verdict == sdk.VerdictQuiet && a[0].Verdict == sdk.VerdictComplete
			}},
		{"the first cancel counts", []step{requested, {0, ledger.Change{CancelBy: "ann", CancelWhy: "x"}}, {0, ledger.Change{CancelBy: "bob"}}},
			func(r ledger.Run, _ []ledger.Attempt) bool {
				return r.CancelBy == "ann" && r.CancelWhy == "x" && r.CancelAt.Equal(at(1))
			}},
		{"unknown is left again", []step{requested, launched, {1, ledger.Change{State: sdk.StateUnknown, Reason: ptr(sdk.ReasonCredentials)}}, running},
			func(r ledger.Run, _ []ledger.Attempt) bool { return r.State == sdk.StateRunning && r.Reason == "" }},
		{"a late code", []step{requested, launched, {1, ledger.Change{State: sdk.StateSucceeded, Reason: ptr(sdk.ReasonCompleted)}}, {1, ledger.Change{ExitCode: ptr(0)}}},
			func(r ledger.Run, _ []ledger.Attempt) bool { return r.ExitCode != nil }},
		{"finished", []step{requested, launched, failed, {0, ledger.Change{Finished: true}}, {0, ledger.Change{Finished: true}}},
			func(r ledger.Run, _ []ledger.Attempt) bool { return !r.Open() && r.FinishedAt.Equal(at(3)) }},
		{"an empty message clears", []step{requested, launched, {1, ledger.Change{Message: ptr("x")}}, {1, ledger.Change{Message: ptr("")}}},
			func(r ledger.Run, a []ledger.Attempt) bool { return r.Message == "" && a[0].Message == "" }},
	} {
		run, attempts, err := fold(t, tc.steps...)
		if err != nil || !tc.check(run, attempts) {
			t.Errorf("%s: %+v\n%+v\n%v", tc.name, run, attempts, err)
		}
	}
}

func TestFoldRefuses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"nothing before", []step{running}},
		{"twice requested", []step{requested, requested}},
		{"no actor", []step{{0, ledger.Change{Requested: &ledger.Requested{Action: "run"}}}}},
		{"no action", []step{{0, ledger.Change{Requested: &ledger.Requested{Actor: "a"}}}}},
		{"attempt 2 first", []step{requested, {2, launched.c}}},
		{"attempt 1 twice", []step{requested, launched, launched}},
		{"attempt 0", []step{requested, {0, launched.c}}},
		{"phase back", []step{requested, launched, running, {1, ledger.Change{Phase: ledger.PhaseSubmitted}}}},
		{"F46 another outcome", []step{requested, launched, failed, {1, ledger.Change{State: sdk.StateSucceeded, Reason: ptr(sdk.ReasonCompleted)}}}},
		{"F46 running again", []step{requested, launched, failed, running}},
		{"F46 lost after all", []step{requested, launched, failed, {0, ledger.Change{State: sdk.StateLost, Reason: ptr(sdk.ReasonLost)}}}},
		{"F46 another reason", []step{requested, launched, failed, {1, ledger.Change{State: sdk.StateFailed, Reason: ptr(sdk.ReasonTimedOut)}}}},
		{"F46 another code", []step{requested, launched, failed, {1, ledger.Change{ExitCode: ptr(0)}}}},
		{"F46 the attempt's", []step{requested, launched, {1, ledger.Change{State: sdk.StateFailed, Reason: ptr(sdk.ReasonNonzeroExit), AttemptOnly: true}}, running}},
		{"reason without state", []step{requested, launched, running, {1, ledger.Change{Reason: ptr(sdk.ReasonCompleted)}}}},
		{"state without reason", []step{requested, launched, {1, ledger.Change{State: sdk.StateFailed}}}},
		{"unknown state", []step{requested, launched, {1, ledger.Change{State: "done", Reason: ptr(sdk.ReasonCompleted)}}}},
		{"finished while running", []step{requested, launched, running, {0, ledger.Change{Finished: true}}}},
	} {
		n := len(tc.steps) - 1
		if _, _, err := fold(t, tc.steps[:n]...); err != nil {
			t.Errorf("%s: what comes before is refused: %v", tc.name, err)
		}
		if _, _, err := fold(t, tc.steps...); !errors.Is(err, sdk.FailedPrecondition) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestFoldOfAnotherVersion(t *testing.T) {
	_, _, err := ledger.Fold(ledger.Run{}, nil, ledger.Event{Seq: 1, Change: []byte(`{"v":2}`)})
	if !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("newer: %v", err)
	}
	_, _, err = ledger.Fold(ledger.Run{}, nil, ledger.Event{Seq: 1, Change: []byte(`{`)})
	if !errors.Is(err, sdk.DataLoss) {
		t.Errorf("broken: %v", err)
	}
}

// TestF46FoldKeepsOutcomes folds random changes: no way leads out of a terminal
// state, and a refused change leaves its arguments alone.
func TestF46FoldKeepsOutcomes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := []step{requested, launched}
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			before, attempts, err := fold(rt, steps...)
			if err != nil {
				rt.Fatal(err)
			}
			next := step{rapid.IntRange(0, 3).Draw(rt, "attempt"), drawChange(rt)}
			kept := slices.Clone(attempts)
			after, now, err := fold(rt, append(slices.Clip(steps), next)...)
			if !reflect.DeepEqual(kept, attempts) {
				rt.Fatal("the fold changed its argument")
			}
			if err != nil {
				continue
			}
			steps = append(steps, next)
			if before.State.Terminal() && (after.State != before.State || after.Reason != before.Reason) {
				rt.Fatalf("%s/%s became %s/%s", before.State, before.Reason, after.State, after.Reason)
			}
			for i, a := range attempts {
				if a.State.Terminal() && (now[i].State != a.State || now[i].Reason != a.Reason) {
					rt.Fatalf("attempt: %s/%s became %s/%s", a.State, a.Reason, now[i].State, now[i].Reason)
				}
				if now[i].State.Terminal() && !sdk.LegalReason(now[i].State, now[i].Reason) {
					rt.Fatalf("attempt: %s/%s", now[i].State, now[i].Reason)
				}
			}
			if after.State.Terminal() && !sdk.LegalReason(after.State, after.Reason) {
				rt.Fatalf("%s/%s", after.State, after.Reason)
			}
		}
	})
}

func drawChange(rt *rapid.T) ledger.Change {
	c := ledger.Change{AttemptOnly: rapid.Bool().Draw(rt, "attempt_only"), Finished: rapid.Bool().Draw(rt, "finished")}
	if rapid.Bool().Draw(rt, "has state") {
		c.State = rapid.SampledFrom(sdk.JobStates()).Draw(rt, "state")
	}
	if rapid.Bool().Draw(rt, "has reason") {
		c.Reason = ptr(rapid.SampledFrom(sdk.ReasonRules()).Draw(rt, "reason").Reason)
	}
	if rapid.Bool().Draw(rt, "has code") {
		c.ExitCode = ptr(rapid.IntRange(0, 2).Draw(rt, "code"))
	}
	if rapid.Bool().Draw(rt, "has phase") {
		c.Phase = rapid.SampledFrom([]ledger.Phase{ledger.PhaseSubmitting, ledger.PhaseRunning, ledger.PhaseEnded, ledger.PhaseCleaned}).Draw(rt, "phase")
	}
	if rapid.IntRange(0, 5).Draw(rt, "launch") == 0 {
		c.Launched = &ledger.Launched{ID: sdk.ID{2}}
	}
	return c
}

// FuzzFold: whatever stands in a ledger, folding it never panics.
func FuzzFold(f *testing.F) {
	f.Add([]byte(`{"v":1,"requested":{"actor":"a","action":"run","provider":"p","identity":{"kind":"k"}}}`), []byte(`{"v":1,"launched":{"id":"","launch":{}},"state":"failed"}`), 1)
	f.Add([]byte(`{"v":1}`), []byte(`null`), 0)
	f.Fuzz(func(_ *testing.T, first, second []byte, attempt int) {
		run, attempts, err := ledger.Fold(ledger.Run{}, nil, ledger.Event{Run: sdk.ID{1}, Change: first})
		if err == nil {
			_, _, _ = ledger.Fold(run, attempts, ledger.Event{Run: sdk.ID{1}, Attempt: attempt, Change: second})
		}
		_ = ledger.RedactChange(second)
	})
}

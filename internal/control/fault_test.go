package control_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

func contextWithin(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

func TestLostReply(t *testing.T) {
	for _, kind := range []fake.FaultKind{fake.FaultLostReply, fake.FaultReset} {
		t.Run(string(kind), func(t *testing.T) {
			w := newWorld(t)
			e := w.engine()
			w.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: kind, Times: 1})
			id := w.submit(e, request(spec("echo", "once")))
			w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
			a := w.attempts(id)
			if len(a) != 1 || w.cloud.Made(a[0].ID) != 1 {
				t.Fatalf("made %d objects", w.cloud.Made(a[0].ID))
			}
			if kind == fake.FaultLostReply && w.cloud.Calls(fake.OpRunJob) != 1 {
				t.Fatalf("the launch was sent %d times though its job was there", w.cloud.Calls(fake.OpRunJob))
			}
			w.sound(id)
		})
	}
}

func TestSearchOnlyIsNeverResentBlindly(t *testing.T) {
	g := fake.BestGuarantees()
	g.Submit = sdk.SubmitGuarantee{By: sdk.SubmitBySearch}
	g.Found = sdk.FoundGuarantee{Within: 200 * time.Millisecond, Consistent: false}
	w := newWorld(t, withSettings(fake.Settings{Guarantees: &g}))
	e := w.engine()
	w.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultReset, Times: 1})
	id := w.submit(e, request(spec("true")))
	var r ledger.Run
	w.until("the submit is shown as unconfirmed", func() bool {
		r, _ = w.store.Run(t.Context(), id)
		return r.State == sdk.StateUnknown
	})
	w.expect(r, sdk.StateUnknown, sdk.ReasonSubmitUnconfirmed)
	if n := w.cloud.Calls(fake.OpRunJob); n != 1 {
		t.Fatalf("sent %d times", n)
	}
	if err := e.Abandon(w.ctx(), id, "tester@test", "looked by hand"); err != nil {
		t.Fatal(err)
	}
	r = w.wait(e, id, control.MilestoneFinished)
	w.expect(r, sdk.StateLost, sdk.ReasonSubmitUnconfirmed)
	w.sound(id)
}

func TestLateVisibilityIsWaitedFor(t *testing.T) {
	g := fake.BestGuarantees()
	g.Submit = sdk.SubmitGuarantee{By: sdk.SubmitBySearch}
	g.Found = sdk.FoundGuarantee{Within: 400 * time.Millisecond, Consistent: false}
	w := newWorld(t, withSettings(fake.Settings{Guarantees: &g}))
	e := w.engine()
	w.cloud.Set(fake.Knobs{Visibility: fake.Duration(300 * time.Millisecond)})
	w.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultLostReply, Times: 1})
	id := w.submit(e, request(spec("true")))
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
	if n := w.cloud.Calls(fake.OpRunJob); n != 1 {
		t.Fatalf("sent %d times", n)
	}
	w.sound(id)
}

func TestCapacityIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	w.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultError, Status: 503, Code: "Capacity", Times: 1})
	id := w.submit(e, request(spec("true")))
	w.until("capacity is shown", func() bool {
		r, _ := w.store.Run(t.Context(), id)
		return r.Reason == sdk.ReasonCapacity || r.State.Terminal()
	})
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
	if len(w.attempts(id)) != 1 {
		t.Fatal("capacity made another attempt")
	}
}

func TestStartTimeoutWithoutRoom(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	w.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultError, Status: 503, Code: "Capacity", Times: 1000})
	s := spec("true")
	s.StartTimeout = 300 * time.Millisecond
	id := w.submit(e, request(s))
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateFailed, sdk.ReasonStartTimeout)
}

func TestF29ThrottledPolls(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	w.cloud.Inject(fake.Fault{Op: fake.OpJobStatuses, Kind: fake.FaultError, Status: 429, Code: "Throttled", Times: 2})
	w.cloud.Inject(fake.Fault{Op: fake.OpJobStatuses, Kind: fake.FaultReset, Times: 1})
	id := w.submit(e, request(spec("sleep", "50ms", ";", "exit", "5")))
	r := w.wait(e, id, control.MilestoneFinished)
	w.expect(r, sdk.StateFailed, sdk.ReasonNonzeroExit)
}

func TestPermissionIsUnknownNotFailed(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	w.cloud.Inject(fake.Fault{Op: fake.OpJobStatuses, Kind: fake.FaultError, Status: 403, Times: 1})
	id := w.submit(e, request(spec("sleep", "100ms")))
	w.until("the denial is shown", func() bool {
		r, _ := w.store.Run(t.Context(), id)
		return r.Reason == sdk.ReasonPermissionDenied || r.State.Terminal()
	})
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
}

func TestF33VanishedJobIsLost(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	id := w.submit(e, request(spec("hang")))
	w.until("the job runs", func() bool {
		r, _ := w.store.Run(t.Context(), id)
		return r.State == sdk.StateRunning
	})
	for _, j := range w.cloud.JobsOf(id) {
		w.cloud.Vanish(j)
	}
	r := w.wait(e, id, control.MilestoneFinished)
	w.expect(r, sdk.StateLost, sdk.ReasonLost)
	if r.ExitCode != nil {
		t.Fatal("a lost run has an exit code")
	}
	w.sound(id)
}

func TestNotFoundInsideVisibilityIsPending(t *testing.T) {
	g := fake.BestGuarantees()
	g.Found = sdk.FoundGuarantee{Within: time.Minute, Consistent: true}
	w := newWorld(t, withSettings(fake.Settings{Guarantees: &g}))
	e := w.engine()
	w.cloud.Set(fake.Knobs{NotFoundFor: fake.Duration(150 * time.Millisecond)})
	id := w.submit(e, request(spec("true")))
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
}

// hiding answers every look with NotFound while it hides, and counts those.
type hiding struct {
	sdk.JobBatcher
	on   *atomic.Bool
	seen *atomic.Int64
}

func (h hiding) JobStatuses(ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	if h.on.Load() {
		h.seen.Add(1)
		return sdk.JobStatusesResult{}, sdk.Errorf(sdk.NotFound, "status", "no such job")
	}
	return h.JobBatcher.JobStatuses(ctx, r)
}

// TestMissingJobIsTold: a job that its backend doesn't find any more is told of with when it
// counts as lost, once, until it is found again or lost; and one that never showed only
// after a while.
func TestMissingJobIsTold(t *testing.T) {
	const within = 30 * time.Second
	g := fake.BestGuarantees()
	g.Found = sdk.FoundGuarantee{Within: within, Consistent: true}
	var hidden atomic.Bool
	var seen atomic.Int64
	w := newWorld(t, withSettings(fake.Settings{Guarantees: &g}), func(w *world) {
		w.wrap = func(p sdk.Provider) sdk.Provider {
			b, _ := sdk.Of(p, sdk.Batcher())
			d, err := sdk.Decorate(p, map[string]any{sdk.Batcher().String(): hiding{b, &hidden, &seen}})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
	})
	e := w.engine()
	id := w.submit(e, request(spec("hang")))
	w.row(id, "the job runs", func(r ledger.Run) bool { return r.State == sdk.StateRunning })
	hidden.Store(true)
	r := w.row(id, "it is missed", control.Missing)
	w.expect(r, sdk.StateRunning, sdk.ReasonUnknown)
	attempts, err := w.store.Attempts(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if lost := attempts[0].SentAt.Add(within).UTC().Format(time.RFC3339); !strings.Contains(r.Message, "lost if it isn't found by "+lost) {
		t.Errorf("sent %s, and it says %s", attempts[0].SentAt, r.Message)
	}
	hidden.Store(false)
	e.LookNow()
	w.expect(w.row(id, "it is found", func(r ledger.Run) bool { return !control.Missing(r) }), sdk.StateRunning, "")
	hidden.Store(true)
	w.row(id, "it is missed again", control.Missing)
	if err := e.HandOver(w.ctx(), id); err != nil {
		t.Fatal(err)
	}
	next, asked := w.engine(), seen.Load()
	if err := next.Take(w.ctx(), id); err != nil {
		t.Fatal(err)
	}
	w.until("another holder looks", func() bool { return seen.Load() > asked+1 })
	for _, j := range w.cloud.JobsOf(id) {
		w.cloud.Vanish(j)
	}
	w.clock.step(within)
	next.LookNow()
	w.expect(w.wait(next, id, control.MilestoneFinished), sdk.StateLost, sdk.ReasonLost)
	told := 0
	for ev, err := range w.store.Events(t.Context(), ledger.EventFilter{Run: id, Kinds: []ledger.Kind{ledger.KindObserved}}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(ev.Change), "not found since") {
			told++
		}
	}
	if told != 2 {
		t.Errorf("it is on record %d times", told)
	}
	w.sound(id)

	asked = seen.Load()
	id = w.submit(next, request(spec("true")))
	w.until("it is looked at", func() bool { return seen.Load() > asked+1 })
	if r, err := w.store.Run(t.Context(), id); err != nil || control.Missing(r) {
		t.Errorf("missed at once, %v: %s", err, r.Message)
	}
	w.clock.step(control.SilenceLimit)
	next.LookNow()
	w.expect(w.row(id, "it is missed", control.Missing), sdk.StatePending, sdk.ReasonUnknown)
	hidden.Store(false)
	next.LookNow()
	w.expect(w.wait(next, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
	w.sound(id)
}

func TestSilentBackendIsUnknownAfterTheLimit(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	id := w.submit(e, request(spec("sleep", "1s")))
	w.until("the job runs", func() bool {
		r, _ := w.store.Run(t.Context(), id)
		return r.State == sdk.StateRunning
	})
	w.cloud.Inject(fake.Fault{Op: fake.OpJobStatuses, Kind: fake.FaultError, Status: 503, Times: 3})
	w.clock.step(control.ContactLimit + time.Second)
	w.until("the silence is shown", func() bool {
		r, _ := w.store.Run(t.Context(), id)
		return r.State == sdk.StateUnknown || r.State.Terminal()
	})
	if r := w.wait(e, id, control.MilestoneFinished); !r.State.Terminal() {
		t.Fatalf("state %s", r.State)
	}
	w.sound(id)
}

func TestLogsThroughCuts(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	w.cloud.Set(fake.Knobs{LogCut: 37, DuplicateLogs: true})
	id := w.submit(e, request(spec("lines", "50", ";", "sleep", "100ms", ";", "lines", "50")))
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
	got, verdict := w.output(e, id)
	w.cloud.Set(fake.Knobs{})
	ref := w.submit(e, request(spec("lines", "50", ";", "lines", "50")))
	w.wait(e, ref, control.MilestoneFinished)
	want, _ := w.output(e, ref)
	if got[sdk.StreamStdout] != want[sdk.StreamStdout] || verdict != sdk.VerdictComplete {
		t.Fatalf("got %d bytes, want %d; verdict %s", len(got[sdk.StreamStdout]), len(want[sdk.StreamStdout]), verdict)
	}
}

func TestLogFailureChangesNoState(t *testing.T) {
	g := fake.BestGuarantees()
	g.Logs.Settle = sdk.LogSettle{Quiet: 50 * time.Millisecond, Max: 100 * time.Millisecond}
	w := newWorld(t, withSettings(fake.Settings{Guarantees: &g}))
	e := w.engine()
	w.cloud.Inject(fake.Fault{Op: fake.OpJobLogs, Kind: fake.FaultError, Status: 404, Times: 100000})
	id := w.submit(e, request(spec("echo", "x", ";", "exit", "3")))
	r := w.wait(e, id, control.MilestoneFinished)
	w.expect(r, sdk.StateFailed, sdk.ReasonNonzeroExit)
	if r.Verdict != sdk.VerdictUnavailable {
		t.Fatalf("verdict %s", r.Verdict)
	}
	if out, _ := w.output(e, id); len(out) != 0 {
		t.Fatalf("something synthetic in the output: %q", out)
	}
}

// TestLogConflictPasses: a conflict that the backend tells of is none about who has
// the run, and ends no capture.
func TestLogConflictPasses(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	w.cloud.Inject(fake.Fault{Op: fake.OpJobLogs, Kind: fake.FaultError, Status: 409, Times: 2})
	id := w.submit(e, request(spec("echo", "x", ";", "exit", "3")))
	r := w.wait(e, id, control.MilestoneFinished)
	w.expect(r, sdk.StateFailed, sdk.ReasonNonzeroExit)
	if out, _ := w.output(e, id); out[sdk.StreamStdout] != "x\n" || r.Verdict != sdk.VerdictComplete {
		t.Fatalf("output %q, verdict %s", out, r.Verdict)
	}
}

func TestQuietWindow(t *testing.T) {
	g := fake.BestGuarantees()
	g.Logs.EndProven = false
	g.Logs.Settle = sdk.LogSettle{Quiet: 150 * time.Millisecond, Max: 3 * time.Second}
	w := newWorld(t, withSettings(fake.Settings{Guarantees: &g}))
	e := w.engine()
	w.cloud.Set(fake.Knobs{LateLogs: fake.Duration(80 * time.Millisecond)})
	id := w.submit(e, request(spec("echo", "late")))
	r := w.wait(e, id, control.MilestoneFinished)
	out, verdict := w.output(e, id)
	if out[sdk.StreamStdout] != "late\n" || verdict != sdk.VerdictQuiet || r.Verdict != sdk.VerdictQuiet {
		t.Fatalf("output %q verdict %s/%s", out, verdict, r.Verdict)
	}
}

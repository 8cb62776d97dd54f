package control_test

import (
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// TestAbandonWithoutItsProvider gives up runs whose provider was removed, at
// every point at which their holder may have died: each ends as lost, closed,
// with what is left said.
func TestAbandonWithoutItsProvider(t *testing.T) {
	for name, c := range map[string]struct {
		spec sdk.JobSpec
		// until is where the holder dies.
		until func(ledger.Run) bool
		fault *fake.Fault
		// looked: a recovery has shown the run as unknown before.
		looked bool
	}{
		"running": {spec: spec("echo", "x", ";", "hang"), until: func(r ledger.Run) bool { return r.State == sdk.StateRunning }, looked: true},
		"never looked at since": {spec: spec("echo", "x", ";", "hang"),
			until: func(r ledger.Run) bool { return r.State == sdk.StateRunning }},
		"in doubt": {spec: spec("hang"), until: func(r ledger.Run) bool { return r.Phase == ledger.PhaseSubmitting },
			fault: &fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultReset, Times: 100}},
		"after its first attempt": {spec: retried(spec("false")), until: func(r ledger.Run) bool { return r.Phase == ledger.PhaseDrained }, looked: true,
			fault: &fake.Fault{Op: fake.OpCleanupJob, Kind: fake.FaultError, Status: 503, Times: 100}},
		"waiting for its second attempt": {spec: retried(spec("false")), looked: true,
			until: func(r ledger.Run) bool { return r.Attempt == 2 }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if c.fault != nil {
				w.cloud.Inject(*c.fault)
			}
			first := w.engine()
			id := w.submit(first, request(c.spec))
			w.until("the run has come to where its holder dies", func() bool {
				r, err := w.store.Run(t.Context(), id)
				return err == nil && c.until(r)
			})
			first.Crash()
			w.gone = sdk.Errorf(sdk.NotFound, "open provider", "no provider is called fake")
			e := w.engine()
			if c.looked {
				if n, err := e.Recover(w.ctx(), ""); err != nil || n != 0 {
					t.Fatalf("took %d: %v", n, err)
				}
				r, err := w.store.Run(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				w.expect(r, sdk.StateUnknown, sdk.ReasonCredentials)
			}
			if err := e.Abandon(w.ctx(), id, "tester@test", "the account is closed"); err != nil {
				t.Fatal(err)
			}
			r, err := w.store.Run(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if r.State != sdk.StateLost || r.Open() {
				t.Fatalf("run is %s, open %v, phase %s: %s", r.State, r.Open(), r.Phase, r.Message)
			}
			a := w.attempts(id)
			if last := a[len(a)-1]; !last.SentAt.IsZero() && last.State == sdk.StateLost && (last.CleanupErr == "" || !w.warned("windlass reap")) {
				t.Errorf("what is left isn't said: %q, %q", last.CleanupErr, w.warnings)
			}
			if _, ended, err := w.logs.Verdict(joblog.Key{Run: id, Attempt: len(a)}); err != nil || !ended {
				t.Errorf("the log has no end: %v", err)
			}
			w.sound(id)
		})
	}
}

// TestAbandonIsClosedByTheNext: the process that recorded the decision died
// before it could close the run.
func TestAbandonIsClosedByTheNext(t *testing.T) {
	w := newWorld(t)
	first := w.engine()
	id := w.submit(first, request(spec("hang")))
	w.wait(first, id, control.MilestoneSubmitted)
	first.Crash()
	events := []ledger.NewEvent{
		{Attempt: 1, Kind: ledger.KindObserved, Actor: "a", Change: ledger.Change{State: sdk.StateUnknown, Reason: new(sdk.ReasonUnknown)}},
		{Attempt: 1, Kind: ledger.KindAbandoned, Actor: "a", Change: ledger.Change{Phase: ledger.PhaseEnded, State: sdk.StateLost, Reason: new(sdk.ReasonLost)}}}
	if err := w.store.Write(w.ctx(), ledger.Write{Run: id, Events: events}); err != nil {
		t.Fatal(err)
	}
	w.gone = sdk.Errorf(sdk.Unauthenticated, "open provider", "no credentials")
	if _, err := w.engine().Recover(w.ctx(), ""); err != nil {
		t.Fatal(err)
	}
	if r, err := w.store.Run(w.ctx(), id); err != nil || r.Open() || r.State != sdk.StateLost {
		t.Fatalf("run is %s, open %v: %v", r.State, r.Open(), err)
	}
	w.sound(id)
}

// TestLostRunWaitsForItsProvider: a run that was lost on evidence isn't closed
// where its provider can't be opened; who can open it cleans up, and doesn't
// follow the log of a job that runs on for ever.
func TestLostRunWaitsForItsProvider(t *testing.T) {
	w := newWorld(t)
	w.clock.most = 200 * time.Millisecond
	first := w.engine()
	id := w.submit(first, request(spec("hang")))
	w.wait(first, id, control.MilestoneSubmitted)
	first.Crash()
	lost := ledger.NewEvent{Attempt: 1, Kind: ledger.KindEnded, Actor: "a", Change: ledger.Change{Phase: ledger.PhaseEnded, State: sdk.StateLost, Reason: new(sdk.ReasonLost)}}
	if err := w.store.Write(w.ctx(), ledger.Write{Run: id, Events: []ledger.NewEvent{lost}}); err != nil {
		t.Fatal(err)
	}
	w.gone = sdk.Errorf(sdk.Unauthenticated, "open provider", "no credentials")
	if _, err := w.engine().Recover(w.ctx(), ""); err != nil {
		t.Fatal(err)
	}
	if r, err := w.store.Run(w.ctx(), id); err != nil || !r.Open() {
		t.Fatalf("closed: %v", err)
	}
	w.gone = nil
	e := w.engine()
	if n, err := e.Recover(w.ctx(), ""); err != nil || n != 1 {
		t.Fatalf("took %d: %v", n, err)
	}
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateLost, sdk.ReasonLost)
	if w.cloud.Calls(fake.OpCleanupJob) == 0 {
		t.Error("nobody cleaned up")
	}
}

func retried(s sdk.JobSpec) sdk.JobSpec {
	s.Retries = 1
	return s
}

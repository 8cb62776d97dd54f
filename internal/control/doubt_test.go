package control_test

import (
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// tokens are the guarantees of a backend that knows a launch again by its token,
// and lists what it made only later.
func tokens(visible time.Duration) sdk.Guarantees {
	g := fake.BestGuarantees()
	g.Submit = sdk.SubmitGuarantee{By: sdk.SubmitByToken, TokenWindow: time.Minute}
	g.Found = sdk.FoundGuarantee{Within: visible, Consistent: false}
	return g
}

// TestRefusedAgainIsStillInDoubt: the first send may have made its job, and that
// the second is refused says nothing of it.
func TestRefusedAgainIsStillInDoubt(t *testing.T) {
	g := tokens(time.Hour)
	w := newWorld(t, withSettings(fake.Settings{Guarantees: &g}))
	e := w.engine()
	w.cloud.Set(fake.Knobs{Visibility: fake.Duration(time.Hour)})
	w.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultLostReply, Times: 1})
	w.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultError, Status: 400, Times: 100})
	id := w.submit(e, request(spec("true")))
	var r ledger.Run
	w.until("the doubt is shown", func() bool {
		r, _ = w.store.Run(t.Context(), id)
		return r.State == sdk.StateUnknown || r.State.Terminal()
	})
	w.expect(r, sdk.StateUnknown, sdk.ReasonSubmitUnconfirmed)
	if n := w.cloud.Calls(fake.OpRunJob); n != 2 {
		t.Errorf("sent %d times", n)
	}
	if err := e.Abandon(w.ctx(), id, "tester@test", "looked by hand"); err != nil {
		t.Fatal(err)
	}
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateLost, sdk.ReasonSubmitUnconfirmed)
	w.sound(id)
}

// TestThrottledAgainIsSentSoon: too many calls are no refusal: the launch in
// doubt goes out again soon, and is known by its token.
func TestThrottledAgainIsSentSoon(t *testing.T) {
	g := tokens(time.Hour)
	w := newWorld(t, withSettings(fake.Settings{Guarantees: &g}))
	e := w.engine()
	w.cloud.Set(fake.Knobs{Visibility: fake.Duration(time.Hour)})
	w.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultLostReply, Times: 1})
	w.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultError, Status: 429, Times: 2})
	id := w.submit(e, request(spec("true")))
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
	if n := w.cloud.Calls(fake.OpRunJob); n != 4 {
		t.Errorf("sent %d times", n)
	}
	w.sound(id)
}

// TestCancelInDoubtEnds: a launch that never arrived can't be proven absent on a
// backend whose lists lag. Past the time in which it would be listed, the token
// settles it: sent again, it gives the one job that there is, which is ended.
func TestCancelInDoubtEnds(t *testing.T) {
	g := tokens(300 * time.Millisecond)
	w := newWorld(t, withSettings(fake.Settings{Guarantees: &g}))
	e := w.engine()
	// The cancel is known for sure once the second send was lost as well.
	w.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultReset, Times: 2})
	entered, release := w.cloud.Block(fake.OpFindJobs)
	id := w.submit(e, request(spec("hang")))
	<-entered
	if err := e.Cancel(w.ctx(), control.CancelRequest{Run: id, Actor: "tester@test"}); err != nil {
		t.Fatal(err)
	}
	release()
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateCancelled, sdk.ReasonCancelled)
	if n := w.cloud.Calls(fake.OpRunJob); n != 3 {
		t.Errorf("sent %d times", n)
	}
	if left := w.cloud.Jobs(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	w.sound(id)
}

// TestCancelInDoubt: what a launch in doubt made is found and ended; a cancel of
// it is no proof that there was nothing.
func TestCancelInDoubt(t *testing.T) {
	g := tokens(400 * time.Millisecond)
	w := newWorld(t, withSettings(fake.Settings{Guarantees: &g}))
	e := w.engine()
	w.cloud.Set(fake.Knobs{Visibility: fake.Duration(400 * time.Millisecond)})
	w.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultLostReply, Times: 1})
	entered, release := w.cloud.Block(fake.OpFindJobs)
	id := w.submit(e, request(spec("hang")))
	<-entered
	if err := e.Cancel(w.ctx(), control.CancelRequest{Run: id, Actor: "tester@test"}); err != nil {
		t.Fatal(err)
	}
	release()
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateCancelled, sdk.ReasonCancelled)
	if n := w.cloud.Calls(fake.OpCancelJob); n == 0 {
		t.Error("cancelled on record alone")
	}
	if left := w.cloud.Jobs(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	w.sound(id)
}

// TestSecondSendInDoubt: where only a search tells, what is not yet listed may
// come of the newest send, not only of the first.
func TestSecondSendInDoubt(t *testing.T) {
	const within = 400 * time.Millisecond
	g := fake.BestGuarantees()
	g.Submit = sdk.SubmitGuarantee{By: sdk.SubmitBySearch}
	g.Found = sdk.FoundGuarantee{Within: within, Consistent: true}
	w := newWorld(t, withSettings(fake.Settings{Guarantees: &g}))
	e := w.engine()
	w.cloud.Set(fake.Knobs{Visibility: fake.Duration(within)})
	w.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultReset, Times: 1})
	w.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultLostReply, Nth: 2})
	id := w.submit(e, request(spec("true")))
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
	if a := w.attempts(id); len(a) != 1 || w.cloud.Made(a[0].ID) != 1 {
		t.Errorf("%d attempts, the first made %d objects", len(a), w.cloud.Made(a[0].ID))
	}
	if n := w.cloud.Calls(fake.OpRunJob); n != 2 {
		t.Errorf("sent %d times", n)
	}
	w.sound(id)
}

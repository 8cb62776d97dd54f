package control_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// resources opens the cloud's resources as a process did that died since.
func (w *world) resources() sdk.ResourceDriver {
	w.t.Helper()
	p, err := fake.NewDriver(w.cloud, w.set).Open(w.ctx(), sdk.OpenRequest{Name: "fake", Clock: w.clock, Owner: w.store.ID(), LedgerID: w.store.ID(), StateDir: w.t.TempDir()})
	if err != nil {
		w.t.Fatal(err)
	}
	d, _ := sdk.Of(p, sdk.Resources())
	return d
}

// deadChange is a change whose process was killed: its row, and the call where that
// was made.
type deadChange struct {
	action string
	// before is what was there, made is what the call was for; empty is none.
	before, config string
	replicas       int
	sent           bool
	// meanwhile, where not empty, is done by somebody else afterwards.
	meanwhile string

	state sdk.JobState
	words string
	// at once: it is told at once, also of a change that may still come. What isn't
	// proven and isn't told at once is told once that can't be any more.
	atOnce bool
}

// leave leaves the row of a change of the box "a".
func (c deadChange) leave(w *world, e *control.Engine) sdk.ID {
	w.t.Helper()
	if c.before != "" {
		w.apply(e, box("a", c.before), false)
	}
	back, err := fake.NewDriver(w.cloud, w.set).Open(w.ctx(), sdk.OpenRequest{Name: "fake", Clock: w.clock, StateDir: w.t.TempDir()})
	if err != nil {
		w.t.Fatal(err)
	}
	spec := fmt.Sprintf(`{"config":%q,"name":"a","replicas":%d,"type":"fake.box","v":1}`, c.config, c.replicas)
	id := w.rowOfTheDead(ledger.Requested{Action: "resource." + c.action, Target: "fake.box/a", Name: "a", Identity: back.Info().Identity, Spec: []byte(spec)})
	if c.sent {
		c.send(w, id)
	}
	if c.meanwhile != "" {
		other := deadChange{action: "update", config: c.meanwhile}
		other.send(w, sdk.NewIDSource(w.clock).NewID())
	}
	return id
}

// send makes the call.
func (c deadChange) send(w *world, id sdk.ID) {
	w.t.Helper()
	d, ref := w.resources(), sdk.ResourceRef{Name: "a", Type: fake.TypeBox}
	want := sdk.ResourceSpec{Name: "a", Type: fake.TypeBox, Config: []byte(c.config)}
	var err error
	switch c.action {
	case "create":
		_, err = d.CreateResource(w.ctx(), sdk.CreateResourceRequest{OpID: id, Spec: want})
	case "update":
		_, err = d.UpdateResource(w.ctx(), sdk.UpdateResourceRequest{OpID: id, Ref: ref, Spec: want})
	case "scale":
		_, err = d.ScaleResource(w.ctx(), sdk.ScaleResourceRequest{OpID: id, Ref: ref, Replicas: c.replicas})
	case "delete":
		_, err = d.DeleteResource(w.ctx(), sdk.DeleteResourceRequest{OpID: id, Ref: ref})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func deadChanges() map[string]deadChange {
	return map[string]deadChange{
		"create, sent":                      {action: "create", config: `{"label":"x"}`, sent: true, state: sdk.StateSucceeded},
		"create, not sent":                  {action: "create", config: `{"label":"x"}`, state: sdk.StateLost, words: "it isn't there now"},
		"create of another's name":          {action: "create", before: `{"label":"x"}`, config: `{"label":"x"}`, state: sdk.StateLost, words: "its latest change is another"},
		"create with a secret":              {action: "create", config: `{"key":"` + sdk.Redacted + `"}`, sent: true, state: sdk.StateLost, words: "doesn't keep its secret values", atOnce: true},
		"create that is changed since":      {action: "create", config: `{"label":"x"}`, sent: true, meanwhile: `{"label":"y"}`, state: sdk.StateLost, words: "it is there now"},
		"update, sent":                      {action: "update", before: `{"label":"x"}`, config: `{"label":"y"}`, sent: true, state: sdk.StateSucceeded},
		"update, not sent":                  {action: "update", before: `{"label":"x"}`, config: `{"label":"y"}`, state: sdk.StateLost, words: "it is there now"},
		"update, not sent and done by else": {action: "update", before: `{"label":"x"}`, config: `{"label":"y"}`, meanwhile: `{"label":"y"}`, state: sdk.StateLost, words: "its latest change is another"},
		"scale, sent":                       {action: "scale", before: `{}`, replicas: 3, sent: true, state: sdk.StateSucceeded},
		"scale, not sent":                   {action: "scale", before: `{}`, replicas: 3, state: sdk.StateLost, words: "it is there now"},
		"delete, sent":                      {action: "delete", before: `{}`, sent: true, state: sdk.StateSucceeded},
		"delete, not sent":                  {action: "delete", before: `{}`, state: sdk.StateLost, words: "it is there now"},
	}
}

// callTime is the time that a call has by default.
const callTime = 30 * time.Second

func withCallTime(w *world) { w.back.CallTimeout = callTime }

// TestF75ResourceRowOfTheDead writes the row of a resource's change whose process was
// killed, before the call or after it. A recovery, a look at what was left and the next
// change of the resource each close it by what the backend tells: a proof at once, what
// proves nothing once the call can't come to anything any more.
func TestF75ResourceRowOfTheDead(t *testing.T) {
	for _, by := range []string{"recovery", "look", "next change"} {
		for name, c := range deadChanges() {
			t.Run(by+"/"+name, func(t *testing.T) {
				w := newWorld(t, withCallTime)
				e := w.engine()
				id := c.leave(w, e)
				if !c.atOnce && c.state != sdk.StateSucceeded {
					w.tooEarly(e, id, by)
					w.clock.step(2 * callTime)
				}
				var err error
				switch by {
				case "recovery":
					_, err = e.Recover(w.ctx(), "")
				case "look":
					var settled []control.SettledAction
					if settled, err = e.SettleActions(w.ctx()); err == nil && (len(settled) != 1 || settled[0].Run.ID != id || settled[0].Run.Open() || settled[0].Err != nil) {
						t.Errorf("settled %+v", settled)
					}
				case "next change":
					_, err = e.ApplyResource(w.ctx(), box("a", `{"label":"next"}`), false)
				}
				if err != nil {
					t.Fatal(err)
				}
				run, detail := w.rowOf(id)
				if run.State != c.state || run.Open() || !strings.Contains(run.Message, c.words) {
					t.Errorf("the row is %s (%s), want %s with %q", run.State, run.Message, c.state, c.words)
				}
				if c.state == sdk.StateLost && run.Reason != sdk.ReasonSubmitUnconfirmed {
					t.Errorf("reason %s", run.Reason)
				}
				if (detail["read_back"] == "true") != (c.state == sdk.StateSucceeded) || c.action == "create" && c.state == sdk.StateSucceeded && detail["provider_id"] == "" {
					t.Errorf("detail %v", detail)
				}
				w.sound(id)
			})
		}
	}
}

// tooEarly has a look come before the call of the row's change can't come to anything any
// more: the row stays open, says why, and no call is made.
func (w *world) tooEarly(e *control.Engine, id sdk.ID, by string) {
	w.t.Helper()
	calls, rows := w.changes(), w.rows()
	w.askEarly(e, by, control.ErrResourceUnconfirmed, func() error {
		_, err := e.ApplyResource(w.ctx(), box("a", `{"label":"next"}`), false)
		return err
	})
	run, _ := w.rowOf(id)
	if run.State != sdk.StateUnknown || run.Reason != sdk.ReasonSubmitUnconfirmed || !run.Open() || !run.Holder.IsZero() || !strings.Contains(run.Message, "may still come") {
		w.t.Errorf("row %+v", run)
	}
	if w.changes() != calls || w.rows() != rows {
		w.t.Errorf("%d calls, before %d; %d rows, before %d", w.changes(), calls, w.rows(), rows)
	}
}

// askEarly has a recovery, a look or a next change come while the call of a row may still
// come: a look says so, and a next change is refused with that and the time to wait.
func (w *world) askEarly(e *control.Engine, by, refusal string, next func() error) {
	w.t.Helper()
	why := ""
	switch by {
	case "recovery":
		if _, err := e.Recover(w.ctx(), ""); err != nil {
			w.t.Fatal(err)
		}
		return
	case "look":
		settled, err := e.SettleActions(w.ctx())
		if err != nil || len(settled) != 1 || !settled[0].Run.Open() || settled[0].Err == nil || !sdk.IsRetryable(settled[0].Err) {
			w.t.Fatalf("settled %+v, %v", settled, err)
		}
		why = settled[0].Err.Error()
	case "next change":
		err := next()
		var x *sdk.Error
		if !errors.As(err, &x) || x.ID != refusal || x.RetryAfter <= 0 || x.RetryAfter > callTime || !strings.Contains(x.Remedy, "repeat it in ") {
			w.t.Fatalf("the next change: %v", err)
		}
		why = err.Error()
	default:
		w.t.Fatalf("nothing comes by %q", by)
	}
	if !strings.Contains(why, "may still come: a call has 30s") {
		w.t.Errorf("it says %s", why)
	}
}

// changes is how many calls were made that change a resource.
func (w *world) changes() (n int) {
	for _, op := range []fake.Op{fake.OpCreateResource, fake.OpUpdateResource, fake.OpDeleteResource, fake.OpScaleResource} {
		n += w.cloud.Calls(op)
	}
	return n
}

// TestF75ResourceIsStillInTheMaking has what a killed command asked for come after the first
// look: the row waits for it, and tells the truth.
func TestF75ResourceIsStillInTheMaking(t *testing.T) {
	for name, c := range deadChanges() {
		if c.sent || c.atOnce || c.meanwhile != "" || c.action == "create" && c.before != "" {
			continue // nothing comes any more
		}
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withCallTime)
			e := w.engine()
			id := c.leave(w, e)
			w.tooEarly(e, id, "look")
			c.send(w, id)
			settled, err := e.SettleActions(w.ctx())
			if err != nil || len(settled) != 1 || settled[0].Err != nil {
				t.Errorf("settled %+v, %v", settled, err)
			}
			run, _ := w.rowOf(id)
			w.expect(run, sdk.StateSucceeded, sdk.ReasonCompleted)
			w.sound(id)
		})
	}
}

// TestF75ResourceIsSaidToBeInTheMaking: so long as the backend says that it is at a change,
// the row of a killed command stays open, however old it is.
func TestF75ResourceIsSaidToBeInTheMaking(t *testing.T) {
	w := newWorld(t, withCallTime)
	e := w.engine()
	c := deadChanges()["delete, not sent"]
	id := c.leave(w, e)
	w.clock.step(2 * callTime)
	said := &saying{status: "DELETE_IN_PROGRESS"}
	w.wrap = func(p sdk.Provider) sdk.Provider {
		d, _ := sdk.Of(p, sdk.Resources())
		said.ResourceDriver = d
		out, err := sdk.Decorate(p, map[string]any{sdk.Resources().String(): said})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	e = w.engine()
	settled, err := e.SettleActions(w.ctx())
	if err != nil || len(settled) != 1 || settled[0].Err == nil || !settled[0].Run.Open() || !strings.Contains(settled[0].Err.Error(), "says that it is DELETE_IN_PROGRESS") {
		t.Fatalf("settled %+v, %v", settled, err)
	}
	said.status = "there"
	if settled, err = e.SettleActions(w.ctx()); err != nil || len(settled) != 1 || settled[0].Err != nil {
		t.Errorf("settled %+v, %v", settled, err)
	}
	run, _ := w.rowOf(id)
	w.expect(run, sdk.StateLost, sdk.ReasonSubmitUnconfirmed)
}

// saying says another status of each resource.
type saying struct {
	sdk.ResourceDriver
	status string
}

func (s *saying) ReadResource(ctx context.Context, r sdk.ReadResourceRequest) (sdk.ReadResourceResult, error) {
	res, err := s.ResourceDriver.ReadResource(ctx, r)
	res.Output.Status = s.status
	return res, err
}

// TestResourceClockSetBack: a row from the future, by more than a call may take, is as good
// as an old one; nothing stays open for as long as a clock was wrong.
func TestResourceClockSetBack(t *testing.T) {
	w := newWorld(t, withCallTime)
	e := w.engine()
	id := deadChanges()["create, not sent"].leave(w, e)
	w.clock.step(-callTime / 2)
	w.tooEarly(e, id, "look")
	w.clock.step(-time.Hour)
	if settled, err := e.SettleActions(w.ctx()); err != nil || len(settled) != 1 || settled[0].Err != nil {
		t.Errorf("settled %+v, %v", settled, err)
	}
	run, _ := w.rowOf(id)
	w.expect(run, sdk.StateLost, sdk.ReasonSubmitUnconfirmed)
}

// TestResourceRowStaysOpenWhileNobodyAnswers: a look that fails is no end. The row stays
// open and says why, the next change is refused with its name, and the first look that is
// answered closes it.
func TestResourceRowStaysOpenWhileNobodyAnswers(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	id := deadChanges()["create, sent"].leave(w, e)
	w.cloud.Inject(fake.Fault{Op: fake.OpReadResource, Kind: fake.FaultReset, Times: 2})
	settled, err := e.SettleActions(w.ctx())
	if err != nil || len(settled) != 1 || settled[0].Err == nil || !settled[0].Run.Open() {
		t.Fatalf("settled %+v, %v", settled, err)
	}
	run, _ := w.rowOf(id)
	if run.State != sdk.StateUnknown || !strings.Contains(run.Message, "can't be told") || !run.Holder.IsZero() {
		t.Errorf("row %+v", run)
	}
	_, err = e.ApplyResource(w.ctx(), box("a", `{"label":"y"}`), false)
	var x *sdk.Error
	if !errors.As(err, &x) || x.ID != control.ErrResourceUnconfirmed || x.Remedy == "" || !strings.Contains(err.Error(), "dead@test") || w.rows() != 1 {
		t.Errorf("got %v, %d rows", err, w.rows())
	}
	w.apply(e, box("a", `{"label":"y"}`), false)
	run, _ = w.rowOf(id)
	w.expect(run, sdk.StateSucceeded, sdk.ReasonCompleted)
	w.sound(id)
}

// TestRecoveryAsksNotAllTheTime: a recovery, which a keeper makes every few seconds, asks a
// backend that can't be asked once a minute; a person's look asks each time.
func TestRecoveryAsksNotAllTheTime(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	id := deadChanges()["create, sent"].leave(w, e)
	w.cloud.Inject(fake.Fault{Op: fake.OpReadResource, Kind: fake.FaultReset, Times: 3})
	recovered := func(reads int) {
		t.Helper()
		if _, err := e.Recover(w.ctx(), ""); err != nil {
			t.Fatal(err)
		}
		if n := w.cloud.Calls(fake.OpReadResource); n != reads {
			t.Errorf("%d reads, want %d", n, reads)
		}
		if r, err := w.store.Run(w.ctx(), id); err != nil || r.Open() && !r.Holder.IsZero() {
			t.Errorf("row %+v, %v", r, err)
		}
	}
	recovered(1)
	recovered(1)
	if settled, err := e.SettleActions(w.ctx()); err != nil || len(settled) != 1 || settled[0].Err == nil {
		t.Errorf("settled %+v, %v", settled, err)
	}
	recovered(2)
	w.clock.step(time.Minute)
	recovered(3)
	w.clock.step(time.Minute)
	recovered(4)
	run, _ := w.rowOf(id)
	w.expect(run, sdk.StateSucceeded, sdk.ReasonCompleted)
}

// TestLeavingALookSaysNothing: who is interrupted while a change is looked up leaves its
// row as it was, for the next look.
func TestLeavingALookSaysNothing(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	id := deadChanges()["create, sent"].leave(w, e)
	entered, release := w.cloud.Block(fake.OpReadResource)
	defer release()
	ctx, leave := context.WithCancel(w.ctx())
	go func() {
		<-entered
		leave()
	}()
	if _, err := e.SettleActions(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if run, _ := w.rowOf(id); run.State != sdk.StatePending || !run.Holder.IsZero() {
		t.Errorf("row %+v", run)
	}
	release()
	if settled, err := e.SettleActions(w.ctx()); err != nil || len(settled) != 1 || settled[0].Err != nil {
		t.Errorf("settled %+v, %v", settled, err)
	}
}

// TestResourceInDoubtWhileNobodyAnswers: so it is for a lost reply that can't be read
// back: the row stays open until somebody can.
func TestResourceInDoubtWhileNobodyAnswers(t *testing.T) {
	w := newWorld(t)
	first := w.engine()
	w.cloud.Inject(fake.Fault{Op: fake.OpCreateResource, Kind: fake.FaultLostReply})
	w.cloud.Inject(fake.Fault{Op: fake.OpReadResource, Kind: fake.FaultReset, Nth: 2})
	out, err := first.ApplyResource(w.ctx(), box("a", `{"label":"x"}`), false)
	var doubt *sdk.Error
	if !errors.As(err, &doubt) || doubt.ID != control.ErrResourceUnconfirmed || len(out.Rows) != 1 {
		t.Fatalf("got %+v, %v", out, err)
	}
	run, _ := w.rowOf(out.Rows[0])
	if run.State != sdk.StateUnknown || run.Reason != sdk.ReasonSubmitUnconfirmed || !run.Open() {
		t.Errorf("row %+v", run)
	}
	first.Crash()
	if out := w.apply(w.engine(), box("a", `{"label":"x"}`), false); out.Action != control.ResourceNothing {
		t.Errorf("%+v", out)
	}
	run, _ = w.rowOf(run.ID)
	w.expect(run, sdk.StateSucceeded, sdk.ReasonCompleted)
	w.sound(run.ID)
}

// TestSettleLeavesTheLiving: a change that goes on isn't anybody else's to close, and a
// run is none.
func TestSettleLeavesTheLiving(t *testing.T) {
	w := newWorld(t)
	a, b := w.engine(), w.engine()
	entered, release := w.cloud.Block(fake.OpCreateResource)
	defer release()
	done := make(chan error, 1)
	go func() {
		_, err := a.ApplyResource(w.ctx(), box("a", "{}"), false)
		done <- err
	}()
	<-entered
	dead := w.engine()
	run := w.submit(dead, request(spec("hang")))
	w.running(run)
	dead.Crash()
	if settled, err := b.SettleActions(w.ctx()); err != nil || len(settled) != 0 {
		t.Errorf("settled %+v, %v", settled, err)
	}
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if r, err := w.store.Run(w.ctx(), run); err != nil || !r.Open() || len(b.Held()) != 0 {
		t.Errorf("run %+v, %v, holds %v", r, err, b.Held())
	}
	w.cancel(b, run)
	w.expect(w.wait(b, run, control.MilestoneFinished), sdk.StateCancelled, sdk.ReasonCancelled)
}

// TestHangingSettleHoldsUpNoRun: runs are taken up, whatever a dead change's backend does.
func TestHangingSettleHoldsUpNoRun(t *testing.T) {
	w := newWorld(t)
	first := w.engine()
	run := w.submit(first, request(spec("hang")))
	w.running(run)
	deadChanges()["create, sent"].leave(w, first)
	first.Crash()
	_, release := w.cloud.Block(fake.OpReadResource)
	defer release()
	e := w.engine()
	ctx, cancel := context.WithCancel(w.ctx())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := e.Recover(ctx, "")
		done <- err
	}()
	w.row(run, "it is driven", func(r ledger.Run) bool { return len(e.Held()) == 1 })
	w.cancel(e, run)
	w.expect(w.wait(e, run, control.MilestoneFinished), sdk.StateCancelled, sdk.ReasonCancelled)
	release()
	if err := testwait.Receive(t, patience, "end of the recovery", done); err != nil {
		t.Error(err)
	}
}

// TestDeadSessionOfTarget: the row of a session whose process died is closed by the next
// change and the next session of the workload.
func TestDeadSessionOfTarget(t *testing.T) {
	for _, by := range []string{"change", "session", "look"} {
		t.Run(by, func(t *testing.T) {
			w := newWorld(t)
			api := w.live("api", 2)
			e := w.engine()
			back, err := fake.NewDriver(w.cloud, w.set).Open(w.ctx(), sdk.OpenRequest{Name: "fake", Clock: w.clock, StateDir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			id := w.rowOfTheDead(ledger.Requested{Action: "svc.exec", Target: api.String(), Identity: back.Info().Identity, Spec: []byte(`{"command":["dHJ1ZQ=="]}`)})
			switch by {
			case "change":
				_, err = e.Workloads().Restart(w.ctx(), on(api))
			case "session":
				_, err = e.Workloads().Exec(w.ctx(), control.ExecRequest{ChangeRequest: on(api), Session: sdk.ExecWorkloadRequest{Command: sdk.Argv{"true"}}})
			case "look":
				_, err = e.SettleActions(w.ctx())
			}
			if err != nil {
				t.Fatal(err)
			}
			run, _ := w.rowOf(id)
			w.expect(run, sdk.StateLost, sdk.ReasonLost)
			w.sound(id)
		})
	}
}

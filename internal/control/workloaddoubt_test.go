package control_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

func TestWorkloadLostReply(t *testing.T) {
	for name, tc := range map[string]struct {
		kind   fake.FaultKind
		by     sdk.OpFoundBy
		state  sdk.JobState
		reason sdk.Reason
		open   bool
		made   int
	}{
		"lost, found in the history":   {fake.FaultLostReply, sdk.OpInHistory, sdk.StateSucceeded, sdk.ReasonCompleted, false, 2},
		"lost, found on the object":    {fake.FaultLostReply, sdk.OpOnObject, sdk.StateSucceeded, sdk.ReasonCompleted, false, 2},
		"lost, kept nowhere":           {fake.FaultLostReply, sdk.OpNowhere, sdk.StateUnknown, sdk.ReasonSubmitUnconfirmed, true, 2},
		"never sent, proven":           {fake.FaultReset, sdk.OpInHistory, sdk.StateFailed, sdk.ReasonInfrastructure, false, 1},
		"never sent, proven by object": {fake.FaultReset, sdk.OpOnObject, sdk.StateFailed, sdk.ReasonInfrastructure, false, 1},
		"never sent, kept nowhere":     {fake.FaultReset, sdk.OpNowhere, sdk.StateUnknown, sdk.ReasonSubmitUnconfirmed, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := fake.BestGuarantees()
			g.Workload.Ops.By = tc.by
			w := newWorld(t, withSettings(fake.Settings{Guarantees: &g}))
			rt := w.engine().Workloads()
			api := w.live("api", 2)
			w.cloud.Inject(fake.Fault{Op: fake.OpScaleWorkload, Kind: tc.kind})
			c, err := rt.Scale(w.ctx(), on(api), 4)
			if (err == nil) != (tc.state == sdk.StateSucceeded) || c.ReadBack != (err == nil) {
				t.Errorf("read back %t, %v", c.ReadBack, err)
			}
			var e *sdk.Error
			if tc.open && (!errors.As(err, &e) || e.ID != control.ErrWorkloadUnconfirmed || e.Remedy == "") {
				t.Errorf("got %v", err)
			}
			r := w.onlyRow()
			w.expect(r, tc.state, tc.reason)
			if r.Open() != tc.open {
				t.Errorf("open %t", r.Open())
			}
			if n := w.cloud.Versions(api.Path); n != tc.made || w.cloud.Calls(fake.OpScaleWorkload) != 1 {
				t.Errorf("%d versions, %d calls", n, w.cloud.Calls(fake.OpScaleWorkload))
			}
			if !tc.open {
				return
			}
			// The next change closes the row first: it can't be told any more.
			if _, err := rt.Restart(w.ctx(), on(api)); err != nil {
				t.Fatal(err)
			}
			rows := w.liveRows()
			w.expect(rows[0], sdk.StateLost, sdk.ReasonSubmitUnconfirmed)
			w.expect(rows[1], sdk.StateSucceeded, sdk.ReasonCompleted)
			w.sound(rows[0].ID)
		})
	}
}

// rowOfTheDead writes the row of an action whose process was killed.
func (w *world) rowOfTheDead(q ledger.Requested) sdk.ID {
	w.t.Helper()
	id := sdk.NewIDSource(w.clock).NewID()
	q.Actor, q.Provider = "dead@test", "fake"
	if err := w.store.Write(w.ctx(), ledger.Write{Run: id, Events: []ledger.NewEvent{{Kind: ledger.KindRequested, Actor: q.Actor,
		Change: ledger.Change{V: ledger.ChangeVersion, Requested: &q}}}}); err != nil {
		w.t.Fatal(err)
	}
	return id
}

// TestWorkloadRowOfTheDead writes the row of a process that was killed. A recovery, a look
// at what was left and the next change each close it by what the backend tells: a change
// that it has at once, one that it hasn't once the call can't come to anything any more.
func TestWorkloadRowOfTheDead(t *testing.T) {
	for _, by := range []string{"recovery", "look", "next change"} {
		for _, when := range []string{"never sent", "sent", "sent late"} {
			t.Run(by+", "+when, func(t *testing.T) {
				w := newWorld(t, withCallTime)
				api := w.live("api", 2)
				e := w.engine()
				id, send := w.deadScale(api)
				if when == "sent" {
					send()
				} else {
					w.scaleMayCome(e, id, api, by)
				}
				want := sdk.StateSucceeded
				switch when {
				case "sent late":
					send()
					w.clock.step(settledAgain) // a recovery doesn't ask all the time
				case "never sent":
					want = sdk.StateFailed
					w.clock.step(2 * callTime)
				}
				var err error
				switch by {
				case "recovery":
					_, err = e.Recover(w.ctx(), "")
				case "look":
					var settled []control.SettledAction
					if settled, err = e.SettleActions(w.ctx()); err == nil && (len(settled) != 1 || settled[0].Run.ID != id || settled[0].Err != nil) {
						t.Errorf("settled %+v", settled)
					}
				case "next change":
					_, err = e.Workloads().Restart(w.ctx(), on(api))
				}
				if err != nil {
					t.Fatal(err)
				}
				rows := w.liveRows()
				if rows[0].State != want || rows[0].Open() || w.detail(id)["read_back"] != "true" {
					t.Errorf("the row is %s (%s), detail %v; want %s", rows[0].State, rows[0].Message, w.detail(id), want)
				}
				w.sound(id)
			})
		}
	}
}

// settledAgain is when a recovery asks again for what could not be told.
const settledAgain = time.Minute

// deadScale leaves the row of a scale whose process was killed before its call, and
// returns what makes the call after all.
func (w *world) deadScale(api sdk.Target) (id sdk.ID, send func()) {
	w.t.Helper()
	back, err := fake.NewDriver(w.cloud, w.set).Open(w.ctx(), sdk.OpenRequest{Name: "fake", Clock: w.clock, StateDir: w.t.TempDir()})
	if err != nil {
		w.t.Fatal(err)
	}
	id = w.rowOfTheDead(ledger.Requested{Action: "svc.scale", Target: api.String(), Identity: back.Info().Identity, Settings: []byte(`{"before":{"generation":"1"},"v":1}`)})
	return id, func() {
		w.t.Helper()
		s, _ := sdk.Of(back, sdk.WorkloadScales())
		if _, err := s.ScaleWorkload(w.ctx(), sdk.ScaleWorkloadRequest{Op: sdk.OpRequest{OpID: id, Path: api.Path}, Replicas: 6}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// scaleMayCome has a look come before the call of a dead scale can't come to anything any
// more: the row stays open, says why, and nothing is changed.
func (w *world) scaleMayCome(e *control.Engine, id sdk.ID, api sdk.Target, by string) {
	w.t.Helper()
	w.askEarly(e, by, control.ErrWorkloadBusy, func() error {
		_, err := e.Workloads().Restart(w.ctx(), on(api))
		if err == nil || !strings.Contains(err.Error(), "svc.scale by dead@test") {
			w.t.Errorf("the next change: %v", err)
		}
		return err
	})
	rows := w.liveRows()
	if len(rows) != 1 || rows[0].ID != id || !rows[0].Open() || !rows[0].Holder.IsZero() || !strings.Contains(rows[0].Message, "may still come") {
		w.t.Fatalf("rows %+v", rows)
	}
	w.expect(rows[0], sdk.StateUnknown, sdk.ReasonSubmitUnconfirmed)
	if n := w.cloud.Calls(fake.OpScaleWorkload) + w.cloud.Calls(fake.OpRestartWorkload); n != 0 {
		w.t.Errorf("%d changes", n)
	}
}

// TestUnansweredLookLeavesRowOpen: what can't be told at the moment is no end. A later
// change is refused until it can, and then the row gets the truth.
func TestUnansweredLookLeavesRowOpen(t *testing.T) {
	w := newWorld(t)
	api := w.live("api", 2)
	e := w.engine()
	id, send := w.deadScale(api)
	send()
	// The first look shows that the workload is there; those for the change fail.
	w.cloud.Inject(fake.Fault{Op: fake.OpWorkloadStatus, Kind: fake.FaultReset, Nth: int64(w.cloud.Calls(fake.OpWorkloadStatus)) + 2, Times: 4})
	_, err := e.Workloads().Restart(w.ctx(), on(api))
	var x *sdk.Error
	if !errors.As(err, &x) || x.ID != control.ErrWorkloadBusy || x.Remedy == "" || !strings.Contains(err.Error(), "dead@test") {
		t.Errorf("got %v", err)
	}
	if rows := w.liveRows(); len(rows) != 1 || !rows[0].Open() || w.cloud.Calls(fake.OpRestartWorkload) != 0 {
		t.Errorf("rows %+v, %d restarts", rows, w.cloud.Calls(fake.OpRestartWorkload))
	}
	if _, err := e.Workloads().Restart(w.ctx(), on(api)); err != nil {
		t.Fatal(err)
	}
	rows := w.liveRows()
	w.expect(rows[0], sdk.StateSucceeded, sdk.ReasonCompleted)
	w.sound(id)
}

package control_test

import (
	"errors"
	"strings"
	"testing"

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

// TestWorkloadRowOfTheDead writes the row of a process that was killed, and has a
// recovery or the next change close it by what the backend tells.
func TestWorkloadRowOfTheDead(t *testing.T) {
	for _, by := range []string{"recovery", "next change"} {
		for name, sent := range map[string]bool{"before the call": false, "after the call": true} {
			t.Run(by+", "+name, func(t *testing.T) {
				w := newWorld(t)
				api := w.live("api", 2)
				e := w.engine()
				back, err := fake.NewDriver(w.cloud, w.set).Open(w.ctx(), sdk.OpenRequest{Name: "fake", Clock: w.clock, StateDir: t.TempDir()})
				if err != nil {
					t.Fatal(err)
				}
				id := w.rowOfTheDead(ledger.Requested{Action: "svc.scale", Target: api.String(), Identity: back.Info().Identity, Settings: []byte(`{"before":{"generation":"1"},"v":1}`)})
				want := sdk.StateFailed
				if sent {
					want = sdk.StateSucceeded
					s, _ := sdk.Of(back, sdk.WorkloadScales())
					if _, err := s.ScaleWorkload(w.ctx(), sdk.ScaleWorkloadRequest{Op: sdk.OpRequest{OpID: id, Path: api.Path}, Replicas: 6}); err != nil {
						t.Fatal(err)
					}
				}
				if by == "recovery" {
					_, err = e.Recover(w.ctx(), "")
				} else {
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

// TestUnansweredLookLeavesRowOpen: what can't be told at the moment is no end. A later
// change is refused until it can, and then the row gets the truth.
func TestUnansweredLookLeavesRowOpen(t *testing.T) {
	w := newWorld(t)
	api := w.live("api", 2)
	e := w.engine()
	back, err := fake.NewDriver(w.cloud, w.set).Open(w.ctx(), sdk.OpenRequest{Name: "fake", Clock: w.clock, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	id := w.rowOfTheDead(ledger.Requested{Action: "svc.scale", Target: api.String(), Identity: back.Info().Identity, Settings: []byte(`{"before":{"generation":"1"},"v":1}`)})
	s, _ := sdk.Of(back, sdk.WorkloadScales())
	if _, err := s.ScaleWorkload(w.ctx(), sdk.ScaleWorkloadRequest{Op: sdk.OpRequest{OpID: id, Path: api.Path}, Replicas: 6}); err != nil {
		t.Fatal(err)
	}
	// The first look shows that the workload is there; those for the change fail.
	w.cloud.Inject(fake.Fault{Op: fake.OpWorkloadStatus, Kind: fake.FaultReset, Nth: int64(w.cloud.Calls(fake.OpWorkloadStatus)) + 2, Times: 4})
	_, err = e.Workloads().Restart(w.ctx(), on(api))
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

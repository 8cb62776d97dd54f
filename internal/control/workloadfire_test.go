package control_test

import (
	"fmt"
	"testing"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// fired are the verbs that change a workload, each with what it calls and how it
// leaves the workload.
func fired(rt *control.WorkloadRuntime, api sdk.Target) map[fake.Op]struct {
	change func(w *world) (control.Change, error)
	want   func(st sdk.DeploymentStatus) bool
} {
	type verb = struct {
		change func(w *world) (control.Change, error)
		want   func(st sdk.DeploymentStatus) bool
	}
	return map[fake.Op]verb{
		fake.OpScaleWorkload: {func(w *world) (control.Change, error) { return rt.Scale(w.ctx(), on(api), 5) },
			func(st sdk.DeploymentStatus) bool { return *st.Desired == 5 }},
		fake.OpStopWorkload: {func(w *world) (control.Change, error) { return rt.Stop(w.ctx(), on(api)) },
			func(st sdk.DeploymentStatus) bool { return st.Stopped }},
		fake.OpRestartWorkload: {func(w *world) (control.Change, error) { return rt.Restart(w.ctx(), on(api)) },
			func(st sdk.DeploymentStatus) bool { return st.Raw["revision"] == "2" }},
		fake.OpApplyConfig: {func(w *world) (control.Change, error) {
			return rt.Configure(w.ctx(), control.ConfigChange{ChangeRequest: on(api), Set: map[string]string{"A": "1"}})
		}, func(st sdk.DeploymentStatus) bool { return st.Raw["revision"] == "2" }},
	}
}

// TestWorkloadUnderFire repeats each change until it is told as made, through replies
// that are lost, conflicts, throttling and a status that lags: the workload is changed
// once, and each try has one row, which tells what became of it.
func TestWorkloadUnderFire(t *testing.T) {
	fires := map[string]func(op fake.Op) []fake.Fault{
		"lost reply":       func(op fake.Op) []fake.Fault { return []fake.Fault{{Op: op, Kind: fake.FaultLostReply}} },
		"cut before":       func(op fake.Op) []fake.Fault { return []fake.Fault{{Op: op, Kind: fake.FaultReset}} },
		"409":              func(op fake.Op) []fake.Fault { return []fake.Fault{{Op: op, Kind: fake.FaultError, Status: 409}} },
		"412":              func(op fake.Op) []fake.Fault { return []fake.Fault{{Op: op, Kind: fake.FaultError, Status: 412}} },
		"throttled":        func(op fake.Op) []fake.Fault { return []fake.Fault{fake.Throttled(op, 2, 0)} },
		"503":              func(op fake.Op) []fake.Fault { return []fake.Fault{{Op: op, Kind: fake.FaultError, Status: 503}} },
		"no status before": func(fake.Op) []fake.Fault { return []fake.Fault{{Op: fake.OpWorkloadStatus, Kind: fake.FaultReset}} },
		"lost, and status cut": func(op fake.Op) []fake.Fault {
			return []fake.Fault{{Op: op, Kind: fake.FaultLostReply}, {Op: fake.OpWorkloadStatus, Kind: fake.FaultReset, Nth: 2, Times: 2}}
		},
	}
	for _, by := range []sdk.OpFoundBy{sdk.OpInHistory, sdk.OpOnObject} {
		for name, faults := range fires {
			for op := range fired(nil, sdk.Target{}) {
				t.Run(fmt.Sprintf("%s/%s/%s", op, name, by), func(t *testing.T) {
					t.Parallel()
					g := fake.BestGuarantees()
					g.Workload.Ops.By = by
					w := newWorld(t, withSettings(fake.Settings{Guarantees: &g}))
					api := w.live("api", 2)
					w.cloud.Set(fake.Knobs{ObserveLag: fake.Duration(20e6)})
					rt := w.engine().Workloads()
					for _, f := range faults(op) {
						w.cloud.Inject(f)
					}
					v, made := fired(rt, api)[op], 0
					for try := 0; made == 0; try++ {
						if try == 5 {
							t.Fatal("it was never told as made")
						}
						rows := len(w.liveRows())
						c, err := v.change(w)
						if err == nil {
							made++
						}
						// What was sent has its row, and what wasn't has none.
						if now := len(w.liveRows()); now > rows+1 || now == rows && !c.Row.ID.IsZero() {
							t.Errorf("%d rows of one try", now-rows)
						}
					}
					st, _ := w.cloud.Workload(api.Path)
					if n := w.cloud.Versions(api.Path); n != 2 || !v.want(st) {
						t.Errorf("%d versions, %+v", n, st)
					}
					succeeded := 0
					for _, r := range w.liveRows() {
						if r.Open() || r.State == sdk.StateUnknown {
							t.Errorf("row left open: %+v", r)
						}
						if r.State == sdk.StateSucceeded && w.detail(r.ID)["changed"] != "false" {
							succeeded++
						}
						w.sound(r.ID)
					}
					if succeeded != 1 {
						t.Errorf("%d rows say that they changed it", succeeded)
					}
				})
			}
		}
	}
}

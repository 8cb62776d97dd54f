package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// live makes a workload of the world's cloud.
func (w *world) live(name string, replicas int) sdk.Target {
	w.t.Helper()
	path := sdk.WorkloadPath("main/" + name)
	if err := w.cloud.Deploy(path, "img:1", replicas, nil); err != nil {
		w.t.Fatal(err)
	}
	return sdk.Target{Provider: "fake", Path: path}
}

func on(t sdk.Target) control.ChangeRequest {
	return control.ChangeRequest{Target: t, Actor: "tester@test"}
}

// liveRows are the ledger's rows about workloads, oldest first.
func (w *world) liveRows() []ledger.Run {
	w.t.Helper()
	var out []ledger.Run
	for r, err := range w.store.Runs(w.ctx(), ledger.RunFilter{OldestFirst: true}) {
		if err != nil {
			w.t.Fatal(err)
		}
		if strings.HasPrefix(r.Action, "svc.") {
			out = append(out, r)
		}
	}
	return out
}

// onlyRow is the only row about a workload.
func (w *world) onlyRow() ledger.Run {
	w.t.Helper()
	rows := w.liveRows()
	if len(rows) != 1 {
		w.t.Fatalf("%d rows, want 1: %+v", len(rows), rows)
	}
	return rows[0]
}

func (w *world) detail(id sdk.ID) map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for ev, err := range w.store.Events(w.ctx(), ledger.EventFilter{Run: id}) {
		if err != nil {
			w.t.Fatal(err)
		}
		var c ledger.Change
		if err := json.Unmarshal(ev.Change, &c); err != nil {
			w.t.Fatal(err)
		}
		for k, v := range c.Detail {
			out[k] = v
		}
	}
	return out
}

func replicas(w *world, t sdk.Target) int {
	w.t.Helper()
	st, ok := w.cloud.Workload(t.Path)
	if !ok {
		w.t.Fatalf("no workload %s", t)
	}
	return *st.Desired
}

func TestWorkloadScale(t *testing.T) {
	w := newWorld(t)
	rt := w.engine().Workloads()
	api := w.live("api", 2)
	c, err := rt.Scale(w.ctx(), on(api), 5)
	if err != nil || !c.Op.Changed || c.Before == nil || *c.Before.Desired != 2 {
		t.Fatalf("%+v, %v", c, err)
	}
	r := w.onlyRow()
	w.expect(r, sdk.StateSucceeded, sdk.ReasonCompleted)
	if r.Open() || r.Action != "svc.scale" || r.Target != "fake/main/api" || r.Actor != "tester@test" || r.Provider != "fake" || r.Identity.Kind != "fake" ||
		string(r.Spec) != `{"replicas":5}` || !bytes.Contains(r.Settings, []byte(`"desired":2`)) || r.ID != c.Row.ID {
		t.Errorf("row %+v\nspec %s\nsettings %s", r, r.Spec, r.Settings)
	}
	if d := w.detail(r.ID); d["changed"] != "true" || d["generation"] != "2" || d["trace"] == "" || d["rollout"] == "" {
		t.Errorf("detail %v", d)
	}
	if replicas(w, api) != 5 {
		t.Errorf("%d replicas", replicas(w, api))
	}
	w.sound(r.ID)
}

// TestF89RowBeforeTheCall holds the call up and looks at the ledger meanwhile.
func TestF89RowBeforeTheCall(t *testing.T) {
	w := newWorld(t)
	w.back.CallTimeout = patience
	rt := w.engine().Workloads()
	api := w.live("api", 2)
	entered, release := w.cloud.Block(fake.OpRestartWorkload)
	defer release()
	done := make(chan error, 1)
	go func() {
		_, err := rt.Restart(w.ctx(), on(api))
		done <- err
	}()
	<-entered
	if r := w.onlyRow(); !r.Open() || r.State != sdk.StatePending || r.Actor != "tester@test" || !bytes.Contains(r.Settings, []byte(`"generation":"1"`)) {
		t.Errorf("while the call goes on: %+v, %s", r, r.Settings)
	}
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.expect(w.onlyRow(), sdk.StateSucceeded, sdk.ReasonCompleted)
}

// unwritable is a ledger that can't be written.
type unwritable struct{ ledger.Store }

func (unwritable) Write(context.Context, ledger.Write) error {
	return sdk.Errorf(sdk.ResourceExhausted, "write ledger", "no space left on device")
}

func TestF89LedgerDownNoCall(t *testing.T) {
	w := newWorld(t)
	w.count = func(s ledger.Store) ledger.Store { return unwritable{s} }
	rt := w.engine().Workloads()
	api := w.live("api", 2)
	for name, change := range changes(rt, api) {
		if err := change(w.ctx(), on(api)); !errors.Is(err, sdk.ResourceExhausted) {
			t.Errorf("%s without a ledger: %v", name, err)
		}
	}
	if n := w.cloud.Versions(api.Path); n != 1 {
		t.Errorf("the cloud was changed %d times without a row", n-1)
	}
	for _, op := range []fake.Op{fake.OpScaleWorkload, fake.OpStopWorkload, fake.OpRestartWorkload, fake.OpApplyConfig, fake.OpStartWorkload, fake.OpExecWorkload} {
		if n := w.cloud.Calls(op); n != 0 {
			t.Errorf("%d calls of %s without a row", n, op)
		}
	}
}

// changes are all verbs that mutate, exec included.
func changes(rt *control.WorkloadRuntime, t sdk.Target) map[string]func(ctx context.Context, r control.ChangeRequest) error {
	return map[string]func(ctx context.Context, r control.ChangeRequest) error{
		"start": func(ctx context.Context, r control.ChangeRequest) error {
			_, err := rt.Start(ctx, control.StartChange{ChangeRequest: r})
			return err
		},
		"stop": func(ctx context.Context, r control.ChangeRequest) error {
			_, err := rt.Stop(ctx, r)
			return err
		},
		"scale": func(ctx context.Context, r control.ChangeRequest) error {
			_, err := rt.Scale(ctx, r, 7)
			return err
		},
		"restart": func(ctx context.Context, r control.ChangeRequest) error {
			_, err := rt.Restart(ctx, r)
			return err
		},
		"config": func(ctx context.Context, r control.ChangeRequest) error {
			_, err := rt.Configure(ctx, control.ConfigChange{ChangeRequest: r, Set: map[string]string{"A": "1"}})
			return err
		},
		"exec": func(ctx context.Context, r control.ChangeRequest) error {
			_, err := rt.Exec(ctx, control.ExecRequest{ChangeRequest: r, Session: sdk.ExecWorkloadRequest{Command: sdk.Argv{"true"}}})
			return err
		},
	}
}

// TestF90ActorIsNeverEmpty asks without one.
func TestF90ActorIsNeverEmpty(t *testing.T) {
	w := newWorld(t)
	rt := w.engine().Workloads()
	api := w.live("api", 2)
	for name, change := range changes(rt, api) {
		if err := change(w.ctx(), control.ChangeRequest{Target: api}); !errors.Is(err, sdk.InvalidArgument) {
			t.Errorf("%s without an actor: %v", name, err)
		}
	}
	if rows := w.liveRows(); len(rows) > 0 || w.cloud.Versions(api.Path) != 1 {
		t.Errorf("rows %+v", rows)
	}
}

// TestWorkloadBusy has two processes change one target: the second is refused and
// told who; another target doesn't wait.
func TestWorkloadBusy(t *testing.T) {
	w := newWorld(t)
	w.back.CallTimeout = patience
	first, second := w.engine().Workloads(), w.engine().Workloads()
	api, web := w.live("api", 2), w.live("web", 2)
	entered, release := w.cloud.Block(fake.OpScaleWorkload)
	defer release()
	done := make(chan error, 1)
	go func() {
		_, err := first.Scale(w.ctx(), on(api), 3)
		done <- err
	}()
	<-entered
	for name, rt := range map[string]*control.WorkloadRuntime{"the same process": first, "another process": second} {
		_, err := rt.Restart(w.ctx(), control.ChangeRequest{Target: api, Actor: "other@test"})
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != sdk.Aborted || e.ID != control.ErrWorkloadBusy || !e.Retryable ||
			!strings.Contains(err.Error(), "tester@test") || !strings.Contains(err.Error(), "svc.scale") {
			t.Errorf("%s, while it is changed: %v", name, err)
		}
		if _, err := rt.Restart(w.ctx(), on(web)); err != nil {
			t.Errorf("%s, another target: %v", name, err)
		}
	}
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := second.Restart(w.ctx(), on(api)); err != nil {
		t.Errorf("after it was changed: %v", err)
	}
	if n := w.cloud.Versions(api.Path); n != 3 {
		t.Errorf("%d versions, want those of the deploy, the scale and the restart", n)
	}
}

// TestWorkloadManyAtOnce has many change one target: some are refused, and the
// record and the cloud agree about the others.
func TestWorkloadManyAtOnce(t *testing.T) {
	w := newWorld(t)
	a, b := w.engine().Workloads(), w.engine().Workloads()
	api := w.live("api", 2)
	var wg sync.WaitGroup
	for i := range 40 {
		rt := []*control.WorkloadRuntime{a, b}[i%2]
		wg.Go(func() {
			if _, err := rt.Restart(w.ctx(), on(api)); err != nil && sdk.CodeOf(err) != sdk.Aborted {
				t.Errorf("restart: %v", err)
			}
		})
	}
	wg.Wait()
	rows := w.liveRows()
	for _, r := range rows {
		w.expect(r, sdk.StateSucceeded, sdk.ReasonCompleted)
	}
	if n := w.cloud.Versions(api.Path); n != 1+len(rows) || len(rows) == 0 {
		t.Errorf("%d rows, and the cloud was changed %d times", len(rows), n-1)
	}
}

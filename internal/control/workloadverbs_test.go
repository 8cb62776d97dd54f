package control_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

func TestWorkloadExpect(t *testing.T) {
	w := newWorld(t)
	rt := w.engine().Workloads()
	api := w.live("api", 2)
	three, two := 3, 2
	for name, change := range changes(rt, api) {
		for _, e := range []sdk.Expect{{Replicas: &three}, {Generation: "7"}} {
			r := on(api)
			r.Expect = e
			var got *sdk.Error
			if err := change(w.ctx(), r); !errors.As(err, &got) || got.Code != sdk.FailedPrecondition || got.ID != sdk.ErrExpect {
				t.Errorf("%s with %+v: %v", name, e, err)
			}
		}
	}
	if rows := w.liveRows(); len(rows) > 0 || w.cloud.Versions(api.Path) != 1 {
		t.Errorf("refused, and there are rows %+v", rows)
	}
	r := on(api)
	r.Expect = sdk.Expect{Replicas: &two, Generation: "1"}
	if _, err := rt.Scale(w.ctx(), r, 3); err != nil {
		t.Error(err)
	}
}

// TestWorkloadDryRun shows calls, and leaves nothing.
func TestWorkloadDryRun(t *testing.T) {
	w := newWorld(t)
	rt := w.engine().Workloads()
	api := w.live("api", 2)
	r := on(api)
	r.DryRun = true
	c, err := rt.Scale(w.ctx(), r, 3)
	if err != nil || len(c.Op.Calls) != 1 || c.Op.Calls[0].Args["replicas"] != "3" || !c.Row.ID.IsZero() {
		t.Errorf("%+v, %v", c, err)
	}
	for name, change := range changes(rt, api) {
		if err := change(w.ctx(), r); err != nil {
			t.Errorf("dry run of %s: %v", name, err)
		}
	}
	if rows := w.liveRows(); len(rows) > 0 || w.cloud.Versions(api.Path) != 1 {
		t.Errorf("after dry runs there are rows %+v and %d versions", rows, w.cloud.Versions(api.Path))
	}
}

// TestF95Autoscaler is refused unless told.
func TestF95Autoscaler(t *testing.T) {
	w := newWorld(t)
	rt := w.engine().Workloads()
	api := w.live("api", 2)
	if err := w.cloud.Deploy(api.Path, "img:1", 2, &sdk.Autoscaler{Name: "hpa/api", Min: 1, Max: 9}); err != nil {
		t.Fatal(err)
	}
	var e *sdk.Error
	if _, err := rt.Scale(w.ctx(), on(api), 3); !errors.As(err, &e) || e.ID != sdk.ErrAutoscaler || !strings.Contains(err.Error(), "hpa/api") {
		t.Errorf("got %v", err)
	}
	w.expect(w.onlyRow(), sdk.StateFailed, sdk.ReasonRefused)
	r := on(api)
	r.AgainstAutoscaler = true
	if c, err := rt.Scale(w.ctx(), r, 3); err != nil || len(c.Op.Warnings) == 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestF99StopStart brings back what was there, and the rows say what that was.
func TestF99StopStart(t *testing.T) {
	w := newWorld(t)
	api := w.live("api", 3)
	c, err := w.engine().Workloads().Stop(w.ctx(), on(api))
	if err != nil || c.Restores == nil || *c.Restores != 3 || replicas(w, api) != 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	if _, err := w.engine().Workloads().Start(w.ctx(), control.StartChange{ChangeRequest: on(api)}); err != nil || replicas(w, api) != 3 {
		t.Errorf("%d replicas, %v", replicas(w, api), err)
	}
	rows := w.liveRows()
	if len(rows) != 2 || !bytes.Contains(rows[0].Settings, []byte(`"desired":3`)) || w.detail(rows[0].ID)["restores"] != "3" ||
		!bytes.Contains(rows[1].Settings, []byte(`"stopped":true`)) {
		t.Errorf("rows %+v", rows)
	}
}

func TestWorkloadStartFromSpec(t *testing.T) {
	w := newWorld(t)
	rt := w.engine().Workloads()
	api := sdk.Target{Provider: "fake", Path: "main/api"}
	two := 2
	spec := sdk.DeploymentSpec{Name: "api", Image: "img:2", Replicas: &two, Config: map[string]string{"MODE": "canary-value"}, Env: sdk.Env{"A": "b"}}
	start := func(s sdk.DeploymentSpec) error {
		_, err := rt.Start(w.ctx(), control.StartChange{ChangeRequest: on(api), Spec: &s})
		return err
	}
	var refused *control.ProblemsError
	if err := start(sdk.DeploymentSpec{Name: "other"}); !errors.As(err, &refused) || len(refused.Problems) != 2 || len(w.liveRows()) != 0 {
		t.Errorf("a spec without an image, of another name: %v", err)
	}
	if err := start(spec); err != nil {
		t.Fatal(err)
	}
	r := w.onlyRow()
	if w.expect(r, sdk.StateSucceeded, sdk.ReasonCompleted); bytes.Contains(r.Spec, []byte("canary")) || !bytes.Contains(r.Spec, []byte("img:2")) {
		t.Errorf("spec %s", r.Spec)
	}
	if err := start(spec); !errors.Is(err, sdk.AlreadyExists) {
		t.Errorf("again: %v", err)
	}
	if _, err := rt.Restart(w.ctx(), on(sdk.Target{Provider: "fake", Path: "main/none"})); !errors.Is(err, sdk.NotFound) {
		t.Errorf("what isn't there: %v", err)
	}
	if n := len(w.liveRows()); n != 2 {
		t.Errorf("%d rows", n)
	}
}

// TestWorkloadConfigValues looks for values in everything that the ledger keeps.
func TestWorkloadConfigValues(t *testing.T) {
	w := newWorld(t)
	rt := w.engine().Workloads()
	api := w.live("api", 1)
	r := control.ConfigChange{ChangeRequest: on(api), Set: map[string]string{"MODE": "plain-canary"},
		Secrets: map[string]sdk.SecretRef{"TOKEN": "secret://env/TOKEN"}, Unset: []string{"OLD"}}
	first, err := rt.Configure(w.ctx(), r)
	if err != nil || first.Revision == "" {
		t.Fatal(err)
	}
	again, err := rt.Configure(w.ctx(), r)
	if err != nil || again.Op.Changed || again.Revision != first.Revision {
		t.Errorf("again: %+v, %v", again, err)
	}
	for _, row := range w.liveRows() {
		for _, want := range []string{`"MODE":"sha256:`, "secret://env/TOKEN", "OLD"} {
			if !bytes.Contains(row.Spec, []byte(want)) {
				t.Errorf("spec %s lacks %s", row.Spec, want)
			}
		}
	}
	for ev, err := range w.store.Events(w.ctx(), ledger.EventFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, canary := range []string{"plain-canary", "s3cr3t-canary"} {
			if bytes.Contains(ev.Change, []byte(canary)) {
				t.Errorf("a value stands in the ledger: %s", ev.Change)
			}
		}
	}
	var refused *control.ProblemsError
	if _, err := rt.Configure(w.ctx(), control.ConfigChange{ChangeRequest: on(api)}); !errors.As(err, &refused) {
		t.Errorf("nothing to change: %v", err)
	}
}

// TestWorkloadWithoutCapability says what is missing, and writes no row.
func TestWorkloadWithoutCapability(t *testing.T) {
	w := newWorld(t, withSettings(fake.Settings{Capabilities: []string{"JobRunner", "WorkloadLister", "WorkloadStatuser"}}))
	rt := w.engine().Workloads()
	api := w.live("api", 2)
	for name, change := range changes(rt, api) {
		if err := change(w.ctx(), on(api)); !errors.Is(err, sdk.Unimplemented) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if st, err := rt.Status(w.ctx(), api); err != nil || *st.Desired != 2 {
		t.Errorf("%+v, %v", st, err)
	}
	if n := len(w.liveRows()); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestWorkloadThrottled(t *testing.T) {
	w := newWorld(t)
	rt := w.engine().Workloads()
	api := w.live("api", 2)
	w.cloud.Inject(fake.Throttled(fake.OpRestartWorkload, 1, 0))
	if _, err := rt.Restart(w.ctx(), on(api)); !errors.Is(err, sdk.ResourceExhausted) || !sdk.IsRetryable(err) {
		t.Errorf("got %v", err)
	}
	w.expect(w.onlyRow(), sdk.StateFailed, sdk.ReasonQuota)
	if w.cloud.Calls(fake.OpRestartWorkload) != 1 {
		t.Error("it was tried again")
	}
}

// TestScaleIsBounded: a count that no backend takes is refused before there is a row.
func TestScaleIsBounded(t *testing.T) {
	w := newWorld(t)
	api := w.live("api", 1)
	for _, n := range []int{-1, sdk.MaxReplicas + 1, 99_999_999_999} {
		if _, err := w.engine().Workloads().Scale(w.ctx(), on(api), n); !errors.Is(err, sdk.InvalidArgument) {
			t.Errorf("%d: %v", n, err)
		}
	}
	if rows := w.liveRows(); len(rows) != 0 {
		t.Errorf("rows %+v", rows)
	}
}

package ecs

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/google/go-cmp/cmp"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// cost returns the calls that f makes.
func (w *world) cost(f func()) map[string]int {
	w.T.Helper()
	before := w.cloud.Calls().Counts()
	f()
	out := w.cloud.Calls().Counts()
	for name, n := range before {
		if out[name] -= n; out[name] == 0 {
			delete(out, name)
		}
	}
	return out
}

// TestServiceChangeCalls: what the runtime does for a change, a brief look and the verb,
// costs three round trips: service and target at once, mark, update.
func TestServiceChangeCalls(t *testing.T) {
	w, l := served(t, nil)
	path := l.make(providertest.Testing(t), 1)
	brief := func() sdk.DeploymentStatus {
		t.Helper()
		res, err := l.p.WorkloadStatus(t.Context(), sdk.WorkloadStatusRequest{Path: path, Brief: true})
		if err != nil {
			t.Fatal(err)
		}
		return res.Status
	}
	brief() // reads the task definition, once
	want := map[string]int{"ecs:DescribeServices": 1, "application-autoscaling:DescribeScalableTargets": 1, "ecs:TagResource": 1, "ecs:UpdateService": 1}
	got := w.cost(func() {
		brief()
		if res, err := l.p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: opOf(path), Replicas: 2}); err != nil || !res.Op.Changed {
			t.Fatalf("%+v, %v", res, err)
		}
	})
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("a scale: %s", d)
	}
	got = w.cost(func() {
		brief()
		if res, err := l.p.RestartWorkload(t.Context(), sdk.RestartWorkloadRequest{Op: opOf(path)}); err != nil || !res.Op.Changed {
			t.Fatalf("%+v, %v", res, err)
		}
	})
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("a restart: %s", d)
	}
	// A look that leads to no call decides nothing: the service may have changed since.
	st := brief()
	if _, err := l.p.ecs.UpdateService(t.Context(), &ecs.UpdateServiceInput{Service: new(path.Name()), DesiredCount: new(int32(3))}); err != nil {
		t.Fatal(err)
	}
	if res, err := l.p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: opOf(path), Replicas: *st.Desired}); err != nil || !res.Op.Changed {
		t.Errorf("to what the look saw: %+v, %v", res, err)
	}
}

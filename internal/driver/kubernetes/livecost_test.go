package kubernetes

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// TestLiveChangeCalls: what the runtime does for a change, a brief look and the verb,
// costs two round trips: the object and autoscalers at once, and the apply.
func TestLiveChangeCalls(t *testing.T) {
	l := newScriptedLive(t)
	p := l.open(providertest.Testing(t))
	t.Cleanup(func() { _ = p.Close() })
	path := l.make(1)
	states, _ := sdk.Of(p, sdk.WorkloadStates())
	scales, _ := sdk.Of(p, sdk.WorkloadScales())
	before := l.calls.Counts()
	res, err := states.WorkloadStatus(t.Context(), sdk.WorkloadStatusRequest{Path: path, Brief: true})
	if err != nil || res.Status.Desired == nil || *res.Status.Desired != 1 || len(res.Status.Instances) != 0 || res.Status.Rollout != sdk.RolloutUnknown {
		t.Fatalf("%+v, %v", res.Status, err)
	}
	op := sdk.OpRequest{OpID: sdk.NewIDSource(sdk.SystemClock()).NewID(), Path: path}
	if res, err := scales.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: op, Replicas: 2}); err != nil || !res.Op.Changed {
		t.Fatalf("%+v, %v", res, err)
	}
	got := l.calls.Counts()
	for name, n := range before {
		if got[name] -= n; got[name] == 0 {
			delete(got, name)
		}
	}
	if d := cmp.Diff(map[string]int{"deployments.get": 1, "horizontalpodautoscalers.list": 1, "deployments.patch": 1}, got); d != "" {
		t.Error(d)
	}
}

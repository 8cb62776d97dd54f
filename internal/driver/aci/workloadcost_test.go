package aci

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// TestWorkloadChangeCalls: what the runtime does for a change, a brief look and the verb,
// costs three round trips: the group, its tag, the call itself.
func TestWorkloadChangeCalls(t *testing.T) {
	t.Parallel()
	w := workloadWorld(t, nil)
	p := w.Open()
	w.up(providertest.Testing(t), "web", 1)
	w.complete(p, "web")
	before := w.cloud.Calls().Counts()
	res, err := p.WorkloadStatus(t.Context(), sdk.WorkloadStatusRequest{Path: path("web"), Brief: true})
	if err != nil || res.Status.Desired == nil || *res.Status.Desired != 1 {
		t.Fatalf("%+v, %v", res.Status, err)
	}
	if res, err := p.RestartWorkload(t.Context(), sdk.RestartWorkloadRequest{Op: opOn("web")}); err != nil || !res.Op.Changed {
		t.Fatalf("%+v, %v", res, err)
	}
	got := w.cloud.Calls().Counts()
	for name, n := range before {
		if got[name] -= n; got[name] == 0 {
			delete(got, name)
		}
	}
	if d := cmp.Diff(map[string]int{"ContainerGroups_Get": 1, "ContainerGroups_Update": 1, "ContainerGroups_Restart": 1}, got); d != "" {
		t.Error(d)
	}
}

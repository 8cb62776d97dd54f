package cli

import (
	"testing"

	"github.com/windlass-run/windlass/internal/telemetry"
	"github.com/windlass-run/windlass/sdk"
)

// TestUnmadeWords: what was never made neither runs nor was it stopped.
func TestUnmadeWords(t *testing.T) {
	zero := 0
	words := map[string]string{
		"status":  workloadState(sdk.DeploymentStatus{Unmade: true, Rollout: sdk.RolloutComplete, Desired: &zero, Ready: &zero}),
		"listing": itemState(sdk.WorkloadItem{Unmade: true, Desired: &zero, Ready: &zero}),
		"top":     workloadCell(telemetry.Workload{Counts: &telemetry.Counts{Unmade: true, Rollout: sdk.RolloutComplete, Desired: &zero, Ready: &zero}}).text,
	}
	for where, got := range words {
		if got != "not created" {
			t.Errorf("%s says %q", where, got)
		}
	}
}

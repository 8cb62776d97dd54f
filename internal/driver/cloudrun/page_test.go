package cloudrun

import (
	"testing"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/sdk"
)

// permissions are those that the check asks for.
func permissions(p *provider) []string {
	all := []string{"run.jobs.list", "logging.logEntries.list"}
	for _, r := range p.rights() {
		all = append(all, r.permission)
	}
	return all
}

// TestPage: the kind's page names every permission that is needed, and every
// reason that a job may end with.
func TestPage(t *testing.T) {
	want := permissions(newWorld(t, pocket.Options{}, nil).Open())
	// Those of svc, which the check doesn't ask for: who runs jobs alone needs none.
	// https://cloud.google.com/run/docs/reference/iam/permissions
	want = append(want, "run.services.create", "run.services.get", "run.services.list", "run.services.update", "run.revisions.get", "monitoring.timeSeries.list")
	for _, r := range []sdk.Reason{sdk.ReasonCompleted, sdk.ReasonNonzeroExit, sdk.ReasonSignaled, sdk.ReasonOOMKilled, sdk.ReasonTimedOut, sdk.ReasonCancelled,
		sdk.ReasonImagePull, sdk.ReasonInvalidSpec, sdk.ReasonFailedToStart, sdk.ReasonPermissionDenied, sdk.ReasonCapacity, sdk.ReasonQuota, sdk.ReasonInfrastructure} {
		want = append(want, string(r))
	}
	drivertest.PageNames(t, Driver(), want...)
}

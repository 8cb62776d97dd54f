package appplatform

import (
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/digitalocean"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/pocket/run/runtest"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// actionOf is the call that stands for an operation.
func actionOf(op providertest.Op) string {
	switch op {
	case providertest.OpCheck:
		return "account_get"
	case providertest.OpListOwned, providertest.OpFindJobs:
		return "apps_list"
	case providertest.OpRunJob:
		return "apps_create"
	case providertest.OpJobStatus, providertest.OpJobStatuses, providertest.OpCancelJob, providertest.OpCleanupJob:
		return "apps_list_deployments"
	case providertest.OpJobLogs:
		return "apps_get_logs_aggregate"
	}
	return ""
}

// left lists a run's apps by the API alone.
func (w *world) left(t providertest.T, run sdk.ID) []string {
	p := w.Another(t)
	var out []string
	for a, err := range p.apps(t.Context(), "list") {
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		if m, ok := markOf(a); ok && m.run == run {
			out = append(out, "app "+a.Spec.Name)
		}
	}
	return out
}

// hide makes apps and deployments invisible for a while.
func (w *world) hide(d time.Duration) {
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.ListDelay, k.GetDelay, k.DeploymentDelay = d, d, d })
}

// vanish deletes an app as anybody could.
func (w *world) vanish(t providertest.T, h sdk.JobHandle) {
	if _, err := w.Another(t).remove(t.Context(), "vanish", h.ID); err != nil {
		t.Fatalf("delete: %v", err)
	}
}

func (w *world) harness(through func(sdk.Driver) sdk.Driver) providertest.Harness {
	h := w.Harness(drivertest.Hooks{Action: actionOf, Left: w.left, Hide: w.hide, Vanish: w.vanish, Through: through})
	h.Waivers = waivers()
	return h
}

// waivers follow from what App Platform is: lines of text in one stream, and no
// exit code.
func waivers() []providertest.Waiver {
	return []providertest.Waiver{
		{Check: "log-bytes", Guarantee: "Logs.Fidelity", Why: "App Platform keeps lines of text"},
		{Check: "log-apart", Guarantee: "Logs.Apart", Why: "App Platform gives both streams as one"},
		{Check: "exit-codes", Guarantee: "ExitCode", Why: "App Platform tells no exit code"},
		{Check: "signal", Guarantee: "ExitCode", Why: "App Platform tells neither code nor signal"},
	}
}

func suiteOptions() pocket.Options {
	return pocket.Options{Executor: runtest.Contained{Executor: run.NewProcesses(nil)}}
}

func TestSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute: left out by -short")
	}
	providertest.Run(t, newWorld(t, suiteOptions(), nil).harness(nil))
}

// TestSuiteInvocations is for a platform that lists the jobs of deployments as
// invocations: its pages don't tell.
func TestSuiteInvocations(t *testing.T) {
	if testing.Short() {
		t.Skip("the suite once more is slow: left out by -short")
	}
	w := newWorld(t, suiteOptions(), map[string]any{"command_read_by": byShell})
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.DeployInvocations = true })
	providertest.Run(t, w.harness(nil))
}

// TestSuiteExitCode: with the wrapper that writes the exit code there is one, and
// nothing else is less, with a shell that reads the run command and without.
func TestSuiteExitCode(t *testing.T) {
	if testing.Short() {
		t.Skip("the suite once more is slow: left out by -short")
	}
	w := newWorld(t, suiteOptions(), map[string]any{"exit_code_in_log": true, "command_read_by": byWords})
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.NoShell = true })
	h := w.harness(nil)
	h.Waivers = waivers()[:2]
	// The wrapper is in the way of what runs, ends and is written.
	for _, c := range providertest.Checks() {
		for _, part := range []string{"arg", "env", "exit", "state", "terminal", "times", "signal", "deadline", "cancel", "log", "secret", "fresh", "batch"} {
			if strings.HasPrefix(c.Name, part) {
				h.Only = append(h.Only, c.Name)
			}
		}
	}
	providertest.Run(t, h)
}

package cloudrun

import (
	"testing"
	"time"

	"cloud.google.com/go/run/apiv2/runpb"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudrun"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/pocket/run/runtest"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

func TestSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute: left out by -short")
	}
	providertest.Run(t, suiteWorld(t).suite(nil))
}

func suiteWorld(t *testing.T) *world {
	return newWorld(t, pocket.Options{Executor: runtest.Contained{Executor: run.NewProcesses(nil)}}, nil)
}

// suite is the suite's harness.
func (w *world) suite(through func(sdk.Driver) sdk.Driver) providertest.Harness {
	h := w.Harness(drivertest.Hooks{Action: actionOf, PutSecret: w.putSecret, Left: w.left, Hide: w.hide, Vanish: w.vanish, Through: through})
	h.Waivers = []providertest.Waiver{
		{Check: "log-bytes", Guarantee: "Logs.Fidelity", Why: "Cloud Logging keeps lines of text"},
	}
	return h
}

// actionOf is the call that stands for an operation.
func actionOf(op providertest.Op) string {
	switch op {
	case providertest.OpCheck, providertest.OpListOwned:
		return "run:ListJobs"
	case providertest.OpRunJob:
		return "run:CreateJob"
	case providertest.OpJobStatus, providertest.OpCancelJob, providertest.OpJobStatuses:
		return "run:GetExecution"
	case providertest.OpCleanupJob, providertest.OpFindJobs:
		return "run:GetJob"
	case providertest.OpJobLogs:
		return "logging:ListLogEntries"
	}
	return ""
}

func (w *world) putSecret(t providertest.T, name string, value []byte) sdk.SecretRef {
	if _, err := w.cloud.Secrets().Put(name, value); err != nil {
		t.Fatalf("put secret: %v", err)
	}
	return sdk.SecretRef("secret://gcp-sm/" + name)
}

// left lists a run's jobs by the API alone.
func (w *world) left(t providertest.T, run sdk.ID) []string {
	p := w.Another(t)
	var out []string
	err := p.listJobs(t.Context(), "list", func(j *runpb.Job) bool {
		if j.GetLabels()[sdk.LabelRun] == run.String() {
			out = append(out, "job "+j.GetName())
		}
		return true
	})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	return out
}

// hide makes jobs and executions invisible for a while from when each is made.
func (w *world) hide(d time.Duration) {
	w.cloud.Run().TuneKnobs(func(k *cloudrun.Knobs) { k.GetDelay, k.ListDelay = d, d })
}

// vanish deletes a job as anybody could.
func (w *world) vanish(t providertest.T, h sdk.JobHandle) {
	p := w.Another(t)
	if _, err := p.jobs.DeleteJob(t.Context(), &runpb.DeleteJobRequest{Name: p.jobName(h.ID)}); err != nil {
		t.Fatalf("delete: %v", err)
	}
	w.Eventually("vanished job", func() bool {
		_, err := p.getJob(t.Context(), "vanish", h.ID)
		return sdk.CodeOf(err) == sdk.NotFound
	})
}

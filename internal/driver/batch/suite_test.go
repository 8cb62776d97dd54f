package batch

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketbatch "github.com/windlass-run/windlass/internal/pocket/batch"
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
	h := w.Harness(drivertest.Hooks{Action: actionOf, PutSecret: w.putSecret, Left: w.left, Hide: w.hide, Vanish: w.vanish, Through: through, Relabel: relabel})
	h.User, h.UserID = "nobody", "65534"
	h.Waivers = []providertest.Waiver{
		{Check: "log-bytes", Guarantee: "Logs.Fidelity", Why: "the log driver sends lines of text"},
		{Check: "log-apart", Guarantee: "Logs.Apart", Why: "the log driver sends both streams as one"},
	}
	return h
}

// actionOf is the call that stands for an operation.
func actionOf(op providertest.Op) string {
	switch op {
	case providertest.OpCheck:
		return "batch:DescribeJobQueues"
	case providertest.OpRunJob:
		return "batch:SubmitJob"
	case providertest.OpJobStatus, providertest.OpJobStatuses, providertest.OpCancelJob:
		return "batch:DescribeJobs"
	case providertest.OpCleanupJob:
		return "batch:DescribeJobDefinitions"
	case providertest.OpFindJobs, providertest.OpListOwned:
		return "batch:ListJobs"
	case providertest.OpJobLogs:
		return "logs:GetLogEvents"
	case providertest.OpRenewExpiry:
		return "batch:TagResource"
	}
	return ""
}

func (w *world) putSecret(_ providertest.T, name string, value []byte) sdk.SecretRef {
	w.cloud.Secrets().Put(name, string(value))
	return sdk.SecretRef("secret://aws-sm/" + name)
}

// left lists a run's jobs that haven't ended, by the API alone.
func (w *world) left(t providertest.T, run sdk.ID) []string {
	p := w.Another(t)
	var out []string
	in := &batch.ListJobsInput{JobQueue: &p.cfg.Queue, Filters: []types.KeyValuesPair{{Name: new("JOB_NAME"), Values: []string{prefix + run.String() + "*"}}}}
	err := p.eachSummary(t.Context(), "list", in, func(page []types.JobSummary) (bool, error) {
		for _, s := range page {
			if s.Status != types.JobStatusSucceeded && s.Status != types.JobStatusFailed {
				out = append(out, "job "+str(s.JobId))
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	return out
}

// hide makes jobs invisible for a while from when each is made.
func (w *world) hide(d time.Duration) {
	w.cloud.Batch().TuneKnobs(func(k *pocketbatch.Knobs) { k.DescribeDelay, k.ListDelay = d, d })
}

// vanish ends a job and makes AWS Batch forget it.
func (w *world) vanish(t providertest.T, h sdk.JobHandle) {
	p := w.Another(t)
	if err := p.terminate(t.Context(), "vanish", h.ID, "vanish"); err != nil {
		t.Fatalf("terminate: %v", err)
	}
	w.Eventually("forgotten job", func() bool {
		w.cloud.Batch().Forget()
		found, err := p.describe(t.Context(), "vanish", []string{h.ID})
		if err != nil {
			t.Fatalf("describe: %v", err)
		}
		return len(found) == 0
	})
}

// relabel gives a launch's job another owner, and leaves its definition.
func relabel(request json.RawMessage, owner string) (json.RawMessage, error) {
	req, err := decodeRequest(request)
	if err != nil {
		return nil, err
	}
	req.Job.Tags[sdk.LabelOwner] = owner
	return sdk.EncodeCanonical(req)
}

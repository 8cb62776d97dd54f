package ecs

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketecs "github.com/windlass-run/windlass/internal/pocket/ecs"
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
		return "ecs:DescribeClusters"
	case providertest.OpRunJob:
		return "ecs:RunTask"
	case providertest.OpJobStatus, providertest.OpJobStatuses, providertest.OpCancelJob:
		return "ecs:DescribeTasks"
	case providertest.OpCleanupJob:
		return "ecs:DescribeTaskDefinition"
	case providertest.OpFindJobs, providertest.OpListOwned:
		return "ecs:ListTasks"
	case providertest.OpJobLogs:
		return "logs:GetLogEvents"
	case providertest.OpRenewExpiry:
		return "ecs:TagResource"
	}
	return ""
}

func (w *world) putSecret(_ providertest.T, name string, value []byte) sdk.SecretRef {
	w.cloud.Secrets().Put(name, string(value))
	return sdk.SecretRef("secret://aws-sm/" + name)
}

// left lists a run's tasks that are to run, by the API alone.
func (w *world) left(t providertest.T, run sdk.ID) []string {
	p := w.Another(t)
	var out []string
	err := p.listTasks(t.Context(), "list", &ecs.ListTasksInput{Cluster: &p.cfg.Cluster, DesiredStatus: types.DesiredStatusRunning}, func(page []types.Task) bool {
		for _, task := range page {
			if str(task.StartedBy) == run.String() {
				out = append(out, "task "+str(task.TaskArn))
			}
		}
		return true
	})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	return out
}

// hide makes tasks invisible for a while from when each is made.
func (w *world) hide(d time.Duration) {
	w.cloud.ECS().TuneKnobs(func(k *pocketecs.Knobs) { k.DescribeDelay, k.ListDelay = d, d })
}

// vanish stops a task and makes ECS forget it.
func (w *world) vanish(t providertest.T, h sdk.JobHandle) {
	p := w.Another(t)
	if _, _, err := p.stop(t.Context(), h, "vanish"); err != nil {
		t.Fatalf("stop: %v", err)
	}
	w.Eventually("forgotten task", func() bool {
		w.cloud.ECS().Forget()
		found, err := p.describe(t.Context(), "vanish", h.Metadata[keyCluster], []string{h.ID}, false)
		if err != nil {
			t.Fatalf("describe: %v", err)
		}
		return len(found) == 0
	})
}

// relabel gives a launch's task another owner, and leaves its definition.
func relabel(request json.RawMessage, owner string) (json.RawMessage, error) {
	req, err := decodeRequest(request)
	if err != nil {
		return nil, err
	}
	req.Run.Tags[sdk.LabelOwner] = owner
	return sdk.EncodeCanonical(req)
}

package ecs

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketecs "github.com/windlass-run/windlass/internal/pocket/ecs"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/pocket/run/runtest"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

func (w *world) harness() providertest.Harness {
	open := func(t providertest.T) sdk.Provider {
		p, err := Driver().Open(t.Context(), w.request())
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		return p
	}
	return providertest.Harness{
		Driver: Driver(),
		Open:   open,
		Behave: func(_ providertest.T, b providertest.Behaviour) (sdk.JobSpec, error) {
			return sdk.JobSpec{Image: "busybox:local", Args: append(sdk.Argv{"sh", "-c", b.Shell(w.mark), "sh"}, b.Args...)}, nil
		},
		Marks:      func(_ providertest.T, key string) int { return w.marked(key) },
		PutSecret:  w.putSecret,
		Exposed:    w.exposed,
		Leftovers:  func(t providertest.T, run sdk.ID) []string { return w.live(t, run.String()) },
		Faults:     w.faults(),
		Eventually: patience,
		Parallel:   16,
		Poll:       5 * time.Millisecond,
		User:       "nobody",
		UserID:     "65534",
		Second:     300 * time.Millisecond,
		Waivers: []providertest.Waiver{
			{Check: "log-bytes", Guarantee: "Logs.Fidelity", Why: "the log driver sends lines of text"},
			{Check: "log-apart", Guarantee: "Logs.Apart", Why: "the log driver sends both streams as one"},
		},
	}
}

func (w *world) putSecret(_ providertest.T, name string, value []byte) sdk.SecretRef {
	w.cloud.Secrets().Put(name, string(value))
	return sdk.SecretRef("secret://aws-sm/" + name)
}

// exposed is what those can see who may ask ECS: all requests and replies but
// those of Secrets Manager, which the task itself makes.
func (w *world) exposed(_ providertest.T, _ sdk.JobHandle) map[string][]byte {
	out := map[string][]byte{"log": w.log.bytes()}
	for i, c := range w.cloud.Calls().Calls("") {
		if c.Action != "secretsmanager:GetSecretValue" {
			out[fmt.Sprintf("%d %s", i, c.Action)] = append(append([]byte{}, c.Request...), c.Reply...)
		}
	}
	return out
}

// live lists a run's tasks that are to run, without the provider under test.
func (w *world) live(t providertest.T, run string) []string {
	p, err := Driver().Open(t.Context(), w.request())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer func() { _ = p.Close() }()
	d := p.(*provider)
	var out []string
	err = d.listTasks(t.Context(), "list", &ecs.ListTasksInput{Cluster: &d.cfg.Cluster, DesiredStatus: types.DesiredStatusRunning}, func(page []types.Task) bool {
		for _, task := range page {
			if str(task.StartedBy) == run {
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

func (w *world) faults() providertest.Faults {
	plan := w.cloud.Faults()
	return providertest.Faults{
		LoseReply: func(_ providertest.T, op providertest.Op) {
			plan.Add(fault.Rule{Action: actionOf(op), Count: 1, Effect: fault.Effect{Drop: true}})
		},
		Refuse: func(_ providertest.T, op providertest.Op) {
			plan.Add(fault.Rule{Action: actionOf(op), Count: 1, Effect: fault.Effect{Reset: true}})
		},
		Throttle: func(_ providertest.T, op providertest.Op, n int) {
			plan.Add(fault.Rule{Action: actionOf(op), Count: n, Effect: fault.Effect{Refuse: pocket.Throttle()}})
		},
		Block: w.block,
		Hide: func(providertest.T) func() {
			w.hide(time.Second) // a task is hidden from when it is made
			return func() { w.hide(0) }
		},
		Vanish: func(t providertest.T, h sdk.JobHandle) { w.vanish(t, h) },
		Forge:  w.forge,
	}
}

func (w *world) block(_ providertest.T, op providertest.Op) (<-chan struct{}, func(), bool) {
	action := actionOf(op)
	if action == "" {
		return nil, nil, false
	}
	entered, release := w.gate.shut(action)
	return entered, release, true
}

// hide makes tasks invisible for a while.
func (w *world) hide(d time.Duration) {
	w.cloud.ECS().TuneKnobs(func(k *pocketecs.Knobs) { k.DescribeDelay, k.ListDelay = d, d })
}

// vanish stops a task and makes ECS forget it.
func (w *world) vanish(t providertest.T, h sdk.JobHandle) {
	p, err := Driver().Open(t.Context(), w.request())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer func() { _ = p.Close() }()
	d := p.(*provider)
	if _, _, err := d.stop(t.Context(), h, "vanish"); err != nil {
		t.Fatalf("stop: %v", err)
	}
	w.eventually("forgotten task", func() bool {
		w.cloud.ECS().Forget()
		found, err := d.describe(t.Context(), "vanish", h.Metadata[keyCluster], []string{h.ID}, false)
		if err != nil {
			t.Fatalf("describe: %v", err)
		}
		return len(found) == 0
	})
}

// forge runs a task with another owner's tags.
func (w *world) forge(t providertest.T, owner string) {
	p, err := Driver().Open(t.Context(), w.request())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer func() { _ = p.Close() }()
	d := p.(*provider)
	l := w.plan(d, shell("sleep 1000"))
	req, err := decodeRequest(l.Request)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	req.Run.Tags[sdk.LabelOwner] = owner
	if l.Request, err = sdk.EncodeCanonical(req); err != nil {
		t.Fatalf("encode: %v", err)
	}
	if _, err := d.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); err != nil {
		t.Fatalf("run: %v", err)
	}
}

func TestSuite(t *testing.T) {
	w := newWorld(t, pocket.Options{Executor: runtest.Contained{Executor: run.NewProcesses(nil)}}, nil)
	begun := time.Now()
	providertest.Run(t, w.harness())
	t.Logf("the suite took %s", time.Since(begun).Round(time.Second))
}

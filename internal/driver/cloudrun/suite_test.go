package cloudrun

import (
	"fmt"
	"testing"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/run/apiv2/runpb"

	"github.com/windlass-run/windlass/internal/pocket/fault"
	pocket "github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudrun"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/pocket/run/runtest"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

func (w *world) harness() providertest.Harness {
	return providertest.Harness{
		Driver: Driver(),
		Open:   w.another,
		Behave: func(_ providertest.T, b providertest.Behaviour) (sdk.JobSpec, error) {
			return sdk.JobSpec{Image: "busybox:local", Args: append(sdk.Argv{"sh", "-c", b.Shell(w.mark), "sh"}, b.Args...)}, nil
		},
		Marks:      func(_ providertest.T, key string) int { return w.marked(key) },
		PutSecret:  w.putSecret,
		Exposed:    w.exposed,
		Leftovers:  w.left,
		Faults:     w.faults(),
		Eventually: patience,
		Parallel:   16,
		Poll:       5 * time.Millisecond,
		Second:     300 * time.Millisecond,
		Waivers: []providertest.Waiver{
			{Check: "log-bytes", Guarantee: "Logs.Fidelity", Why: "Cloud Logging keeps lines of text"},
		},
	}
}

func (w *world) another(t providertest.T) sdk.Provider {
	p, err := Driver().Open(t.Context(), w.request())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return p
}

func (w *world) putSecret(t providertest.T, name string, value []byte) sdk.SecretRef {
	if _, err := w.cloud.Secrets().Put(name, value); err != nil {
		t.Fatalf("put secret: %v", err)
	}
	return sdk.SecretRef("secret://gcp-sm/" + name)
}

// exposed is what those can see who may ask Cloud Run and Cloud Logging: all
// requests and replies.
func (w *world) exposed(_ providertest.T, _ sdk.JobHandle) map[string][]byte {
	out := map[string][]byte{"log": w.log.bytes()}
	for i, c := range w.cloud.Calls().Calls("") {
		out[fmt.Sprintf("%d %s", i, c.Action)] = append(append([]byte{}, c.Request...), c.Reply...)
	}
	return out
}

// left lists a run's jobs by the API alone.
func (w *world) left(t providertest.T, run sdk.ID) []string {
	p := w.another(t).(*provider)
	defer func() { _ = p.Close() }()
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
		Block: func(_ providertest.T, op providertest.Op) (<-chan struct{}, func(), bool) {
			action := actionOf(op)
			if action == "" {
				return nil, nil, false
			}
			entered, release := w.gate.shut(action)
			return entered, release, true
		},
		Hide: func(providertest.T) func() {
			w.hide(time.Second) // a job is hidden from when it is made
			return func() { w.hide(0) }
		},
		Vanish: w.vanish,
		Forge:  w.forge,
	}
}

// hide makes jobs and executions invisible for a while.
func (w *world) hide(d time.Duration) {
	w.cloud.Run().TuneKnobs(func(k *cloudrun.Knobs) { k.GetDelay, k.ListDelay = d, d })
}

// vanish deletes a job as anybody could.
func (w *world) vanish(t providertest.T, h sdk.JobHandle) {
	p := w.another(t).(*provider)
	defer func() { _ = p.Close() }()
	var op *longrunningpb.Operation
	op, err := p.jobs.DeleteJob(t.Context(), &runpb.DeleteJobRequest{Name: p.jobName(h.ID)})
	if err != nil {
		t.Fatalf("delete: %v (%v)", err, op)
	}
	w.eventually("vanished job", func() bool {
		_, err := p.getJob(t.Context(), "vanish", h.ID)
		return sdk.CodeOf(err) == sdk.NotFound
	})
}

// forge runs a job with another owner's labels.
func (w *world) forge(t providertest.T, owner string) {
	r := w.request()
	r.Owner = owner
	p, err := Driver().Open(t.Context(), r)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer func() { _ = p.Close() }()
	w.run(p.(*provider), w.plan(p.(*provider), shell("sleep 1000")))
}

func TestSuite(t *testing.T) {
	w := newWorld(t, pocket.Options{Executor: runtest.Contained{Executor: run.NewProcesses(nil)}}, nil)
	begun := time.Now()
	providertest.Run(t, w.harness())
	t.Logf("the suite took %s", time.Since(begun).Round(time.Second))
}

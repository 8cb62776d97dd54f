package batch

import (
	"testing"

	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/sdk"
)

// TestRefusedLeavesNothing: a launch that is refused for good takes its
// definition away again, unless a job uses it.
func TestRefusedLeavesNothing(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	refuse := func() {
		t.Helper()
		w.cloud.Faults().Add(fault.Rule{Action: "batch:SubmitJob", Count: 1,
			Effect: fault.Effect{Refuse: &fault.Refusal{Code: "ClientException", Message: "Job queue is disabled."}}})
		_, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: w.Plan(p, shell("sleep 100"))})
		if !sdk.IsClear(err) || sdk.IsRetryable(err) {
			t.Fatalf("got %v", err)
		}
	}
	refuse()
	if n := w.Count("batch:DeregisterJobDefinition"); n != 1 {
		t.Errorf("%d definitions deregistered", n)
	}
	h := w.Run(p, w.Plan(p, shell("sleep 100")))
	w.Running(p, h)
	refuse()
	if n := w.Count("batch:DeregisterJobDefinition"); n != 1 {
		t.Errorf("a definition in use was deregistered")
	}
	p = w.Open() // as in another process, which has seen no job
	refuse()
	if n := w.Count("batch:DeregisterJobDefinition"); n != 1 {
		t.Errorf("a definition that another process uses was deregistered")
	}
}

// TestRefusedQueue: a queue that isn't there has no job that needs a definition.
func TestRefusedQueue(t *testing.T) {
	w := newWorld(t, pocket.Options{}, map[string]any{"queue": "nowhere"})
	p := w.Open()
	if _, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: w.Plan(p, shell("true"))}); !sdk.IsClear(err) || sdk.IsRetryable(err) {
		t.Fatalf("got %v", err)
	}
	if r, d := w.Count("batch:RegisterJobDefinition"), w.Count("batch:DeregisterJobDefinition"); r != 1 || d != 1 {
		t.Errorf("%d definitions registered, %d deregistered", r, d)
	}
}

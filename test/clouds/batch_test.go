package clouds

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/driver/batch"
	"github.com/windlass-run/windlass/internal/ledger"
	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketbatch "github.com/windlass-run/windlass/internal/pocket/batch"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/sdk"
)

// newBatchRig is a rig with a provider aws-batch.
func newBatchRig(t *testing.T, o pocket.Options, change map[string]any) *rig {
	t.Helper()
	r := newRig(t, o, change)
	r.driver = batch.Driver()
	delete(r.config, "subnets")
	r.config["queue"] = pocketbatch.DefaultQueue
	return r
}

// TestF8BatchLostReply: a submit whose reply is lost is found and adopted; one
// that is hidden for longer than it may be is unknown, and never sent again.
func TestF8BatchLostReply(t *testing.T) {
	for name, hidden := range map[string]time.Duration{"listed": 0, "listed late": time.Second, "never listed": time.Hour} {
		t.Run(name, func(t *testing.T) {
			r := newBatchRig(t, pocket.Options{}, map[string]any{"missing_grace": "2s"})
			r.cloud.Batch().TuneKnobs(func(k *pocketbatch.Knobs) { k.ListDelay = hidden })
			r.cloud.Faults().Add(fault.Rule{Action: "batch:SubmitJob", Count: 1, Effect: fault.Effect{Drop: true}})
			r.start()
			marks := t.TempDir()
			id := r.submit(shell(fmt.Sprintf("echo x >>%s/0; exit 5", marks)))
			if hidden > time.Minute {
				r.sees(id, "run in doubt", func(run ledger.Run) bool {
					return run.State == sdk.StateUnknown && run.Reason == sdk.ReasonSubmitUnconfirmed
				})
			} else if got := r.wait(id, control.MilestoneFinished); got.ExitCode == nil || *got.ExitCode != 5 || got.Attempt != 1 {
				t.Errorf("%s: %s, code %v, attempt %d", got.State, got.Message, got.ExitCode, got.Attempt)
			}
			if n := lineCount(t, marks+"/0"); n != 1 || r.count("batch:SubmitJob") != 1 {
				t.Errorf("ran %d times, %d submits", n, r.count("batch:SubmitJob"))
			}
		})
	}
}

// TestF33BatchAgedOut: a job that AWS Batch has forgotten is lost, with the state
// that was last seen on record.
func TestF33BatchAgedOut(t *testing.T) {
	r := newBatchRig(t, pocket.Options{}, map[string]any{"missing_grace": "1s"})
	r.start()
	id := r.submit(shell("echo up; sleep 2; exit 0"))
	r.sees(id, "running job", func(run ledger.Run) bool { return run.State == sdk.StateRunning })
	r.stop()
	// Nobody looks while it ends, and is forgotten.
	r.cloud.Batch().TuneKnobs(func(k *pocketbatch.Knobs) { k.KeepEnded = time.Nanosecond })
	r.start()
	if n, err := r.engine.Recover(t.Context(), ""); err != nil || n != 1 {
		t.Fatalf("took up %d runs, %v", n, err)
	}
	got := r.wait(id, control.MilestoneFinished)
	if got.State != sdk.StateLost || got.ExitCode != nil {
		t.Errorf("%s: %s, %s", got.State, got.Reason, got.Message)
	}
	seen := false
	for e, err := range r.store.Events(t.Context(), ledger.EventFilter{Run: id}) {
		if err != nil {
			t.Fatal(err)
		}
		seen = seen || strings.Contains(string(e.Change), `"running"`)
	}
	if !seen {
		t.Error("the state that was last seen is not on record")
	}
}

// TestF53BatchOnePoller: a thousand jobs cost a few calls a round, within the
// budget, and all their output is captured.
func TestF53BatchOnePoller(t *testing.T) {
	if testing.Short() {
		t.Skip("takes many seconds: left out by -short")
	}
	const jobs, rate = 1000, 20
	var started atomic.Int64
	executor := run.NewScripted(func(s run.Spec) run.Play {
		started.Add(1)
		return run.Play{Stdout: []byte("hello from " + s.Name + "\n"), For: 2 * time.Second}
	})
	r := newBatchRig(t, pocket.Options{Executor: executor}, map[string]any{"describe_rate": rate, "log_rate": 20, "log_quiet": "4s", "log_max": "1m"})
	r.cloud.SetLimits(pocket.BatchLimits())
	r.poll = 500 * time.Millisecond
	r.start()
	begun := time.Now()
	ids := make([]sdk.ID, jobs)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 50)
	for i := range ids {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			s, err := r.engine.Submit(t.Context(), control.SubmitRequest{Provider: batch.Kind, Spec: shell(fmt.Sprint(i)), Actor: "tester"})
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = s.Run.ID
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id.IsZero() {
			t.FailNow()
		}
		if got := r.wait(id, control.MilestoneFinished); got.State != sdk.StateSucceeded {
			t.Fatalf("%s: %s, %s", got.State, got.Reason, got.Message)
		}
	}
	took := time.Since(begun)
	reads := r.count("batch:DescribeJobs") + r.count("batch:ListJobs")
	if most := 2*rate + int(rate*took.Seconds()) + 1; reads > most {
		t.Errorf("%d reads within %s, the budget is %d", reads, took.Round(time.Second), most)
	}
	if n := started.Load(); n != jobs {
		t.Errorf("%d jobs were started", n)
	}
	// AWS's bucket and ours don't tick alike: a submit may be refused and go out again.
	for action, most := range map[string]int{"batch:SubmitJob": jobs + jobs/100, "logs:GetLogEvents": jobs / 4, "logs:FilterLogEvents": jobs / 4, "batch:RegisterJobDefinition": 2, "batch:DescribeJobDefinitions": 10, "batch:TerminateJob": 0} {
		if n := r.count(action); n > most {
			t.Errorf("%d calls of %s, at most %d are due", n, action, most)
		}
	}
	t.Logf("%d jobs in %s: %v", jobs, took.Round(time.Millisecond), r.cloud.Calls().Counts())
	for _, id := range ids[:20] {
		if out := r.output(id); !strings.HasPrefix(out, "hello from ") {
			t.Errorf("output %q", out)
		}
	}
}

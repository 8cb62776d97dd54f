package clouds

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketecs "github.com/windlass-run/windlass/internal/pocket/ecs"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/logs"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/sdk"
)

// TestF1CapacityIsWaitedFor: what finds no room is pending, says so, and is sent
// again as the same attempt.
func TestF1CapacityIsWaitedFor(t *testing.T) {
	r := newRig(t, pocket.Options{}, nil)
	r.start()
	r.cloud.ECS().TuneKnobs(func(k *pocketecs.Knobs) { k.Placements = []string{"RESOURCE:MEMORY", pocketecs.Capacity} })
	id := r.submit(shell("echo up"))
	r.sees(id, "run that waits for room", func(run ledger.Run) bool {
		return run.State == sdk.StatePending && run.Reason == sdk.ReasonCapacity && strings.Contains(run.Message, "ECS placed no task")
	})
	if got := r.wait(id, control.MilestoneFinished); got.State != sdk.StateSucceeded || got.Attempt != 1 {
		t.Errorf("%s: %s after %d attempts", got.State, got.Message, got.Attempt)
	}
	if n := r.count("ecs:RunTask"); n != 3 {
		t.Errorf("%d calls of RunTask instead of 3", n)
	}
	tokens := map[string]bool{}
	for _, c := range r.cloud.Calls().Calls("ecs:RunTask") {
		_, rest, _ := bytes.Cut(c.Request, []byte(`"clientToken":"`))
		token, _, _ := bytes.Cut(rest, []byte(`"`))
		tokens[string(token)] = true
	}
	if len(tokens) != 1 {
		t.Errorf("%d tokens for one attempt", len(tokens))
	}
}

// TestCapacityHasAnEnd: the start time-out bounds the wait for room.
func TestCapacityHasAnEnd(t *testing.T) {
	r := newRig(t, pocket.Options{}, nil)
	r.start()
	r.cloud.ECS().TuneKnobs(func(k *pocketecs.Knobs) {
		k.Placements = []string{"AGENT", "AGENT", "AGENT", "AGENT", "AGENT", "AGENT"}
	})
	spec := shell("true")
	spec.StartTimeout = 1500 * time.Millisecond
	if got := r.wait(r.submit(spec), control.MilestoneFinished); got.State != sdk.StateFailed || got.Reason != sdk.ReasonStartTimeout {
		t.Errorf("%s: %s, %s", got.State, got.Reason, got.Message)
	}
}

// TestF5NeverPlaced: a task that a capacity provider never places ends as one
// that failed to start, without a code.
func TestF5NeverPlaced(t *testing.T) {
	r := newRig(t, pocket.Options{}, map[string]any{"log_quiet": "20s", "log_max": "1m"})
	r.start()
	defer r.cloud.ECS().Strike(pocketecs.Mishap{Stage: pocketecs.StagePlace, After: 300 * time.Millisecond, StopCode: "TaskFailedToStart", StoppedReason: "Task failed to start"})()
	got := r.wait(r.submit(shell("true")), control.MilestoneFinished)
	if got.State != sdk.StateFailed || got.Reason != sdk.ReasonFailedToStart || got.ExitCode != nil || !strings.Contains(got.Message, "Task failed to start") {
		t.Errorf("%s: %s, code %v, %s", got.State, got.Reason, got.ExitCode, got.Message)
	}
	if got.Verdict != sdk.VerdictComplete {
		t.Errorf("the log of what never started is %s", got.Verdict)
	}
}

// TestF28OurClockDecides: ECS has no time-out; the holder ends the job, and
// says timed out whatever the job answers.
func TestF28OurClockDecides(t *testing.T) {
	r := newRig(t, pocket.Options{}, nil)
	r.start()
	spec := shell("trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done")
	spec.Timeout = time.Second
	id := r.submit(spec)
	got := r.wait(id, control.MilestoneFinished)
	if got.State != sdk.StateFailed || got.Reason != sdk.ReasonTimedOut {
		t.Errorf("%s: %s, %s", got.State, got.Reason, got.Message)
	}
	if out := r.output(id); out != "up\n" {
		t.Errorf("output %q", out)
	}
}

// TestF83DeadlineOutlivesTheSubmitter: when the process that submitted dies,
// whoever takes the run up ends it at its time-out.
func TestF83DeadlineOutlivesTheSubmitter(t *testing.T) {
	r := newRig(t, pocket.Options{}, nil)
	r.start()
	spec := shell("echo up; exec sleep 1000")
	spec.Timeout = 2 * time.Second
	id := r.submit(spec)
	r.sees(id, "running job", func(run ledger.Run) bool { return run.State == sdk.StateRunning })
	r.stop()
	r.start()
	if n, err := r.engine.Recover(t.Context(), ""); err != nil || n != 1 {
		t.Fatalf("took up %d runs, %v", n, err)
	}
	if got := r.wait(id, control.MilestoneFinished); got.State != sdk.StateFailed || got.Reason != sdk.ReasonTimedOut {
		t.Errorf("%s: %s, %s", got.State, got.Reason, got.Message)
	}
	if out := r.output(id); out != "up\n" {
		t.Errorf("output %q", out)
	}
}

// TestF53OnePoller: a thousand jobs cost a few calls a round, within the budget,
// and all their output is captured.
func TestF53OnePoller(t *testing.T) {
	if testing.Short() {
		t.Skip("takes many seconds: left out by -short")
	}
	const jobs, rate = 1000, 20
	executor := run.NewScripted(func(s run.Spec) run.Play {
		return run.Play{Stdout: []byte("hello from " + s.Name + "\n"), For: 2 * time.Second}
	})
	r := newRig(t, pocket.Options{Executor: executor}, map[string]any{"describe_rate": rate, "log_rate": 20, "submit_limit": 1000, "log_quiet": "4s", "log_max": "1m"})
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
			s, err := r.engine.Submit(t.Context(), control.SubmitRequest{Provider: "aws-ecs", Spec: shell(fmt.Sprint(i)), Actor: "tester"})
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
	reads := r.count("ecs:DescribeTasks") + r.count("ecs:ListTasks")
	if most := 2*rate + int(rate*took.Seconds()) + 1; reads > most {
		t.Errorf("%d reads within %s, the budget is %d", reads, took.Round(time.Second), most)
	}
	for action, most := range map[string]int{"ecs:RunTask": jobs, "logs:GetLogEvents": jobs / 4, "logs:FilterLogEvents": jobs / 4, "ecs:RegisterTaskDefinition": 1, "ecs:DescribeTaskDefinition": 5, "ecs:StopTask": 0} {
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

// TestF49DrainAfterTheEnd: output that comes late is waited for, within the
// declared window.
func TestF49DrainAfterTheEnd(t *testing.T) {
	r := newRig(t, pocket.Options{}, map[string]any{"log_quiet": "2s", "log_max": "20s"})
	r.cloud.Logs().SetKnobs(logs.Knobs{EventDelay: time.Second, StreamDelay: 500 * time.Millisecond})
	r.start()
	id := r.submit(shell("echo one; echo two"))
	got := r.wait(id, control.MilestoneFinished)
	if out := r.output(id); out != "one\ntwo\n" || got.Verdict != sdk.VerdictQuiet {
		t.Errorf("output %q, verdict %s", out, got.Verdict)
	}
}

// TestF48WrongLog: a log stream that never comes is a warning and a verdict, and
// changes neither state nor code.
func TestF48WrongLog(t *testing.T) {
	r := newRig(t, pocket.Options{}, map[string]any{"log_quiet": "1s"})
	r.cloud.Logs().SetKnobs(logs.Knobs{StreamDelay: time.Hour})
	r.start()
	got := r.wait(r.submit(shell("echo lost; exit 3")), control.MilestoneFinished)
	if got.State != sdk.StateFailed || got.ExitCode == nil || *got.ExitCode != 3 || got.Verdict != sdk.VerdictUnavailable {
		t.Errorf("%s, code %v, verdict %s", got.State, got.ExitCode, got.Verdict)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !strings.Contains(strings.Join(r.warns, "\n"), "there is no log stream") {
		t.Errorf("warnings %q", r.warns)
	}
}

// TestF86NoValueOnDisk: the value of a secret, visible or not, is in no file of
// the ledger, the logs and the spools.
func TestF86NoValueOnDisk(t *testing.T) {
	r := newRig(t, pocket.Options{}, nil)
	const stored, seen = "canary-stored-0123456789", "canary-visible-0123456789"
	r.cloud.Secrets().Put("db", stored)
	r.secrets = secretsOf{"secret://env/SEEN": seen}
	r.start()
	spec := shell(`printf '%s' "$DB$SEEN" | wc -c`)
	spec.Secrets = map[string]sdk.SecretRef{"DB": "secret://aws-sm/db", "SEEN": "secret://env/SEEN"}
	spec.AllowVisibleSecret = true
	id := r.submit(spec)
	if got := r.wait(id, control.MilestoneFinished); got.State != sdk.StateSucceeded {
		t.Fatalf("%s: %s", got.State, got.Message)
	}
	if out, want := strings.TrimSpace(r.output(id)), fmt.Sprint(len(stored)+len(seen)); out != want {
		t.Errorf("the job got %s bytes, want %s", out, want)
	}
	r.stop()
	for name, data := range files(t, r.dir) {
		for _, value := range []string{stored, seen} {
			if bytes.Contains(data, []byte(value)) {
				t.Errorf("%s is in %s", value, name)
			}
		}
	}
}

// TestReapDefinitions: what clean-ups couldn't take away is gone after a reap:
// by the clean-ups that it lets ended runs finish, and by itself.
func TestReapDefinitions(t *testing.T) {
	executor := run.NewScripted(func(run.Spec) run.Play { return run.Play{} })
	r := newRig(t, pocket.Options{Executor: executor}, nil)
	r.start()
	deny := r.cloud.Faults().Add(fault.Rule{Action: "ecs:DeregisterTaskDefinition", Effect: fault.Effect{Refuse: r.cloud.Deny("pocket", "ecs:DeregisterTaskDefinition", "*")}})
	const jobs = 200
	ids := make([]sdk.ID, jobs)
	for i := range ids {
		spec := shell("true")
		spec.Workdir = fmt.Sprintf("/%d", i) // a definition of its own
		ids[i] = r.submit(spec)
	}
	for _, id := range ids {
		r.wait(id, control.MilestoneDrained)
	}
	r.stop()
	deny()
	r.start()
	reap := func(dry bool) (orphans int) {
		for it, err := range r.engine.Reap(t.Context(), control.ReapRequest{DryRun: dry, Actor: "tester"}) {
			if err != nil || it.Err != nil {
				t.Fatalf("%v %v", err, it.Err)
			}
			if it.Orphan {
				orphans++
			}
			if dry && it.Removed {
				t.Errorf("a dry run removed %+v", it.Object)
			}
		}
		return orphans
	}
	before := r.count("ecs:DeregisterTaskDefinition")
	if orphans := reap(true); orphans != jobs {
		t.Errorf("a dry run finds %d", orphans)
	}
	reap(false)
	if n := r.count("ecs:DeregisterTaskDefinition") - before; n < jobs {
		t.Errorf("%d definitions were deregistered", n)
	}
	if orphans := reap(true); orphans != 0 {
		t.Errorf("%d are left", orphans)
	}
}

// TestReapTasks: a task whose run was given up as lost is stopped.
func TestReapTasks(t *testing.T) {
	r := newRig(t, pocket.Options{}, map[string]any{"missing_grace": "1s"})
	r.start()
	id := r.submit(shell("exec sleep 1000"))
	r.sees(id, "running job", func(run ledger.Run) bool { return run.State == sdk.StateRunning })
	// ECS denies knowing the task for a while.
	hide := r.cloud.Faults().Add(fault.Rule{Action: "ecs:DescribeTasks", Effect: fault.Effect{Refuse: r.cloud.Deny("pocket", "ecs:DescribeTasks", "*")}})
	r.sees(id, "run in doubt", func(run ledger.Run) bool {
		return run.State == sdk.StateUnknown && run.Reason == sdk.ReasonPermissionDenied
	})
	if err := r.engine.Abandon(t.Context(), id, "tester", "can't be looked at"); err != nil {
		t.Fatal(err)
	}
	hide()
	if got := r.wait(id, control.MilestoneFinished); got.State != sdk.StateLost {
		t.Fatalf("%s: %s", got.State, got.Message)
	}
	removed := 0
	for it, err := range r.engine.Reap(t.Context(), control.ReapRequest{Actor: "tester"}) {
		if err != nil || it.Err != nil {
			t.Fatalf("%v %v", err, it.Err)
		}
		if it.Object.Type == "task" && it.Removed {
			removed++
		}
	}
	if removed != 1 || r.count("ecs:StopTask") == 0 {
		t.Errorf("%d tasks removed, %d stops", removed, r.count("ecs:StopTask"))
	}
}

package batch

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketbatch "github.com/windlass-run/windlass/internal/pocket/batch"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/sdk"
)

// TestF33AgedOut: a job that AWS Batch has forgotten is not found, past the time
// in which a new one may be hidden; it was found up to then.
func TestF33AgedOut(t *testing.T) {
	w := newWorld(t, pocket.Options{}, map[string]any{"missing_grace": "1m"})
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("exit 3")))
	w.Ended(p, h)
	w.cloud.Batch().Forget()
	if st := w.Status(p, h); st.State != sdk.StatePending {
		t.Errorf("a missing job within its window is %s", st.State)
	}
	clock := &drivertest.WrongClock{Clock: sdk.SystemClock(), By: 2 * time.Minute}
	late := w.Open(func(r *sdk.OpenRequest) { r.Clock = clock })
	if _, err := late.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h}); !errors.Is(err, sdk.NotFound) {
		t.Errorf("past the window: %v", err)
	}
	if res, err := late.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil || !res.Gone {
		t.Errorf("cancel: %+v, %v", res, err)
	}
	if _, err := late.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
		t.Errorf("clean-up: %v", err)
	}
	clock.By = -time.Hour
	if st := w.Status(late, h); st.State != sdk.StatePending {
		t.Errorf("with a clock that was set back: %s", st.State)
	}
}

// TestHidden: what AWS Batch doesn't show yet is pending, and can't be cancelled
// with proof.
func TestHidden(t *testing.T) {
	w := newWorld(t, pocket.Options{}, map[string]any{"missing_grace": "1m"})
	p := w.Open()
	w.hide(300 * time.Millisecond)
	h := w.Run(p, w.Plan(p, shell("sleep 100")))
	if st := w.Status(p, h); st.State != sdk.StatePending {
		t.Errorf("a job that is hidden is %s", st.State)
	}
	if _, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); !sdk.IsRetryable(err) {
		t.Errorf("cancel: %v", err)
	}
	w.Eventually("cancelled job", func() bool { return w.Status(p, h).State == sdk.StateCancelled })
}

// TestWaiting: a reason for waiting that comes and goes stays told, and is no end.
func TestWaiting(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	const why = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - all compute environments have insufficient capacity"
	w.cloud.Batch().TuneKnobs(func(k *pocketbatch.Knobs) { k.Waiting = why })
	defer w.cloud.Batch().Strike(pocketbatch.Mishap{Stage: pocketbatch.StageStuck})()
	h := w.Run(p, w.Plan(p, shell("true")))
	w.Eventually("reason", func() bool { return w.Status(p, h).Reason == sdk.ReasonCapacity })
	for range 6 {
		if st := w.Status(p, h); st.State != sdk.StatePending || st.Reason != sdk.ReasonCapacity || !strings.Contains(st.Message, "INSUFFICIENT") {
			t.Errorf("%s: %s, %s", st.State, st.Reason, st.Message)
		}
	}
	if _, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h, Why: "enough"}); err != nil {
		t.Fatal(err)
	}
	if st := w.Ended(p, h); st.State != sdk.StateCancelled || st.ExitCode != nil || st.Launches != 0 || !st.StartedAt.IsZero() || st.Raw["status_reason"] != "windlass: enough" {
		t.Errorf("%+v", st)
	}
}

// TestMishaps: what befalls a job has the right reason, and AWS's words are kept.
func TestMishaps(t *testing.T) {
	for name, k := range map[string]struct {
		m      pocketbatch.Mishap
		script string
		want   sdk.Reason
		raw    string
	}{
		"image": {pocketbatch.Mishap{Stage: pocketbatch.StagePull}, "true", sdk.ReasonImagePull, "CannotPullContainerError"},
		"init":  {pocketbatch.Mishap{Stage: pocketbatch.StageInit}, "true", sdk.ReasonFailedToStart, "ResourceInitializationError"},
		"spot":  {pocketbatch.Mishap{Stage: pocketbatch.StageSpot}, "sleep 100", sdk.ReasonPreempted, "Your Spot Task was interrupted."},
		"host":  {pocketbatch.Mishap{Stage: pocketbatch.StageHost}, "sleep 100", sdk.ReasonNodeLost, "Host EC2"},
		"oom":   {pocketbatch.Mishap{Stage: pocketbatch.StageOOM}, "sleep 100", sdk.ReasonOOMKilled, "OutOfMemoryError"},
		"code":  {pocketbatch.Mishap{Stage: pocketbatch.StageExit, NoExitCode: true}, "exit 3", sdk.ReasonUnknown, "Essential container in task exited"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pocket.Options{}, nil)
			p := w.Open()
			defer w.cloud.Batch().Strike(k.m)()
			st := w.Ended(p, w.Run(p, w.Plan(p, shell(k.script))))
			kept := false
			for _, v := range st.Raw {
				kept = kept || strings.Contains(v, k.raw)
			}
			if st.State != sdk.StateFailed || st.Reason != k.want || !kept {
				t.Errorf("%s: %s, %s, %v", st.State, st.Reason, st.Message, st.Raw)
			}
			if noCode := name != "spot" && name != "oom"; noCode != (st.ExitCode == nil) {
				t.Errorf("exit code %v", st.ExitCode)
			}
		})
	}
}

// TestNativeDeadline: AWS Batch itself ends a job at its time-out, and the driver
// tells it from a failure.
func TestNativeDeadline(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	w.cloud.Batch().TuneKnobs(func(k *pocketbatch.Knobs) { k.Second = time.Millisecond })
	spec := shell("sleep 100")
	spec.Timeout = 2 * time.Minute
	l := w.Plan(p, spec)
	if l.NativeDeadline != 132*time.Second {
		t.Errorf("the native deadline is %s", l.NativeDeadline)
	}
	if st := w.Ended(p, w.Run(p, l)); st.State != sdk.StateFailed || st.Reason != sdk.ReasonTimedOut {
		t.Errorf("%s: %s, %s", st.State, st.Reason, st.Message)
	}
}

// TestF53Batches: a hundred states cost one call, and one job's mistake is its
// own.
func TestF53Batches(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("sleep 100")))
	var handles []sdk.JobHandle
	for range batchMax - 1 {
		handles = append(handles, h)
	}
	other := h
	other.Identity.Account = "999999999999"
	handles = append(handles, other)
	before := w.Count("batch:DescribeJobs")
	res, err := p.JobStatuses(t.Context(), sdk.JobStatusesRequest{Handles: handles})
	if err != nil || res.Items[0].Err != nil || res.Items[batchMax-1].Err == nil {
		t.Errorf("%v", err)
	}
	if n := w.Count("batch:DescribeJobs") - before; n != 1 {
		t.Errorf("%d calls", n)
	}
	if _, err := p.JobStatuses(t.Context(), sdk.JobStatusesRequest{Handles: append(handles, h)}); sdk.CodeOf(err) != sdk.InvalidArgument {
		t.Errorf("101 handles: %v", err)
	}
}

// TestF62Stream: once a job has started its handle names its log, and serves on
// its own, also when AWS Batch has forgotten the job.
func TestF62Stream(t *testing.T) {
	w := newWorld(t, pocket.Options{}, map[string]any{"log_group": "/team/jobs"})
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("echo found")))
	if h.Metadata[keyLogStream] != "" {
		t.Error("a job that hasn't started has a stream")
	}
	st := w.Ended(p, h)
	if st.Handle == nil || st.Handle.Metadata[keyLogStream] == "" || st.Handle.ID != h.ID {
		t.Fatalf("the handle is %+v", st.Handle)
	}
	w.Config["log_group"] = "/elsewhere"
	fresh := w.Open()
	// Without the stream the job is asked for it.
	w.Eventually("output", func() bool {
		got, _ := w.Text(fresh, h, nil)
		return got == "found\n"
	})
	run, _, _, _ := readName(h.Name)
	found, err := fresh.FindJobs(t.Context(), sdk.FindJobsRequest{RunID: run})
	if err != nil || len(found.Jobs) != 1 || found.Jobs[0].Handle.Metadata[keyLogStream] != st.Handle.Metadata[keyLogStream] || found.Jobs[0].Handle.Metadata[keyLogGroup] != "/team/jobs" {
		t.Errorf("found %+v, %v", found.Jobs, err)
	}
	w.cloud.Batch().Forget()
	before := w.Count("batch:DescribeJobs")
	if got, _ := w.Text(fresh, *st.Handle, nil); got != "found\n" {
		t.Errorf("of a forgotten job: %q", got)
	}
	if n := w.Count("batch:DescribeJobs") - before; n != 0 {
		t.Errorf("%d looks at a job whose stream is known", n)
	}
}

// TestFollowersShareLooks: many who wait for the logs of jobs that haven't
// started ask in few calls.
func TestFollowersShareLooks(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	defer w.cloud.Batch().Strike(pocketbatch.Mishap{Stage: pocketbatch.StageStuck})()
	var handles []sdk.JobHandle
	for range 50 {
		handles = append(handles, w.Run(p, w.Plan(p, shell("true"))))
	}
	before := w.Count("batch:DescribeJobs")
	done := make(chan error, len(handles))
	for _, h := range handles {
		go func() {
			_, _, err := p.look(t.Context(), opLogs, h.ID)
			done <- err
		}()
	}
	for range handles {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := w.Count("batch:DescribeJobs") - before; n > 10 {
		t.Errorf("%d calls for 50 looks", n)
	}
}

// TestOtherAccount: with credentials of another account than the configured one
// nothing is made.
func TestOtherAccount(t *testing.T) {
	w := newWorld(t, pocket.Options{}, map[string]any{"account": "999999999999"})
	p := w.Open()
	_, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: w.Plan(p, shell("true"))})
	if sdk.CodeOf(err) != sdk.FailedPrecondition || !strings.Contains(err.Error(), pocket.Account) {
		t.Errorf("got %v", err)
	}
	if n := w.Count("batch:SubmitJob") + w.Count("batch:RegisterJobDefinition"); n != 0 {
		t.Errorf("%d calls were made", n)
	}
}

// TestCheck: each right that is missing is named.
func TestCheck(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	var rights []string
	for _, c := range p.probes() {
		rights = append(rights, c.action)
	}
	w.NamesMissingRights(p, rights, func(right string) func() {
		return w.cloud.Faults().Add(fault.Rule{Action: right, Effect: fault.Effect{Refuse: w.cloud.Deny("pocket", right, "*")}})
	})
}

// TestUnrunnable: a command that isn't there, or can't be run, is told as such.
func TestUnrunnable(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.Unrunnable(w.Open())
}

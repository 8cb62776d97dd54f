package cloudrun

import (
	"testing"

	"cloud.google.com/go/run/apiv2/runpb"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pocket "github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudrun"
	"github.com/windlass-run/windlass/sdk"
)

// TestF27Counts judges every mix of counts: nothing but all tasks' success is a
// success, whatever the conditions and the operation say.
func TestF27Counts(t *testing.T) {
	reason := func(r runpb.Condition_ExecutionReason) *runpb.Condition {
		return &runpb.Condition{Type: condCompleted, State: runpb.Condition_CONDITION_FAILED, Reasons: &runpb.Condition_ExecutionReason_{ExecutionReason: r}}
	}
	done := &runpb.Condition{Type: condCompleted, State: runpb.Condition_CONDITION_SUCCEEDED}
	for name, c := range map[string]struct {
		total, succeeded, failed, cancelled int32
		condition                           *runpb.Condition
		state                               sdk.JobState
		reason                              sdk.Reason
	}{
		"succeeded":                   {1, 1, 0, 0, done, sdk.StateSucceeded, sdk.ReasonCompleted},
		"cancelled":                   {1, 0, 0, 1, reason(runpb.Condition_CANCELLED), sdk.StateCancelled, sdk.ReasonCancelled},
		"cancelled, condition good":   {1, 0, 0, 1, done, sdk.StateCancelled, sdk.ReasonCancelled},
		"cancelled before any count":  {1, 0, 0, 0, reason(runpb.Condition_CANCELLED), sdk.StateCancelled, sdk.ReasonCancelled},
		"deleted":                     {1, 0, 0, 0, reason(runpb.Condition_DELETED), sdk.StateCancelled, sdk.ReasonCancelled},
		"failed":                      {1, 0, 1, 0, reason(runpb.Condition_NON_ZERO_EXIT_CODE), sdk.StateFailed, sdk.ReasonNonzeroExit},
		"failed, condition good":      {1, 0, 1, 0, done, sdk.StateFailed, sdk.ReasonUnknown},
		"no count, condition good":    {1, 0, 0, 0, done, sdk.StateFailed, sdk.ReasonUnknown},
		"no tasks at all":             {0, 0, 0, 0, done, sdk.StateFailed, sdk.ReasonUnknown},
		"failed and cancelled":        {2, 0, 1, 1, reason(runpb.Condition_NON_ZERO_EXIT_CODE), sdk.StateFailed, sdk.ReasonNonzeroExit},
		"half succeeded, cancelled":   {2, 1, 0, 1, done, sdk.StateCancelled, sdk.ReasonCancelled},
		"half succeeded, half absent": {2, 1, 0, 0, done, sdk.StateFailed, sdk.ReasonUnknown},
	} {
		e := &runpb.Execution{TaskCount: c.total, SucceededCount: c.succeeded, FailedCount: c.failed, CancelledCount: c.cancelled,
			Conditions: []*runpb.Condition{c.condition}, StartTime: timestamppb.Now(), CompletionTime: timestamppb.Now()}
		v := judge(e, nil)
		if v.state != c.state || v.reason != c.reason || !sdk.LegalReason(v.state, v.reason) || v.code != nil {
			t.Errorf("%s: %s, %s, code %v; want %s, %s", name, v.state, v.reason, v.code, c.state, c.reason)
		}
	}
}

// TestExitCode takes a code only where the attempt's status proves it.
func TestExitCode(t *testing.T) {
	n := func(i int) *int { return &i }
	for name, c := range map[string]struct {
		a      *runpb.TaskAttemptResult
		code   *int
		signal string
	}{
		"none":              {nil, nil, ""},
		"empty":             {&runpb.TaskAttemptResult{}, nil, ""},
		"success":           {&runpb.TaskAttemptResult{Status: &statuspb.Status{}}, n(0), ""},
		"code":              {&runpb.TaskAttemptResult{Status: &statuspb.Status{Code: 10}, ExitCode: 7}, n(7), ""},
		"zero with a fault": {&runpb.TaskAttemptResult{Status: &statuspb.Status{Code: 13}}, nil, ""},
		"signal":            {&runpb.TaskAttemptResult{Status: &statuspb.Status{Code: 8}, TermSignal: 9}, nil, "SIGKILL"},
		"odd signal":        {&runpb.TaskAttemptResult{Status: &statuspb.Status{Code: 8}, TermSignal: 62}, nil, "signal 62"},
	} {
		code, signal := exitOf(c.a)
		if (code == nil) != (c.code == nil) || code != nil && *code != *c.code || signal != c.signal {
			t.Errorf("%s: code %v, signal %q", name, code, signal)
		}
	}
}

// TestReasons runs into each end that the pocket cloud can bring about.
func TestReasons(t *testing.T) {
	for name, c := range map[string]struct {
		mishap cloudrun.Mishap
		reason sdk.Reason
	}{
		"image":     {cloudrun.Mishap{Stage: cloudrun.StageImage}, sdk.ReasonImagePull},
		"resources": {cloudrun.Mishap{Stage: cloudrun.StageResources}, sdk.ReasonCapacity},
		"memory":    {cloudrun.Mishap{Stage: cloudrun.StageOOM}, sdk.ReasonOOMKilled},
		"platform":  {cloudrun.Mishap{Stage: cloudrun.StageInternal}, sdk.ReasonInfrastructure},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pocket.Options{}, nil)
			w.cloud.Run().Strike(c.mishap)
			p := w.Open()
			st := w.Ended(p, w.Run(p, w.Plan(p, shell("sleep 100"))))
			if st.State != sdk.StateFailed || st.Reason != c.reason || st.ExitCode != nil || st.Message == "" {
				t.Errorf("%s, %s, code %v: %q", st.State, st.Reason, st.ExitCode, st.Message)
			}
		})
	}
}

// TestF28NativeTimeout: the platform's own limit is a tenth above the job's, and
// its end is told as a time-out.
func TestF28NativeTimeout(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	spec := shell("sleep 100")
	spec.Timeout = 900_000_000
	l := w.Plan(p, spec)
	if l.NativeDeadline < spec.Timeout || l.NativeDeadline.Seconds() != 1 {
		t.Errorf("the native deadline is %s", l.NativeDeadline)
	}
	st := w.Ended(p, w.Run(p, l))
	if st.State != sdk.StateFailed || st.Reason != sdk.ReasonTimedOut || st.ExitCode != nil {
		t.Errorf("%s, %s, code %v: %s", st.State, st.Reason, st.ExitCode, st.Message)
	}
	if l := w.Plan(p, shell("true")); l.NativeDeadline != maxTimeout {
		t.Errorf("without a time-out the native deadline is %s", l.NativeDeadline)
	}
}

// TestF83CancelReadsBack: the cancel of a job that ended by itself changes
// nothing, and one whose reply was lost can come again.
func TestF83CancelReadsBack(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("exit 3")))
	w.Ended(p, h)
	res, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h})
	if err != nil || res.Accepted || !res.Gone {
		t.Errorf("cancel of an ended job: %+v, %v", res, err)
	}
	if st := w.Status(p, h); st.Reason != sdk.ReasonNonzeroExit || st.ExitCode == nil || *st.ExitCode != 3 {
		t.Errorf("then %s, %v", st.Reason, st.ExitCode)
	}
}

// TestUnrunnable: a command that isn't there, or can't be run, is told as such.
func TestUnrunnable(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.Unrunnable(w.Open())
}

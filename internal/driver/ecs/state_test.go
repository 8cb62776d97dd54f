package ecs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketecs "github.com/windlass-run/windlass/internal/pocket/ecs"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/sdk"
)

// TestF3Missing: what ECS doesn't show yet is pending, and past the window it is
// not found.
func TestF3Missing(t *testing.T) {
	w := newWorld(t, pocket.Options{}, map[string]any{"missing_grace": "1m"})
	p := w.Open()
	w.hide(300 * time.Millisecond)
	h := w.Run(p, w.Plan(p, shell("sleep 100")))
	if st := w.Status(p, h); st.State != sdk.StatePending {
		t.Errorf("a task that is missing is %s", st.State)
	}
	w.Running(p, h)
	clock := &drivertest.WrongClock{Clock: sdk.SystemClock()}
	late := w.Open(func(r *sdk.OpenRequest) { r.Clock = clock })
	gone := h
	gone.ID = strings.Replace(h.ID, h.Name, strings.Repeat("0", 32), 1)
	if st := w.Status(late, gone); st.State != sdk.StatePending {
		t.Errorf("a missing task within its window is %s", st.State)
	}
	clock.By = 2 * time.Minute
	if _, err := late.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: gone}); !errors.Is(err, sdk.NotFound) {
		t.Errorf("past the window: %v", err)
	}
	clock.By = -time.Hour
	if st := w.Status(late, gone); st.State != sdk.StatePending {
		t.Errorf("with a clock that was set back: %s", st.State)
	}
}

// TestF4NoContainers: a task that shows no containers is looked at all the same.
func TestF4NoContainers(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	w.cloud.ECS().TuneKnobs(func(k *pocketecs.Knobs) { k.ContainersDelay = 300 * time.Millisecond })
	h := w.Run(p, w.Plan(p, shell("echo x")))
	for range 5 {
		w.Status(p, h)
		w.Text(p, h, nil)
	}
	if st := w.Ended(p, h); st.State != sdk.StateSucceeded && st.ExitCode != nil {
		t.Errorf("the job is %s: %s", st.State, st.Message)
	}
	w.Eventually("output", func() bool {
		s, _ := w.Text(p, h, nil)
		return s == "x\n"
	})
}

// mishap runs a job that something befalls, and returns how it ended.
func (w *world) mishap(p *provider, m pocketecs.Mishap, script string) sdk.JobStatusResult {
	w.T.Helper()
	m.Tasks = 1
	defer w.cloud.ECS().Strike(m)()
	return w.Ended(p, w.Run(p, w.Plan(p, shell(script))))
}

// TestMishaps: each end that isn't the job's own has its reason, no code that
// nobody gave, and ECS's own words. With F5, F18, F21 and F35.
func TestMishaps(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	zero := int32(0)
	for name, c := range map[string]struct {
		mishap pocketecs.Mishap
		script string
		state  sdk.JobState
		reason sdk.Reason
		code   int // -1 is none
		oom    bool
	}{
		"F5 never placed":   {pocketecs.Mishap{Stage: pocketecs.StagePlace, StopCode: "TaskFailedToStart", StoppedReason: "Task failed to start"}, "true", sdk.StateFailed, sdk.ReasonFailedToStart, -1, false},
		"interface":         {pocketecs.Mishap{Stage: pocketecs.StageENI}, "true", sdk.StateFailed, sdk.ReasonInfrastructure, -1, false},
		"image":             {pocketecs.Mishap{Stage: pocketecs.StagePull}, "true", sdk.StateFailed, sdk.ReasonImagePull, -1, false},
		"resources":         {pocketecs.Mishap{Stage: pocketecs.StageInit}, "true", sdk.StateFailed, sdk.ReasonFailedToStart, -1, false},
		"F35 spot":          {pocketecs.Mishap{Stage: pocketecs.StageSpot}, "sleep 100", sdk.StateFailed, sdk.ReasonPreempted, 143, false},
		"F35 host":          {pocketecs.Mishap{Stage: pocketecs.StageHost}, "sleep 100", sdk.StateFailed, sdk.ReasonNodeLost, -1, false},
		"memory":            {pocketecs.Mishap{Stage: pocketecs.StageOOM}, "sleep 100", sdk.StateFailed, sdk.ReasonOOMKilled, 137, true},
		"F21 child":         {pocketecs.Mishap{Stage: pocketecs.StageOOM, ExitCode: &zero}, "sleep 100", sdk.StateSucceeded, sdk.ReasonCompleted, 0, true},
		"F18 no code":       {pocketecs.Mishap{Stage: pocketecs.StageExit, NoExitCode: true}, "true", sdk.StateFailed, sdk.ReasonUnknown, -1, false},
		"untouched":         {pocketecs.Mishap{Family: "another"}, "exit 5", sdk.StateFailed, sdk.ReasonNonzeroExit, 5, false},
		"untouched success": {pocketecs.Mishap{Family: "another"}, "true", sdk.StateSucceeded, sdk.ReasonCompleted, 0, false},
	} {
		st := w.mishap(p, c.mishap, c.script)
		code := -1
		if st.ExitCode != nil {
			code = *st.ExitCode
		}
		if st.State != c.state || st.Reason != c.reason || code != c.code || st.OOMObserved != c.oom || st.Signal != "" {
			t.Errorf("%s: %s: %s, code %d, OOM %t, signal %q; want %s: %s, %d, %t\n%v", name, st.State, st.Reason, code, st.OOMObserved, st.Signal, c.state, c.reason, c.code, c.oom, st.Raw)
		}
		if st.Raw["stop_code"] == "" && st.Raw["stopped_reason"] == "" {
			t.Errorf("%s: ECS's own words are missing: %v", name, st.Raw)
		}
		if st.State == sdk.StateFailed && st.Message == "" {
			t.Errorf("%s: no message", name)
		}
	}
}

// TestCancelStates: a cancel is proven, one that comes late changes nothing, and
// one of a task that ECS forgot finds it gone.
func TestCancelStates(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("exit 3")))
	before := w.Ended(p, h)
	res, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h})
	if err != nil || !res.Gone || res.Accepted || w.Count("ecs:StopTask") != 0 {
		t.Errorf("a late cancel: %+v, %v, %d stops", res, err, w.Count("ecs:StopTask"))
	}
	if after := w.Status(p, h); after.State != before.State || after.Reason != before.Reason {
		t.Errorf("a late cancel changed %s to %s", before.State, after.State)
	}
	h = w.Run(p, w.Plan(p, shell("sleep 100")))
	w.Running(p, h)
	why := strings.Repeat("very ", 100) + "long \n reason"
	if res, err = p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h, Why: why}); err != nil || !res.Accepted {
		t.Fatalf("cancel: %+v, %v", res, err)
	}
	if st := w.Ended(p, h); st.State != sdk.StateCancelled || !strings.Contains(st.Message, "windlass: very") {
		t.Errorf("the job is %s: %s", st.State, st.Message)
	}
	w.Eventually("stopped task", func() bool { return w.Status(p, h).Raw["last_status"] == statusStopped })
	w.cloud.ECS().Forget()
	clock := &drivertest.WrongClock{Clock: sdk.SystemClock(), By: time.Hour}
	late := w.Open(func(r *sdk.OpenRequest) { r.Clock = clock })
	if res, err = late.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil || !res.Gone || res.Accepted {
		t.Errorf("a cancel of a task that ECS forgot: %+v, %v", res, err)
	}
}

// TestErrors: each kind of refusal has its class.
func TestErrors(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("sleep 100")))
	for name, c := range map[string]struct {
		refuse *fault.Refusal
		code   sdk.Code
		again  bool
	}{
		"denied":    {w.cloud.Deny("pocket", "ecs:DescribeTasks", "*"), sdk.PermissionDenied, false},
		"expired":   {&fault.Refusal{Code: "ExpiredTokenException", Message: "The security token included in the request is expired"}, sdk.Unauthenticated, false},
		"key":       {&fault.Refusal{Code: "UnrecognizedClientException", Message: "The security token included in the request is invalid."}, sdk.Unauthenticated, false},
		"throttled": {pocket.Throttle(), sdk.ResourceExhausted, true},
		"429":       {&fault.Refusal{Status: 429, Code: "SomethingElse", Message: "slow down"}, sdk.ResourceExhausted, true},
		"server":    {&fault.Refusal{Status: 500, Code: "ServerException", Message: "internal"}, sdk.Unavailable, true},
		"gateway":   {&fault.Refusal{Status: 503, Code: "ServiceUnavailable", Message: "later"}, sdk.Unavailable, true},
		"parameter": {&fault.Refusal{Code: "InvalidParameterException", Message: "no"}, sdk.InvalidArgument, false},
		"cluster":   {&fault.Refusal{Code: "ClusterNotFoundException", Message: "Cluster not found."}, sdk.FailedPrecondition, false},
	} {
		remove := w.cloud.Faults().Add(fault.Rule{Action: "ecs:DescribeTasks", Effect: fault.Effect{Refuse: c.refuse}})
		_, err := p.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h})
		remove()
		if sdk.CodeOf(err) != c.code || sdk.IsRetryable(err) != c.again || !strings.Contains(err.Error(), "provider test") {
			t.Errorf("%s: %v (%s, retryable %t); want %s", name, err, sdk.CodeOf(err), sdk.IsRetryable(err), c.code)
		}
	}
}

// TestWrongClock: with this machine's clock far off, the vendor's client learns
// the difference from the first refusal, and calls work.
func TestWrongClock(t *testing.T) {
	for _, by := range []time.Duration{-10 * time.Minute, 3 * time.Hour} {
		w := newWorld(t, pocket.Options{Now: func() time.Time { return time.Now().Add(by) }}, nil)
		p := w.Open()
		if st := w.Ended(p, w.Run(p, w.Plan(p, shell("exit 3")))); st.ExitCode == nil || *st.ExitCode != 3 {
			t.Errorf("clock off by %s: %s: %s", by, st.State, st.Message)
		}
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
	if n := w.Count("ecs:RunTask") + w.Count("ecs:RegisterTaskDefinition"); n != 0 {
		t.Errorf("%d calls were made", n)
	}
	// Where nobody says whose the credentials are, nothing is refused.
	w.cloud.Faults().Add(fault.Rule{Action: "sts:*", Effect: fault.Effect{Reset: true}})
	w.Config["account"] = pocket.Account
	p = w.Open()
	for range 2 {
		w.Ended(p, w.Run(p, w.Plan(p, shell("true"))))
	}
}

// TestCheck: all is well, and a right that is missing is named.
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
	w.Config["cluster"] = "nosuch"
	res, err := w.Open().Check(t.Context(), sdk.CheckRequest{})
	if err != nil || res.Items[1].OK || !strings.Contains(res.Items[1].Detail, "nosuch") {
		t.Errorf("without a cluster: %+v, %v", res.Items, err)
	}
	w.Config["cluster"], w.Config["account"] = "default", "999999999999"
	if res, err = w.Open().Check(t.Context(), sdk.CheckRequest{}); err != nil || res.Items[0].OK {
		t.Errorf("with another account: %+v, %v", res.Items, err)
	}
	for _, c := range w.cloud.Calls().Calls("ecs:RegisterTaskDefinition") {
		if c.Status == 200 {
			t.Error("a check registered a definition")
		}
	}
}

// TestUnrunnable: a command that isn't there, or can't be run, is told as such.
func TestUnrunnable(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.Unrunnable(w.Open())
}

package appplatform

import (
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/godo"

	pocket "github.com/windlass-run/windlass/internal/pocket/digitalocean"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/sdk"
)

// deployed is a deployment with a job's step below deploy; an empty status leaves
// the step out.
func deployed(phase godo.DeploymentPhase, status godo.DeploymentProgressStepStatus, code string) *godo.Deployment {
	begun := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	d := &godo.Deployment{ID: "d", Phase: phase, CreatedAt: begun, PhaseLastUpdatedAt: begun.Add(9 * time.Second),
		Spec: &godo.AppSpec{Jobs: []*godo.AppJobSpec{{Name: jobName, Timeout: "1m0s"}}}}
	// The image's step has the same component, and counts that would say success.
	d.Progress = &godo.DeploymentProgress{PendingSteps: 1, SuccessSteps: 5, TotalSteps: 6, Steps: []*godo.DeploymentProgressStep{
		{Name: stepBuild, Steps: []*godo.DeploymentProgressStep{{Name: "components", Steps: []*godo.DeploymentProgressStep{
			{Name: jobName, ComponentName: jobName, Status: godo.DeploymentProgressStepStatus_Success, StartedAt: begun}}}}}}}
	if status == "" {
		return d
	}
	step := &godo.DeploymentProgressStep{Name: "anything", ComponentName: jobName, Status: status}
	if status != godo.DeploymentProgressStepStatus_Pending {
		step.StartedAt = begun.Add(2 * time.Second)
	}
	if status == godo.DeploymentProgressStepStatus_Success || status == godo.DeploymentProgressStepStatus_Error {
		step.EndedAt = begun.Add(5 * time.Second)
	}
	if code != "" {
		step.Reason = &godo.DeploymentProgressStepReason{Code: code, Message: "Words."}
	}
	d.Progress.Steps = append(d.Progress.Steps, &godo.DeploymentProgressStep{Name: stepDeploy, Steps: []*godo.DeploymentProgressStep{
		{Name: "initialize", Status: godo.DeploymentProgressStepStatus_Success}, {Name: "components", Steps: []*godo.DeploymentProgressStep{step}},
		{Name: "finalize", Status: godo.DeploymentProgressStepStatus_Pending}}})
	return d
}

const (
	stepPending = godo.DeploymentProgressStepStatus_Pending
	stepRunning = godo.DeploymentProgressStepStatus_Running
	stepError   = godo.DeploymentProgressStepStatus_Error
	stepSuccess = godo.DeploymentProgressStepStatus_Success
	stepUnknown = godo.DeploymentProgressStepStatus_Unknown
)

// TestF45Phases judges every phase with every status of the job's step: nothing is
// a success but the step's, or an active deployment without such a step, and what
// has ended never hangs on steps that stay pending.
func TestF45Phases(t *testing.T) {
	phases := []godo.DeploymentPhase{godo.DeploymentPhase_PendingBuild, godo.DeploymentPhase_Building, godo.DeploymentPhase_PendingDeploy, godo.DeploymentPhase_Deploying,
		godo.DeploymentPhase_Active, godo.DeploymentPhase_Error, godo.DeploymentPhase_Canceled, godo.DeploymentPhase_Superseded, godo.DeploymentPhase_Unknown, "BRAND_NEW", ""}
	for _, phase := range phases {
		for _, status := range []godo.DeploymentProgressStepStatus{"", stepPending, stepRunning, stepError, stepSuccess, stepUnknown, "BRAND_NEW"} {
			d := deployed(phase, status, "")
			res := judge(d, nil, nil)
			if !sdk.LegalReason(res.State, res.Reason) {
				t.Errorf("%s with the step %s: %s for %q", phase, status, res.State, res.Reason)
			}
			good := status == stepSuccess || phase == godo.DeploymentPhase_Active && status == ""
			if (res.State == sdk.StateSucceeded) != good {
				t.Errorf("%s with the step %s: %s", phase, status, res.State)
			}
			if over(d) && !res.State.Terminal() {
				t.Errorf("%s with the step %s hangs: %s", phase, status, res.State)
			}
			if res.ExitCode != nil {
				t.Errorf("%s with the step %s: code %d", phase, status, *res.ExitCode)
			}
			if res.State.Terminal() && res.EndedAt.Before(res.StartedAt) {
				t.Errorf("%s with the step %s: ended before it started", phase, status)
			}
		}
	}
}

func TestStates(t *testing.T) {
	for name, c := range map[string]struct {
		d      *godo.Deployment
		state  sdk.JobState
		reason sdk.Reason
	}{
		"building":                   {deployed(godo.DeploymentPhase_Building, stepPending, ""), sdk.StatePending, ""},
		"deploying, not begun":       {deployed(godo.DeploymentPhase_Deploying, stepPending, ""), sdk.StatePending, ""},
		"running":                    {deployed(godo.DeploymentPhase_Deploying, stepRunning, ""), sdk.StateRunning, ""},
		"running, no step shown":     {deployed(godo.DeploymentPhase_Deploying, "", ""), sdk.StateRunning, ""},
		"failed, not over":           {deployed(godo.DeploymentPhase_Deploying, stepError, "DeployContainerExitNonZero"), sdk.StateRunning, ""},
		"finalizing":                 {deployed(godo.DeploymentPhase_Deploying, stepSuccess, ""), sdk.StateSucceeded, sdk.ReasonCompleted},
		"succeeded, then replaced":   {deployed(godo.DeploymentPhase_Superseded, stepSuccess, ""), sdk.StateSucceeded, sdk.ReasonCompleted},
		"active, step never began":   {deployed(godo.DeploymentPhase_Active, stepPending, ""), sdk.StateFailed, sdk.ReasonUnknown},
		"superseded":                 {deployed(godo.DeploymentPhase_Superseded, stepRunning, ""), sdk.StateFailed, sdk.ReasonInfrastructure},
		"canceled":                   {deployed(godo.DeploymentPhase_Canceled, stepError, ""), sdk.StateCancelled, sdk.ReasonCancelled},
		"unknown step":               {deployed(godo.DeploymentPhase_Deploying, stepUnknown, ""), sdk.StateUnknown, sdk.ReasonUnknown},
		"unknown phase":              {deployed(godo.DeploymentPhase_Unknown, stepRunning, ""), sdk.StateUnknown, sdk.ReasonUnknown},
		"a phase of the future":      {deployed("RETRYING", stepRunning, ""), sdk.StateUnknown, sdk.ReasonUnknown},
		"nonzero":                    {deployed(godo.DeploymentPhase_Error, stepError, "DeployContainerExitNonZero"), sdk.StateFailed, sdk.ReasonNonzeroExit},
		"not executable":             {deployed(godo.DeploymentPhase_Error, stepError, "DeployContainerCommandNotExecutable"), sdk.StateFailed, sdk.ReasonFailedToStart},
		"memory":                     {deployed(godo.DeploymentPhase_Error, stepError, "DeployContainerOutOfMemory"), sdk.StateFailed, sdk.ReasonOOMKilled},
		"quota":                      {deployed(godo.DeploymentPhase_Error, stepError, "ResourceExhausted"), sdk.StateFailed, sdk.ReasonQuota},
		"image":                      {deployed(godo.DeploymentPhase_Error, stepError, "BuildJobFailed"), sdk.StateFailed, sdk.ReasonImagePull},
		"build limits":               {deployed(godo.DeploymentPhase_Error, stepError, "BuildRateLimit"), sdk.StateFailed, sdk.ReasonCapacity},
		"platform":                   {deployed(godo.DeploymentPhase_Error, stepError, "InternalError"), sdk.StateFailed, sdk.ReasonInfrastructure},
		"no reason":                  {deployed(godo.DeploymentPhase_Error, stepError, ""), sdk.StateFailed, sdk.ReasonUnknown},
		"no reason, never began":     {deployed(godo.DeploymentPhase_Error, stepPending, ""), sdk.StateFailed, sdk.ReasonFailedToStart},
		"no reason, nothing to show": {&godo.Deployment{Phase: godo.DeploymentPhase_Error}, sdk.StateFailed, sdk.ReasonFailedToStart},
	} {
		res := judge(c.d, nil, nil)
		if res.State != c.state || res.Reason != c.reason || res.OOMObserved != (c.reason == sdk.ReasonOOMKilled) {
			t.Errorf("%s: %s, %s (OOM %t), want %s, %s", name, res.State, res.Reason, res.OOMObserved, c.state, c.reason)
		}
	}
}

// TestF45Invocations: a job's invocation can only take a success back. One that was
// skipped is an end, and none is success.
func TestF45Invocations(t *testing.T) {
	for phase, want := range map[godo.JobInvocationPhase]sdk.JobState{
		godo.JOBINVOCATIONPHASE_Succeeded: sdk.StateSucceeded, godo.JOBINVOCATIONPHASE_Skipped: sdk.StateFailed, godo.JOBINVOCATIONPHASE_Failed: sdk.StateFailed,
		godo.JOBINVOCATIONPHASE_Canceled: sdk.StateCancelled, godo.JOBINVOCATIONPHASE_Unknown: sdk.StateUnknown, godo.JOBINVOCATIONPHASE_Running: sdk.StateSucceeded, "NEW": sdk.StateUnknown,
	} {
		inv := []*godo.JobInvocation{{Phase: phase}}
		if res := judge(deployed(godo.DeploymentPhase_Active, stepSuccess, ""), nil, inv); res.State != want || !sdk.LegalReason(res.State, res.Reason) {
			t.Errorf("%s beside a success: %s, %s; want %s", phase, res.State, res.Reason, want)
		}
		res := judge(deployed(godo.DeploymentPhase_Error, stepError, "DeployContainerExitNonZero"), nil, inv)
		if res.State != sdk.StateFailed || res.Reason != sdk.ReasonNonzeroExit {
			t.Errorf("%s beside a failure: %s, %s", phase, res.State, res.Reason)
		}
	}
	inv := []*godo.JobInvocation{{Phase: godo.JOBINVOCATIONPHASE_Running}}
	if res := judge(deployed(godo.DeploymentPhase_Deploying, stepSuccess, ""), nil, inv); res.State != sdk.StateRunning {
		t.Errorf("a running invocation in a deployment that isn't over: %s", res.State)
	}
}

// TestDeployedAnew: what the platform deploys by itself is counted, and while it
// runs the job hasn't ended.
func TestDeployedAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell(w.Mark("anew")+"; sleep 100")))
	w.Running(p, h)
	w.Eventually("mark", func() bool { return w.Marked("anew") == 1 })
	if _, err := w.cloud.Maintain(h.ID); err != nil {
		t.Fatal(err)
	}
	w.Eventually("second run", func() bool { return w.Marked("anew") == 2 })
	var st sdk.JobStatusResult
	w.Eventually("second launch", func() bool { st = w.Status(p, h); return st.Launches == 2 })
	if st.State != sdk.StateRunning || st.Message == "" || st.Raw["deployments"] != "2" {
		t.Errorf("meanwhile %s: %q, %v", st.State, st.Message, st.Raw)
	}
	if _, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); sdk.CodeOf(err) != sdk.FailedPrecondition {
		t.Errorf("clean-up: %v, want FailedPrecondition", err)
	}
	res, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h})
	if err != nil || !res.Accepted {
		t.Errorf("cancel: %+v, %v", res, err)
	}
	if st = w.Ended(p, h); st.State != sdk.StateFailed || st.Reason != sdk.ReasonInfrastructure || st.Launches != 2 {
		t.Errorf("in the end %s, %s, %d launches", st.State, st.Reason, st.Launches)
	}
}

// TestReasons runs into each end that the pocket cloud can bring about.
func TestReasons(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mishap pocket.Mishap
		reason sdk.Reason
		ran    bool
	}{
		"image":    {pocket.Mishap{Stage: pocket.StageBuild}, sdk.ReasonImagePull, false},
		"memory":   {pocket.Mishap{Stage: pocket.StageOOM}, sdk.ReasonOOMKilled, true},
		"platform": {pocket.Mishap{Stage: pocket.StageInternal}, sdk.ReasonInfrastructure, false},
		"host":     {pocket.Mishap{Stage: pocket.StageHost}, sdk.ReasonInfrastructure, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pocket.Options{}, nil)
			w.cloud.Strike(c.mishap)
			p := w.Open()
			st := w.Ended(p, w.Run(p, w.Plan(p, shell("sleep 100"))))
			if st.State != sdk.StateFailed || st.Reason != c.reason || st.ExitCode != nil || st.Message == "" || (st.Launches > 0) != c.ran {
				t.Errorf("%s, %s, code %v, %d launches: %q", st.State, st.Reason, st.ExitCode, st.Launches, st.Message)
			}
		})
	}
}

// TestImagePull: an image that isn't there is told in the words of the cloud, and
// never counts as a launch.
func TestImagePull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pocket.Options{Executor: run.NewScripted(func(run.Spec) run.Play {
		return run.Play{Start: &run.StartError{Phase: run.Pull, Text: "manifest unknown"}}
	})}, nil)
	p := w.Open()
	st := w.Ended(p, w.Run(p, w.Plan(p, shell("true"))))
	if st.State != sdk.StateFailed || st.Reason != sdk.ReasonImagePull || st.Launches != 0 || !strings.Contains(st.Message, "busybox") || !strings.Contains(st.Message, "manifest unknown") {
		t.Errorf("%s, %s, %d launches: %q", st.State, st.Reason, st.Launches, st.Message)
	}
}

// TestImageHint: where a job never began and the platform doesn't say why, the
// image is named as what to look at, which changes no reason.
func TestImageHint(t *testing.T) {
	t.Parallel()
	hub := godo.ImageSourceSpec{RegistryType: godo.ImageSourceSpecRegistryType_DockerHub, Registry: "library", Repository: "busybox", Tag: "1"}
	private := hub
	private.RegistryCredentials = "EV[1]"
	own := godo.ImageSourceSpec{RegistryType: godo.ImageSourceSpecRegistryType_DOCR, Repository: "app", Digest: "sha256:1"}
	theirs := godo.ImageSourceSpec{RegistryType: godo.ImageSourceSpecRegistryType_Ghcr, Registry: "acme", Repository: "app", Tag: "2"}
	for name, c := range map[string]struct {
		status         godo.DeploymentProgressStepStatus
		code, message  string
		image          godo.ImageSourceSpec
		reason         sdk.Reason
		want, mustLack string
	}{
		"a build":            {stepPending, "BuildJobFailed", "Your build job failed.", hub, sdk.ReasonImagePull, "image busybox:1 is there, and public", ""},
		"internal":           {stepPending, "InternalError", "An internal error occurred.", private, sdk.ReasonInfrastructure, "that options.registry_credentials open it", ""},
		"no reason":          {stepPending, "", "", own, sdk.ReasonFailedToStart, "image registry.digitalocean.com/app@sha256:1 is there", "credentials"},
		"GitHub":             {stepPending, "", "", theirs, sdk.ReasonFailedToStart, "image ghcr.io/acme/app:2 is there", ""},
		"words of a pull":    {stepError, "", "could not pull the image", hub, sdk.ReasonImagePull, "could not pull the image", "never began"},
		"it ran":             {stepError, "InternalError", "An internal error occurred.", hub, sdk.ReasonInfrastructure, "", "image"},
		"its own code":       {stepError, "DeployContainerExitNonZero", "Your container exited with a non-zero exit code.", hub, sdk.ReasonNonzeroExit, "", "image"},
		"a code, image said": {stepError, "DeployContainerExitNonZero", "the job could not pull an image", hub, sdk.ReasonNonzeroExit, "", "never began"},
	} {
		d := deployed(godo.DeploymentPhase_Error, c.status, "")
		d.Spec = &godo.AppSpec{Jobs: []*godo.AppJobSpec{{Name: jobName, Image: &c.image}}}
		jobStep(d).Reason = &godo.DeploymentProgressStepReason{Code: c.code, Message: c.message}
		res := judge(d, nil, nil)
		if res.Reason != c.reason || !strings.Contains(res.Message, c.want) || c.mustLack != "" && strings.Contains(res.Message, c.mustLack) {
			t.Errorf("%s: %s: %q", name, res.Reason, res.Message)
		}
	}
}

// TestUnknownPhase: a phase that says nothing is unknown, and ends by itself.
func TestUnknownPhase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.Strike(pocket.Mishap{Stage: pocket.StageUnknown, After: 300 * time.Millisecond})
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("true")))
	w.Eventually("unknown state", func() bool { return w.Status(p, h).State == sdk.StateUnknown })
	if st := w.Ended(p, h); st.State != sdk.StateSucceeded {
		t.Errorf("then %s: %s", st.State, st.Message)
	}
}

// TestF83NotPlaced: a job that the platform never places can be cancelled, and its
// cancel is proven.
func TestF83NotPlaced(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.Strike(pocket.Mishap{Stage: pocket.StagePlace})
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("true")))
	w.Eventually("waiting deployment", func() bool { return w.Status(p, h).Raw["phase"] == "PENDING_DEPLOY" })
	if st := w.Status(p, h); st.State != sdk.StatePending {
		t.Errorf("it is %s", st.State)
	}
	if _, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil {
		t.Fatal(err)
	}
	st := w.Ended(p, h)
	if st.State != sdk.StateCancelled || st.Launches != 0 {
		t.Errorf("then %s, %d launches", st.State, st.Launches)
	}
	if res, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil || !res.Gone || res.Accepted {
		t.Errorf("again: %+v, %v", res, err)
	}
}

// TestF28NativeTimeout: the platform's own limit is a tenth above the job's, 30
// minutes at most, and its end is told as a time-out.
func TestF28NativeTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	for timeout, want := range map[time.Duration]time.Duration{0: maxTimeout, time.Millisecond: time.Second, 10 * time.Second: 11 * time.Second, 29 * time.Minute: maxTimeout, maxTimeout: maxTimeout} {
		spec := shell("true")
		spec.Timeout = timeout
		if l := w.Plan(p, spec); l.NativeDeadline != want {
			t.Errorf("with %s the native deadline is %s, want %s", timeout, l.NativeDeadline, want)
		}
	}
	spec := shell("sleep 100")
	spec.Timeout = 900 * time.Millisecond
	st := w.Ended(p, w.Run(p, w.Plan(p, spec)))
	if st.State != sdk.StateFailed || st.Reason != sdk.ReasonTimedOut || st.ExitCode != nil {
		t.Errorf("%s, %s, code %v: %s", st.State, st.Reason, st.ExitCode, st.Message)
	}
	// Whatever code stands beside it.
	d := deployed(godo.DeploymentPhase_Error, stepError, "DeployContainerExitNonZero")
	d.Spec.Jobs[0].Timeout = "3s"
	if res := judge(d, nil, nil); res.Reason != sdk.ReasonTimedOut {
		t.Errorf("a job that ran for all of its time: %s", res.Reason)
	}
}

// TestF18NoCode: without the wrapper there is no exit code, and none is made up.
func TestF18NoCode(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	for script, want := range map[string]sdk.JobState{"exit 0": sdk.StateSucceeded, "exit 3": sdk.StateFailed, "kill -9 $$": sdk.StateFailed} {
		if st := w.Ended(p, w.Run(p, w.Plan(p, shell(script)))); st.State != want || st.ExitCode != nil || st.Signal != "" {
			t.Errorf("%s: %s, code %v, signal %q", script, st.State, st.ExitCode, st.Signal)
		}
	}
}

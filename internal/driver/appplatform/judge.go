package appplatform

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/sdk"
)

// The steps of a deployment whose phases decide:
// https://docs.digitalocean.com/reference/api/digitalocean/#operation/apps_get_deployment
const (
	stepBuild  = "build"
	stepDeploy = "deploy"
)

// over reports whether a deployment's phase is a last one.
func over(d *godo.Deployment) bool {
	switch d.Phase {
	case godo.DeploymentPhase_Active, godo.DeploymentPhase_Superseded, godo.DeploymentPhase_Error, godo.DeploymentPhase_Canceled:
		return true
	}
	return false
}

// split returns the deployment that the create made, and those that came later. It
// is the one that is named, or the oldest.
func split(list []*godo.Deployment, id string) (own *godo.Deployment, later []*godo.Deployment) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *godo.Deployment) int { return a.CreatedAt.Compare(b.CreatedAt) })
	i := slices.IndexFunc(list, func(d *godo.Deployment) bool { return id == "" || d.ID == id })
	if i < 0 {
		return nil, list
	}
	own = list[i]
	return own, slices.Delete(list, i, i+1)
}

// jobStep returns the job's step of a deployment, the one below deploy that names
// it; nil is none. It is found by what it says, not by its place, since the
// examples show services only.
func jobStep(d *godo.Deployment) *godo.DeploymentProgressStep {
	if d.Progress == nil {
		return nil
	}
	var find func(steps []*godo.DeploymentProgressStep) *godo.DeploymentProgressStep
	find = func(steps []*godo.DeploymentProgressStep) *godo.DeploymentProgressStep {
		for _, s := range steps {
			if s == nil {
				continue
			}
			if s.ComponentName == jobName && len(s.Steps) == 0 {
				return s
			}
			if got := find(s.Steps); got != nil {
				return got
			}
		}
		return nil
	}
	// A step of the same component below build is the image's.
	for _, s := range d.Progress.Steps {
		if s != nil && s.Name == stepDeploy {
			return find(s.Steps)
		}
	}
	return nil
}

// failure returns the step that tells most of why a deployment failed: the job's
// own, else the innermost with a reason.
func failure(d *godo.Deployment) *godo.DeploymentProgressStep {
	if s := jobStep(d); s != nil && s.Reason != nil && (s.Reason.Code != "" || s.Reason.Message != "") {
		return s
	}
	var find func(steps []*godo.DeploymentProgressStep) *godo.DeploymentProgressStep
	find = func(steps []*godo.DeploymentProgressStep) *godo.DeploymentProgressStep {
		for _, s := range steps {
			if s == nil {
				continue
			}
			if got := find(s.Steps); got != nil {
				return got
			}
			if s.Status == godo.DeploymentProgressStepStatus_Error && s.Reason != nil {
				return s
			}
		}
		return nil
	}
	if d.Progress == nil {
		return nil
	}
	return find(d.Progress.Steps)
}

// started reports whether a deployment's job has been started.
func started(d *godo.Deployment) bool {
	s := jobStep(d)
	if s == nil {
		return d.Phase == godo.DeploymentPhase_Deploying || d.Phase == godo.DeploymentPhase_Active
	}
	if s.Reason != nil && reasonOf(s.Reason.Code, s.Reason.Message) == sdk.ReasonImagePull {
		return false // the step begins before the image is there
	}
	return s.Status != godo.DeploymentProgressStepStatus_Pending && !s.StartedAt.IsZero() || s.Status == godo.DeploymentProgressStepStatus_Running
}

// judge gives the state of an attempt by its deployment, by what the platform
// deployed later by itself, and by what is listed of the job as invocation.
//
// Nothing but the job's own step, the phase ACTIVE of a deployment without such a
// step, and no word to the contrary, is a success: counts of steps, or a live
// address, say nothing. An end is told only when nothing of the app runs any more.
// https://github.com/digitalocean/terraform-provider-digitalocean/pull/1048
// https://github.com/digitalocean/app_action/issues/265
func judge(own *godo.Deployment, later []*godo.Deployment, inv []*godo.JobInvocation) sdk.JobStatusResult {
	res := phase(own)
	for _, d := range append([]*godo.Deployment{own}, later...) {
		if started(d) {
			res.Launches++
		}
	}
	if res.State.Terminal() {
		contradict(&res, own, inv)
	}
	if len(later) > 0 {
		res.Raw["deployments"] = itoa(int64(1 + len(later)))
	}
	for _, d := range later {
		if !over(d) && res.State.Terminal() {
			// Whatever became of the first, the job runs again.
			res.State, res.Reason, res.OOMObserved, res.EndedAt = sdk.StateRunning, "", false, time.Time{}
			res.Message = fmt.Sprintf("the platform has deployed the app anew (%s), and the job with it", d.Cause)
		}
	}
	if res.State == sdk.StateRunning && res.StartedAt.IsZero() {
		res.StartedAt = own.PhaseLastUpdatedAt
	}
	return res
}

// phase is the state that a deployment tells by itself.
func phase(d *godo.Deployment) sdk.JobStatusResult {
	step := jobStep(d)
	status := godo.DeploymentProgressStepStatus("")
	res := sdk.JobStatusResult{CreatedAt: d.CreatedAt.UTC(), Raw: raw(d, step)}
	if step != nil {
		status = step.Status
		if started(d) {
			res.StartedAt = step.StartedAt.UTC()
		}
	}
	end := func(state sdk.JobState, reason sdk.Reason, message string) sdk.JobStatusResult {
		res.State, res.Reason, res.Message = state, reason, message
		res.EndedAt = d.PhaseLastUpdatedAt.UTC()
		if step != nil && !step.EndedAt.IsZero() {
			res.EndedAt = step.EndedAt.UTC()
		}
		if res.EndedAt.Before(res.StartedAt) {
			res.EndedAt = res.StartedAt
		}
		return res
	}
	not := func(state sdk.JobState, reason sdk.Reason, message string) sdk.JobStatusResult {
		res.State, res.Reason, res.Message = state, reason, message
		return res
	}
	if status == godo.DeploymentProgressStepStatus_Success {
		return end(sdk.StateSucceeded, sdk.ReasonCompleted, "the job's step succeeded")
	}
	switch d.Phase {
	case godo.DeploymentPhase_Active:
		if step == nil {
			return end(sdk.StateSucceeded, sdk.ReasonCompleted, "the deployment is active, which it becomes after its job has succeeded")
		}
		return end(sdk.StateFailed, sdk.ReasonUnknown, fmt.Sprintf("the deployment is active, and the job's step is %s: nothing says that the job succeeded", status))
	case godo.DeploymentPhase_Error:
		reason, message := why(d, step)
		out := end(sdk.StateFailed, reason, message)
		out.OOMObserved = reason == sdk.ReasonOOMKilled
		return out
	case godo.DeploymentPhase_Canceled:
		return end(sdk.StateCancelled, sdk.ReasonCancelled, "the deployment was canceled")
	case godo.DeploymentPhase_Superseded:
		return end(sdk.StateFailed, sdk.ReasonInfrastructure, "another deployment took the place of the job's")
	case godo.DeploymentPhase_PendingBuild, godo.DeploymentPhase_Building, godo.DeploymentPhase_PendingDeploy:
		return not(sdk.StatePending, "", string(d.Phase))
	case godo.DeploymentPhase_Deploying:
		switch {
		case status == godo.DeploymentProgressStepStatus_Pending:
			return not(sdk.StatePending, "", string(d.Phase))
		case step == nil, status == godo.DeploymentProgressStepStatus_Running:
			return not(sdk.StateRunning, "", "")
		case status == godo.DeploymentProgressStepStatus_Error:
			// Whether it failed or was cancelled the deployment's last phase tells.
			return not(sdk.StateRunning, "", "the job has failed; its deployment ends")
		}
	}
	return not(sdk.StateUnknown, sdk.ReasonUnknown, fmt.Sprintf("the phase of the deployment is %s, the job's step %s", cmp.Or(string(d.Phase), "none"), cmp.Or(string(status), "none")))
}

// contradict takes back an end that an invocation of the job doesn't bear out.
func contradict(res *sdk.JobStatusResult, own *godo.Deployment, list []*godo.JobInvocation) {
	for _, i := range list {
		res.Raw["invocation"] = string(i.Phase)
		if res.State != sdk.StateSucceeded {
			continue
		}
		switch i.Phase {
		case godo.JOBINVOCATIONPHASE_Succeeded:
		case godo.JOBINVOCATIONPHASE_Failed:
			res.State, res.Reason, res.Message = sdk.StateFailed, sdk.ReasonUnknown, "the job's invocation failed, though its step did not"
		case godo.JOBINVOCATIONPHASE_Canceled:
			res.State, res.Reason, res.Message = sdk.StateCancelled, sdk.ReasonCancelled, "the job's invocation was canceled"
		case godo.JOBINVOCATIONPHASE_Skipped:
			res.State, res.Reason, res.Message = sdk.StateFailed, sdk.ReasonInfrastructure, "the job's invocation was skipped: the job did not run"
		case godo.JOBINVOCATIONPHASE_Pending, godo.JOBINVOCATIONPHASE_Running:
			// The list lags where the deployment itself is through.
			if !over(own) {
				res.State, res.Reason, res.Message, res.EndedAt = sdk.StateRunning, "", "the job's invocation is "+string(i.Phase), time.Time{}
			}
		default:
			res.State, res.Reason, res.Message, res.EndedAt = sdk.StateUnknown, sdk.ReasonUnknown, "the phase of the job's invocation is "+cmp.Or(string(i.Phase), "none"), time.Time{}
		}
	}
}

// why is the reason of a failed deployment, and what the platform says of it.
// https://docs.digitalocean.com/products/app-platform/reference/error-codes/
func why(d *godo.Deployment, step *godo.DeploymentProgressStep) (sdk.Reason, string) {
	code, text := "", ""
	if f := failure(d); f != nil && f.Reason != nil {
		code, text = f.Reason.Code, oneLine(f.Reason.Message)
	}
	message := strings.Trim(code+": "+text, ": ")
	if message == "" {
		message = "App Platform gives no reason"
	}
	reason := reasonOf(code, text)
	switch ran := step != nil && started(d); {
	case ran && reason != sdk.ReasonOOMKilled && outran(d, step):
		// No page has a code for a job that is ended for its time-out; that it ran
		// for all of it says so.
		return sdk.ReasonTimedOut, message
	case reason == sdk.ReasonUnknown && !ran:
		return sdk.ReasonFailedToStart, message + imageHint(d)
	case reason == sdk.ReasonImagePull && !aboutImage(text), reason == sdk.ReasonInfrastructure && !ran:
		return reason, message + imageHint(d)
	}
	return reason, message
}

// imageHint is what to look at where a job never began and the platform's words
// don't name an image: the page of error codes has none for one that can't be
// fetched. It is a hint, and so decides no reason.
func imageHint(d *godo.Deployment) string {
	job := component(d.Spec)
	if job == nil || job.Image == nil {
		return ""
	}
	hint := "; the job never began: see that its image " + imageName(job.Image) + " is there"
	switch {
	case job.Image.RegistryType == godo.ImageSourceSpecRegistryType_DOCR:
		return hint
	case job.Image.RegistryCredentials == "":
		return hint + ", and public, or name options.registry_credentials"
	}
	return hint + ", and that options.registry_credentials open it"
}

// outran reports whether a job ran for as long as it was allowed.
func outran(d *godo.Deployment, step *godo.DeploymentProgressStep) bool {
	job := component(d.Spec)
	if job == nil || step.StartedAt.IsZero() || step.EndedAt.IsZero() {
		return false
	}
	limit, err := time.ParseDuration(job.Timeout)
	return err == nil && limit > 0 && step.EndedAt.Sub(step.StartedAt) >= limit
}

// aboutImage reports whether the words of a step that failed tell of an image that
// can't be fetched.
func aboutImage(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "image") && strings.Contains(text, "pull") || strings.Contains(text, "manifest unknown")
}

// reasonOf reads the code of a step that failed, else its words.
func reasonOf(code, text string) sdk.Reason {
	image := aboutImage(text)
	text = strings.ToLower(text)
	has := func(part string) bool { return strings.Contains(code, part) }
	switch {
	case has("OutOfMemory") && !strings.HasPrefix(code, "Build"):
		return sdk.ReasonOOMKilled
	case has("RateLimit"):
		return sdk.ReasonCapacity
	case has("ResourceExhausted"):
		return sdk.ReasonQuota
	case has("Image"), strings.HasPrefix(code, "Build"), image && (code == "" || has("InternalError")):
		// An image isn't built: what stands here is its fetching.
		return sdk.ReasonImagePull
	case has("Timeout"), has("TimedOut"):
		return sdk.ReasonTimedOut
	case has("ExitNonZero"):
		return sdk.ReasonNonzeroExit
	case has("CommandNotExecutable"):
		// One code for a command that isn't there and for one that can't be run.
		return sdk.ReasonFailedToStart
	case has("InternalError"):
		return sdk.ReasonInfrastructure
	case code == "" && (strings.Contains(text, "timed out") || strings.Contains(text, "than its timeout")):
		return sdk.ReasonTimedOut
	}
	return sdk.ReasonUnknown
}

// raw keeps what App Platform says, in its own words.
func raw(d *godo.Deployment, step *godo.DeploymentProgressStep) map[string]string {
	m := map[string]string{"deployment": d.ID, "phase": string(d.Phase)}
	add := func(key, value string) {
		if value != "" {
			m[key] = value
		}
	}
	add("cause", d.Cause)
	if step != nil {
		add("step", string(step.Status))
	}
	if f := failure(d); f != nil && f.Reason != nil {
		add("step.reason.code", f.Reason.Code)
		add("step.reason.message", f.Reason.Message)
	}
	return m
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

package aci

import (
	"cmp"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// verdict is what a group comes to, for now or for good.
type verdict struct {
	state   sdk.JobState
	reason  sdk.Reason
	code    *int
	oom     bool
	message string
}

// judge gives a group one state. The container's own state decides; the group's
// counts where the container shows none, and says which end a stop was. A group
// may go on to say that it runs when its container has ended, and fail without
// saying why.
// https://github.com/Azure/ACS/issues/127
// https://github.com/MicrosoftDocs/azure-docs/issues/71458
func judge(v view) verdict {
	switch {
	case v.in(stateRunning):
		return verdict{state: sdk.StateRunning, message: v.alarm()}
	case is(v.group, stateStopped):
		// Stopping leaves alone what has ended by itself, so this one ran, or was
		// about to.
		// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-stop-start#stop
		return verdict{state: sdk.StateCancelled, reason: sdk.ReasonCancelled, code: v.code(), oom: is(v.detail(), detailOOM), message: "the container group was stopped"}
	case v.in(stateTerminated):
		return ended(v)
	case is(v.group, stateFailed) && !v.deploying():
		return verdict{state: sdk.StateFailed, reason: v.failure(), message: v.message()}
	case is(v.group, stateSucceeded) && v.current == nil:
		return verdict{state: sdk.StateSucceeded, reason: sdk.ReasonCompleted, message: v.message()}
	case v.restarts > 0:
		// It ran, though nothing should run it again.
		return verdict{state: sdk.StateRunning, message: v.alarm()}
	}
	out := verdict{state: sdk.StatePending, message: v.progress()}
	// A deployment that failed may yet succeed, Azure says.
	// https://learn.microsoft.com/en-us/azure/container-instances/container-state#create-start-and-restart-operations
	if is(v.provisioning, stateFailed) || len(v.failures()) > 0 {
		if why := v.why(); sdk.LegalReason(sdk.StatePending, why) {
			out.reason = why
		}
		out.message = v.message()
	}
	return out
}

// ended judges a container that has terminated. Success takes a code 0, or the
// platform's own word where it gives no code.
func ended(v view) verdict {
	out := verdict{state: sdk.StateFailed, code: v.code(), oom: is(v.detail(), detailOOM), message: v.message()}
	switch text := v.unstartable(); {
	case out.code == nil && v.current.ExitCode == nil && is(v.detail(), detailCompleted) && is(v.group, stateSucceeded):
		out.state, out.reason = sdk.StateSucceeded, sdk.ReasonCompleted
	case out.code != nil && *out.code == 0 && (is(v.detail(), detailCompleted) || out.oom || !is(v.group, stateFailed)):
		out.state, out.reason = sdk.StateSucceeded, sdk.ReasonCompleted
	case out.code != nil && *out.code == 0:
		out.code, out.reason = nil, v.failure() // all else contradicts it
	case out.oom:
		out.reason = sdk.ReasonOOMKilled
	case v.platformCode() && v.spot:
		out.reason = sdk.ReasonPreempted
	case v.platformCode():
		out.reason = sdk.ReasonEvicted
	case text != "":
		out.reason, out.message = sdk.ReasonInvalidSpec, text
	case out.code != nil:
		out.reason = sdk.ReasonNonzeroExit
	default:
		out.reason = v.failure()
	}
	return out
}

// failure is why a group has failed.
func (v view) failure() sdk.Reason {
	if why := v.why(); why != "" {
		return why
	}
	if v.launches() == 0 && is(v.provisioning, stateFailed) {
		return sdk.ReasonFailedToStart
	}
	return sdk.ReasonUnknown
}

// why is what status and events tell of a failure, or nothing.
func (v view) why() sdk.Reason {
	why := reasonOf(v.detail())
	for _, text := range v.failures() {
		why = cmp.Or(why, reasonOf(text))
	}
	return why
}

// reasonOf reads Azure's words, for what no field tells.
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-troubleshooting
func reasonOf(text string) sdk.Reason {
	text = strings.ToLower(text)
	for _, row := range []struct {
		words  string
		reason sdk.Reason
	}{
		{"imagepullbackoff", sdk.ReasonImagePull},
		{"errimagepull", sdk.ReasonImagePull},
		{"failed to pull image", sdk.ReasonImagePull},
		{"back-off pulling image", sdk.ReasonImagePull},
		{"is not accessible. please check the image", sdk.ReasonImagePull},
		{"could not pull its images", sdk.ReasonImagePull},
		{"oomkilled", sdk.ReasonOOMKilled},
		{"is not available in the location", sdk.ReasonCapacity},
		{"quota", sdk.ReasonQuota},
		{"spot", sdk.ReasonPreempted},
		{"does not have authorization", sdk.ReasonPermissionDenied},
		{"subnet", sdk.ReasonInfrastructure},
		{"internal server error", sdk.ReasonInfrastructure},
		{"failed to mount", sdk.ReasonInfrastructure},
	} {
		if strings.Contains(text, row.words) {
			return row.reason
		}
	}
	return ""
}

// message is one line with what Azure says, the most telling first.
func (v view) message() string {
	var parts []string
	add := func(s string) {
		if s = oneLine(s); s != "" && !strings.Contains(strings.Join(parts, "; "), s) {
			parts = append(parts, s)
		}
	}
	for _, text := range v.failures() {
		add(text)
	}
	if d := v.detail(); !is(d, detailCompleted) {
		add(d)
	}
	if v.restarts > 0 {
		add(v.alarm())
	}
	if len(parts) == 0 && !is(v.group, stateSucceeded) {
		return "Azure gives no reason"
	}
	return strings.Join(parts, "; ")
}

// alarm tells of a container that was run more than once: its group never asks
// for that.
// https://github.com/apache/airflow/pull/34627
func (v view) alarm() string {
	if v.restarts == 0 {
		return ""
	}
	return "Azure has restarted the container " + itoa(int64(v.restarts)) + " times, though its restart policy is Never"
}

// progress is what a group that hasn't begun waits for.
func (v view) progress() string {
	switch {
	case v.detail() != "":
		return oneLine(v.detail())
	case v.provisioning != "":
		return "provisioning: " + v.provisioning
	}
	return ""
}

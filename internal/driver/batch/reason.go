package batch

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

// facts are what AWS Batch says about a job's end.
type facts struct {
	succeeded bool
	// status is the job's reason, container the container's.
	status, container string
	// code is the container's exit code; nil is none.
	code *int32
	// started: the job was running once.
	started bool
	// asked: somebody terminated or cancelled it.
	asked bool
}

func factsOf(j types.JobDetail) facts {
	f := facts{succeeded: j.Status == types.JobStatusSucceeded, status: str(j.StatusReason), code: exitCode(j), started: !at(j.StartedAt).IsZero(),
		asked: j.IsTerminated != nil && *j.IsTerminated || j.IsCancelled != nil && *j.IsCancelled}
	if j.Container != nil {
		f.container = str(j.Container.Reason)
	}
	for _, a := range j.Attempts {
		f.status = cmp.Or(f.status, str(a.StatusReason))
		if a.Container != nil {
			f.container = cmp.Or(f.container, str(a.Container.Reason))
		}
	}
	return f
}

// ending is what they come to.
type ending struct {
	state   sdk.JobState
	reason  sdk.Reason
	oom     bool
	message string
}

// judge gives one state and reason for all that AWS Batch says.
func judge(f facts) ending {
	e := ending{state: sdk.StateFailed, oom: aws.ReasonOf(f.container) == sdk.ReasonOOMKilled, message: message(f)}
	status := strings.ToLower(f.status)
	taken := aws.Only(aws.ReasonOf(f.status, f.container), sdk.ReasonPreempted, sdk.ReasonEvicted, sdk.ReasonNodeLost)
	switch {
	case f.succeeded:
		e.state, e.reason = sdk.StateSucceeded, sdk.ReasonCompleted
	// https://docs.aws.amazon.com/batch/latest/userguide/job_timeouts.html
	case strings.Contains(status, "exceeded timeout"):
		e.reason = sdk.ReasonTimedOut
	case f.asked:
		e.state, e.reason = sdk.StateCancelled, sdk.ReasonCancelled
	case taken != "":
		e.reason = taken
	case e.oom:
		e.reason = sdk.ReasonOOMKilled
	case strings.Contains(status, "overrides length"):
		e.reason = sdk.ReasonInvalidSpec
	case f.code != nil && *f.code != 0:
		e.reason = sdk.ReasonNonzeroExit
	default:
		// No code, or a 0 of a job that failed.
		start := sdk.ReasonFailedToStart
		if f.started {
			start = sdk.ReasonUnknown
		}
		e.reason = cmp.Or(aws.ReasonOf(f.container, f.status), start)
	}
	return e
}

// waitingReason is why a job waits, of what AWS Batch says then.
// https://docs.aws.amazon.com/batch/latest/APIReference/API_JobDetail.html
func waitingReason(status string) sdk.Reason {
	up := strings.ToUpper(status)
	switch {
	case up == "":
		return ""
	case strings.Contains(up, "PERMISSION"):
		return sdk.ReasonPermissionDenied
	case strings.HasPrefix(up, "CAPACITY"):
		return sdk.ReasonCapacity
	case strings.HasPrefix(up, "MISCONFIGURATION"):
		return sdk.ReasonUnschedulable
	}
	return sdk.ReasonQueued
}

// message is one line with what AWS Batch says, the most telling first.
func message(f facts) string {
	var parts []string
	for _, s := range []string{f.container, f.status} {
		s = strings.Join(strings.Fields(s), " ")
		if s != "" && !strings.Contains(strings.Join(parts, "; "), s) {
			parts = append(parts, s)
		}
	}
	switch {
	case f.code == nil && len(parts) == 0:
		return "AWS Batch gives no reason"
	case f.code != nil && *f.code != 0:
		parts = append([]string{fmt.Sprintf("exit code %d", *f.code)}, parts...)
	}
	return strings.Join(parts, "; ")
}

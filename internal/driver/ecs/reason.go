package ecs

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

// facts are what ECS says about a task's end.
type facts struct {
	// stopCode is the task's code, stopped its reason; container is the main
	// container's reason, others what the rest of the task says.
	stopCode, stopped, container, others string
	// code is the main container's exit code; nil is none.
	code *int32
	// started: the task was running once.
	started bool
}

// ending is what they come to.
type ending struct {
	state   sdk.JobState
	reason  sdk.Reason
	oom     bool
	message string
}

// judge gives one state and reason for all that ECS says. The main container's
// exit code decides where the container came to its own end; without one a task
// never succeeds.
func judge(f facts) ending {
	e := ending{oom: aws.ReasonOf(f.container) == sdk.ReasonOOMKilled, message: message(f)}
	switch f.stopCode {
	case "UserInitiated":
		// Also the draining of an instance comes so.
		if why := aws.ReasonOf(f.stopped); why == sdk.ReasonEvicted || why == sdk.ReasonNodeLost || why == sdk.ReasonPreempted {
			e.state, e.reason = sdk.StateFailed, why
		} else {
			e.state, e.reason = sdk.StateCancelled, sdk.ReasonCancelled
		}
	case "SpotInterruption":
		e.state, e.reason = sdk.StateFailed, sdk.ReasonPreempted
	case "TerminationNotice":
		e.state, e.reason = sdk.StateFailed, cmp.Or(aws.Only(aws.ReasonOf(f.stopped, f.container), sdk.ReasonPreempted, sdk.ReasonEvicted), sdk.ReasonNodeLost)
	case "ServiceSchedulerInitiated":
		e.state, e.reason = sdk.StateFailed, cmp.Or(aws.Only(aws.ReasonOf(f.stopped), sdk.ReasonPreempted, sdk.ReasonNodeLost), sdk.ReasonEvicted)
	case "TaskFailedToStart":
		e.state, e.reason = sdk.StateFailed, cmp.Or(aws.ReasonOf(f.container, f.stopped, f.others), sdk.ReasonFailedToStart)
	default:
		judgeExit(f, &e)
	}
	return e
}

// judgeExit is for a main container that ended by itself, or for which no code
// of a stop tells otherwise.
func judgeExit(f facts, e *ending) {
	why := aws.ReasonOf(f.stopped)
	taken := aws.Only(why, sdk.ReasonPreempted, sdk.ReasonEvicted, sdk.ReasonNodeLost)
	e.state = sdk.StateFailed
	switch {
	case f.code != nil && *f.code == 0 && f.stopCode == "EssentialContainerExited":
		e.state, e.reason = sdk.StateSucceeded, sdk.ReasonCompleted
	case taken != "":
		e.reason = taken
	case e.oom:
		e.reason = sdk.ReasonOOMKilled
	case f.code != nil && *f.code != 0:
		e.reason = sdk.ReasonNonzeroExit
	default:
		// No code, or a 0 for which ECS doesn't vouch.
		start := sdk.ReasonFailedToStart
		if f.started {
			start = sdk.ReasonUnknown
		}
		e.reason = cmp.Or(aws.ReasonOf(f.container, f.stopped, f.others), start)
	}
}

// message is one line with what ECS says, the most telling first.
func message(f facts) string {
	var parts []string
	for _, s := range []string{f.container, f.stopped, f.others} {
		s = strings.Join(strings.Fields(s), " ")
		if s != "" && !strings.Contains(strings.Join(parts, "; "), s) {
			parts = append(parts, s)
		}
	}
	switch {
	case f.code == nil && len(parts) == 0:
		return "ECS gives no reason"
	case f.code != nil && *f.code != 0:
		parts = append([]string{fmt.Sprintf("exit code %d", *f.code)}, parts...)
	}
	return strings.Join(parts, "; ")
}

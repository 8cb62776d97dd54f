package ecs

import (
	"cmp"
	"fmt"
	"strings"

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

// sign is a text of ECS's that tells why a task ended.
type sign struct {
	text   string
	reason sdk.Reason
}

// signs are sought in order, the most telling first, without regard to case.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/stopped-task-error-codes.html
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/resource-initialization-error.html
func signs() []sign {
	return []sign{
		{"outofmemory", sdk.ReasonOOMKilled},
		{"oomkilled", sdk.ReasonOOMKilled},
		{"spot task was interrupted", sdk.ReasonPreempted},
		{"spot interruption", sdk.ReasonPreempted},
		{"spot instance", sdk.ReasonPreempted},
		{"spotinterruption", sdk.ReasonPreempted},
		{"cannotpull", sdk.ReasonImagePull},
		{"pull image manifest", sdk.ReasonImagePull},
		{"pull command failed", sdk.ReasonImagePull},
		{"image platform does not match", sdk.ReasonImagePull},
		{"exec format error", sdk.ReasonInvalidSpec},
		{"executable file not found", sdk.ReasonInvalidSpec},
		{"no such file or directory: unknown", sdk.ReasonInvalidSpec},
		{"permission denied: unknown", sdk.ReasonInvalidSpec},
		{"unable to find user", sdk.ReasonInvalidSpec},
		{"accessdenied", sdk.ReasonPermissionDenied},
		{"is not authorized to perform", sdk.ReasonPermissionDenied},
		{"unable to assume the role", sdk.ReasonPermissionDenied},
		{"capacity is unavailable", sdk.ReasonCapacity},
		{"no container instances were found", sdk.ReasonCapacity},
		{"insufficient capacity", sdk.ReasonCapacity},
		{"resource:", sdk.ReasonCapacity},
		{"reached the limit", sdk.ReasonQuota},
		{"network interface", sdk.ReasonInfrastructure},
		{"cni", sdk.ReasonInfrastructure},
		{"dockertimeouterror", sdk.ReasonInfrastructure},
		{"internalerror", sdk.ReasonInfrastructure},
		{"cannotstopcontainererror", sdk.ReasonInfrastructure},
		{"cannotinspectcontainererror", sdk.ReasonInfrastructure},
		{"host ec2", sdk.ReasonNodeLost},
		{"ec2 instance", sdk.ReasonNodeLost},
		{"agent disconnected", sdk.ReasonNodeLost},
		{"deregistration", sdk.ReasonEvicted},
		{"draining", sdk.ReasonEvicted},
		{"maintenance", sdk.ReasonEvicted},
		{"retirement", sdk.ReasonEvicted},
		{"scaling activity", sdk.ReasonEvicted},
		{"resourceinitializationerror", sdk.ReasonFailedToStart},
		{"cannotcreatecontainererror", sdk.ReasonFailedToStart},
		{"cannotstartcontainererror", sdk.ReasonFailedToStart},
		{"task failed to start", sdk.ReasonFailedToStart},
	}
}

func signOf(texts ...string) sdk.Reason {
	for _, s := range signs() {
		for _, t := range texts {
			if strings.Contains(strings.ToLower(t), s.text) {
				return s.reason
			}
		}
	}
	return ""
}

// judge gives one state and reason for all that ECS says. The main container's
// exit code decides where the container came to its own end; without one a task
// never succeeds.
func judge(f facts) ending {
	e := ending{oom: signOf(f.container) == sdk.ReasonOOMKilled, message: message(f)}
	switch f.stopCode {
	case "UserInitiated":
		// Also the draining of an instance comes so.
		if why := signOf(f.stopped); why == sdk.ReasonEvicted || why == sdk.ReasonNodeLost || why == sdk.ReasonPreempted {
			e.state, e.reason = sdk.StateFailed, why
		} else {
			e.state, e.reason = sdk.StateCancelled, sdk.ReasonCancelled
		}
	case "SpotInterruption":
		e.state, e.reason = sdk.StateFailed, sdk.ReasonPreempted
	case "TerminationNotice":
		e.state, e.reason = sdk.StateFailed, cmp.Or(only(signOf(f.stopped, f.container), sdk.ReasonPreempted, sdk.ReasonEvicted), sdk.ReasonNodeLost)
	case "ServiceSchedulerInitiated":
		e.state, e.reason = sdk.StateFailed, cmp.Or(only(signOf(f.stopped), sdk.ReasonPreempted, sdk.ReasonNodeLost), sdk.ReasonEvicted)
	case "TaskFailedToStart":
		e.state, e.reason = sdk.StateFailed, cmp.Or(signOf(f.container, f.stopped, f.others), sdk.ReasonFailedToStart)
	default:
		judgeExit(f, &e)
	}
	return e
}

// judgeExit is for a main container that ended by itself, or for which no code
// of a stop tells otherwise.
func judgeExit(f facts, e *ending) {
	why := signOf(f.stopped)
	taken := only(why, sdk.ReasonPreempted, sdk.ReasonEvicted, sdk.ReasonNodeLost)
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
		e.reason = cmp.Or(signOf(f.container, f.stopped, f.others), start)
	}
}

func only(r sdk.Reason, allowed ...sdk.Reason) sdk.Reason {
	for _, a := range allowed {
		if r == a {
			return r
		}
	}
	return ""
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

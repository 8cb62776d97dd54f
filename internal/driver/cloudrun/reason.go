package cloudrun

import (
	"cmp"
	"fmt"
	"strings"

	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/grpc/codes"

	"github.com/windlass-run/windlass/internal/driver/cloudrun/workload"
	"github.com/windlass-run/windlass/internal/driver/noexec"
	"github.com/windlass-run/windlass/sdk"
)

// The conditions of an execution.
// https://cloud.google.com/run/docs/reference/rest/v2/Condition
const (
	condCompleted = "Completed"
	condResources = "ResourcesAvailable"
	condStarted   = "Started"
	condContainer = "ContainerReady"
)

// completed reports whether an execution is over: it says when, and none of its
// tasks runs. A terminal condition alone may come before the counts.
func completed(e *runpb.Execution) bool {
	return e.GetCompletionTime() != nil && e.GetRunningCount() == 0
}

// verdict is what an execution's end comes to.
type verdict struct {
	state   sdk.JobState
	reason  sdk.Reason
	code    *int
	signal  string
	message string
	// exec is why the command could not be run, as sdk.RawExec has it.
	exec string
}

// judge gives one state for an execution that is over. The counts of tasks
// decide: an operation without an error, or the absence of failed tasks, proves no
// success.
// https://github.com/apache/airflow/issues/57791
func judge(e *runpb.Execution, task *runpb.Task) verdict {
	done := conditionOf(e.GetConditions(), condCompleted)
	a := task.GetLastAttemptResult()
	v := verdict{state: sdk.StateFailed, message: message(e, task)}
	v.code, v.signal = exitOf(a)
	switch {
	case e.GetTaskCount() > 0 && e.GetSucceededCount() == e.GetTaskCount():
		v.state, v.reason, v.signal = sdk.StateSucceeded, sdk.ReasonCompleted, ""
		if v.code != nil && *v.code != 0 {
			v.code = nil // it contradicts the count
		}
	case e.GetFailedCount() == 0 && (e.GetCancelledCount() > 0 || done.GetExecutionReason() == runpb.Condition_CANCELLED || done.GetExecutionReason() == runpb.Condition_DELETED):
		v.state, v.reason = sdk.StateCancelled, sdk.ReasonCancelled
	default:
		v.reason = cmp.Or(attemptReason(a), executionReason(e), sdk.ReasonUnknown)
		if why := unexecutable(v.message); why != "" && v.code == nil && v.signal == "" {
			v.reason, v.exec = sdk.ReasonInvalidSpec, why
		}
		if v.reason == sdk.ReasonUnknown && task.GetStartTime() == nil && e.GetStartTime() == nil {
			v.reason = sdk.ReasonFailedToStart
		}
	}
	return v
}

// exitOf returns the exit code where the attempt's status proves one. The field
// is 0 also where there is none, so 0 counts only beside a status of success.
// https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.jobs.executions.tasks#TaskAttemptResult
func exitOf(a *runpb.TaskAttemptResult) (code *int, signal string) {
	switch {
	case a == nil:
		return nil, ""
	case a.GetTermSignal() != 0:
		return nil, signalName(a.GetTermSignal())
	case a.GetExitCode() != 0 || a.GetStatus().GetCode() == int32(codes.OK) && a.GetStatus() != nil:
		n := int(a.GetExitCode())
		return &n, ""
	}
	return nil, ""
}

// unexecutable is why a command could not be run, where Cloud Run passes on the
// words of its sandbox, gVisor: "terminated: Application failed to start: failed to
// load /app/run: exec format error".
// https://github.com/Unstructured-IO/unstructured-api/issues/354
func unexecutable(message string) string {
	_, words, _ := strings.Cut(strings.ToLower(message), "application failed to start: ")
	return noexec.Why(words)
}

// signalName is for signals by which a platform ends containers.
func signalName(n int32) string {
	if s, ok := map[int32]string{1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 15: "SIGTERM"}[n]; ok {
		return s
	}
	return fmt.Sprintf("signal %d", n)
}

// attemptReason is why a task's last attempt failed.
func attemptReason(a *runpb.TaskAttemptResult) sdk.Reason {
	if a == nil {
		return ""
	}
	if why := reasonOf(a.GetStatus().GetMessage()); why != "" {
		return why
	}
	switch {
	case codes.Code(a.GetStatus().GetCode()) == codes.DeadlineExceeded: //nolint:gosec // a code of gRPC is small
		return sdk.ReasonTimedOut
	case a.GetTermSignal() != 0:
		return sdk.ReasonSignaled
	case a.GetExitCode() != 0:
		return sdk.ReasonNonzeroExit
	}
	switch codes.Code(a.GetStatus().GetCode()) { //nolint:gosec // a code of gRPC is small
	case codes.PermissionDenied, codes.Unauthenticated:
		return sdk.ReasonPermissionDenied
	case codes.Internal, codes.Unavailable:
		return sdk.ReasonInfrastructure
	case codes.FailedPrecondition, codes.InvalidArgument:
		return sdk.ReasonFailedToStart
	}
	return ""
}

// executionReason is why an execution failed, by its conditions: the one that
// failed first tells most.
func executionReason(e *runpb.Execution) sdk.Reason {
	for _, kind := range []string{condContainer, condResources, condStarted, condCompleted} {
		c := conditionOf(e.GetConditions(), kind)
		if c.GetState() != runpb.Condition_CONDITION_FAILED {
			continue
		}
		fallback := sdk.Reason("")
		if kind == condResources {
			fallback = sdk.ReasonCapacity
		}
		if why := conditionReason(c, fallback); why != "" {
			return why
		}
	}
	return ""
}

// conditionReason is what a failed condition means; other where it doesn't say.
func conditionReason(c *runpb.Condition, other sdk.Reason) sdk.Reason {
	switch c.GetReasons().(type) {
	case *runpb.Condition_ExecutionReason_:
		if c.GetExecutionReason() == runpb.Condition_NON_ZERO_EXIT_CODE {
			return sdk.ReasonNonzeroExit
		}
	case *runpb.Condition_Reason:
		if why := workload.CommonReason(c.GetReason()); why != "" {
			return why
		}
		switch c.GetReason() {
		case runpb.Condition_PROGRESS_DEADLINE_EXCEEDED:
			return sdk.ReasonFailedToStart
		case runpb.Condition_INTERNAL:
			return cmp.Or(reasonOf(c.GetMessage()), other, sdk.ReasonInfrastructure)
		}
	}
	return cmp.Or(reasonOf(c.GetMessage()), other)
}

// reasonOf reads Google's words, for what no field tells.
// https://cloud.google.com/run/docs/troubleshooting
func reasonOf(text string) sdk.Reason {
	text = strings.ToLower(text)
	for _, row := range []struct {
		words  string
		reason sdk.Reason
	}{
		{"memory limit of", sdk.ReasonOOMKilled},
		{"out-of-memory", sdk.ReasonOOMKilled},
		{"configured timeout was reached", sdk.ReasonTimedOut},
		{"no available instance", sdk.ReasonCapacity},
		{"quota exceeded", sdk.ReasonQuota},
		{"permission denied on secret", sdk.ReasonPermissionDenied},
		{"iam.serviceaccounts.actas", sdk.ReasonPermissionDenied},
		{"does not have permission", sdk.ReasonPermissionDenied},
	} {
		if strings.Contains(text, row.words) {
			return row.reason
		}
	}
	if strings.Contains(text, "image") && (strings.Contains(text, "not found") || strings.Contains(text, "not have access") || strings.Contains(text, "must provide")) {
		return sdk.ReasonImagePull
	}
	return ""
}

// reasonText is the reason of a condition in Google's own word.
func reasonText(c *runpb.Condition) string {
	switch c.GetReasons().(type) {
	case *runpb.Condition_ExecutionReason_:
		return c.GetExecutionReason().String()
	case *runpb.Condition_Reason:
		return c.GetReason().String()
	}
	return ""
}

// message is one line with what Cloud Run says, the most telling first.
func message(e *runpb.Execution, task *runpb.Task) string {
	var parts []string
	add := func(s string) {
		if s = oneLine(s); s != "" && !strings.Contains(strings.Join(parts, "; "), s) {
			parts = append(parts, s)
		}
	}
	for _, kind := range []string{condCompleted, condContainer, condResources, condStarted} {
		if c := conditionOf(e.GetConditions(), kind); kind == condCompleted || c.GetState() == runpb.Condition_CONDITION_FAILED {
			add(c.GetMessage())
		}
	}
	add(task.GetLastAttemptResult().GetStatus().GetMessage())
	if len(parts) == 0 {
		return "Cloud Run gives no reason"
	}
	return strings.Join(parts, "; ")
}

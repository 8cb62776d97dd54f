package fake

import (
	"fmt"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Op names a call of the cloud, after the provider's method that makes it.
type Op string

// The calls.
const (
	OpCheck       Op = "Check"
	OpPrepareJob  Op = "PrepareJob"
	OpRunJob      Op = "RunJob"
	OpJobStatus   Op = "JobStatus"
	OpFindJobs    Op = "FindJobs"
	OpCancelJob   Op = "CancelJob"
	OpCleanupJob  Op = "CleanupJob"
	OpJobLogs     Op = "JobLogs"
	OpJobStatuses Op = "JobStatuses"
	OpWatchJobs   Op = "WatchJobs"
	OpListOwned   Op = "ListOwned"
	OpRemoveOwned Op = "RemoveOwned"
	OpRenewExpiry Op = "RenewExpiry"

	OpCreateResource Op = "CreateResource"
	OpReadResource   Op = "ReadResource"
	OpUpdateResource Op = "UpdateResource"
	OpDeleteResource Op = "DeleteResource"
	OpDiffResource   Op = "DiffResource"
	OpScaleResource  Op = "ScaleResource"
	OpSensitiveKeys  Op = "SensitiveKeys"

	OpListWorkloads   Op = "ListWorkloads"
	OpWorkloadStatus  Op = "WorkloadStatus"
	OpStartWorkload   Op = "StartWorkload"
	OpStopWorkload    Op = "StopWorkload"
	OpScaleWorkload   Op = "ScaleWorkload"
	OpRestartWorkload Op = "RestartWorkload"
	OpApplyConfig     Op = "ApplyConfig"
	OpExecWorkload    Op = "ExecWorkload"
	OpTailLogs        Op = "TailLogs"
	OpStreamMetrics   Op = "StreamMetrics"
)

// Ops returns every call.
func Ops() []Op {
	return []Op{OpCheck, OpPrepareJob, OpRunJob, OpJobStatus, OpFindJobs, OpCancelJob, OpCleanupJob, OpJobLogs,
		OpJobStatuses, OpWatchJobs, OpListOwned, OpRemoveOwned, OpRenewExpiry,
		OpCreateResource, OpReadResource, OpUpdateResource, OpDeleteResource, OpScaleResource, OpSensitiveKeys,
		OpListWorkloads, OpWorkloadStatus, OpStartWorkload, OpStopWorkload, OpScaleWorkload, OpRestartWorkload, OpApplyConfig,
		OpExecWorkload, OpTailLogs, OpStreamMetrics}
}

// Knobs are how a cloud behaves besides its jobs' scripts. The zero value is a
// perfect cloud.
type Knobs struct {
	// Latency is added to each call.
	Latency Duration `json:"latency,omitzero"`
	// StartDelay passes between accepting a job and starting it.
	StartDelay Duration `json:"start_delay,omitzero"`
	// Visibility is how long a new object is missing from searches and lists.
	Visibility Duration `json:"visibility,omitzero"`
	// NotFoundFor is how long a new object is missing from describe calls.
	NotFoundFor Duration `json:"not_found_for,omitzero"`
	// LateLogs is how long output takes until it can be read.
	LateLogs Duration `json:"late_logs,omitzero"`
	// LogCut cuts the connection after so many bytes of a log; zero never.
	LogCut int `json:"log_cut,omitzero"`
	// DuplicateLogs sends the last event of a page again with the next.
	DuplicateLogs bool `json:"duplicate_logs,omitzero"`
	// Forget is how long after its end a job is still known; zero is for ever.
	Forget Duration `json:"forget,omitzero"`
	// ForgetLogs is how long after a job's end its log can be read.
	ForgetLogs Duration `json:"forget_logs,omitzero"`
	// Flicker makes every n-th describe call of a living job say "unknown".
	Flicker int `json:"flicker,omitzero"`
	// NoExitCode leaves out the exit codes of jobs that are accepted from now on.
	NoExitCode bool `json:"no_exit_code,omitzero"`
	// Rate is how many calls a second are answered; zero is no limit.
	Rate int `json:"rate,omitzero"`
	// MissingImages can't be pulled.
	MissingImages []string `json:"missing_images,omitzero"`
	// RolloutDelay passes between a change of a workload and its end.
	RolloutDelay Duration `json:"rollout_delay,omitzero"`
	// ObserveLag passes before the cloud looks at a change of a workload.
	ObserveLag Duration `json:"observe_lag,omitzero"`
	// MetricsWarm passes between an instance's start and its first sample.
	MetricsWarm Duration `json:"metrics_warm,omitzero"`
	// Faults fail calls.
	Faults []Fault `json:"faults,omitzero"`
}

// FaultKind is what a fault does to a call.
type FaultKind string

// FaultError answers with Code. FaultReset cuts the connection before the call
// was carried out, FaultLostReply after it. FaultBlock lets the call hang
// until the caller gives up.
const (
	FaultError     FaultKind = "error"
	FaultReset     FaultKind = "reset"
	FaultLostReply FaultKind = "lost_reply"
	FaultBlock     FaultKind = "block"
)

// Fault fails calls of one kind.
type Fault struct {
	Op   Op        `json:"op"`
	Kind FaultKind `json:"kind"`
	// Nth is the first call that fails, counted from 1 over the cloud's life;
	// zero is the next.
	Nth int64 `json:"nth,omitzero"`
	// Times is how many calls fail, -1 all; zero is one.
	Times int64 `json:"times,omitzero"`
	// Status is the HTTP status that FaultError answers with, such as 429, 503
	// or 409; Code is what the cloud calls it. Both decide the error's class:
	// "Capacity" is refused room, "Quota" a used up quota, "Throttled" too many
	// calls.
	Status int    `json:"status,omitzero"`
	Code   string `json:"code,omitzero"`
	// RetryAfter is the wait that the answer asks for.
	RetryAfter Duration `json:"retry_after,omitzero"`
}

// Capacity refuses the next n jobs for want of room.
func Capacity(n int) Fault {
	return Fault{Op: OpRunJob, Kind: FaultError, Times: int64(n), Status: 503, Code: "Capacity"}
}

// Throttled answers the next n calls of op with 429.
func Throttled(op Op, n int, wait time.Duration) Fault {
	return Fault{Op: op, Kind: FaultError, Times: int64(n), Status: 429, Code: "Throttled", RetryAfter: Duration(wait)}
}

// APIError is the cloud's own error: what the vendor's error is elsewhere.
type APIError struct {
	// Status is the HTTP status, zero where the connection was cut.
	Status int
	Code   string
}

// Error implements error.
func (e *APIError) Error() string {
	if e.Status == 0 {
		return e.Code
	}
	return fmt.Sprintf("fake cloud answered %d %s", e.Status, e.Code)
}

// classify turns the cloud's answer into the contract's error.
func classify(op string, e *APIError, wait time.Duration) error {
	out := &sdk.Error{Op: op, Err: e, RetryAfter: wait}
	switch {
	case e.Code == "Capacity" || e.Code == "Throttled" || e.Status == 429:
		out.Code, out.Retryable = sdk.ResourceExhausted, true
		if e.Code == "" {
			e.Code = "TooManyRequests"
		}
	case e.Code == "Quota":
		out.Code = sdk.ResourceExhausted
	case e.Status == 0 || e.Status >= 500:
		out.Code, out.Retryable = sdk.Unavailable, true
	case e.Status == 401:
		out.Code = sdk.Unauthenticated
	case e.Status == 403:
		out.Code = sdk.PermissionDenied
	case e.Status == 404:
		out.Code = sdk.NotFound
	case e.Status == 409 && e.Code == "Exists":
		out.Code = sdk.AlreadyExists
	case e.Status == 409 || e.Status == 412:
		out.Code = sdk.Aborted
	case e.Status == 400:
		out.Code = sdk.InvalidArgument
	default:
		out.Code = sdk.Unknown
	}
	return out
}

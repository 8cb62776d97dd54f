package sdk

import (
	"slices"
	"sync"
)

// JobState is where a run or an attempt stands. Succeeded, failed, cancelled
// and lost are terminal, and a terminal state is final.
type JobState string

// The states. Unknown is not terminal: the backend could not be asked, or gave
// no evidence, and asking goes on.
const (
	StatePending   JobState = "pending"
	StateRunning   JobState = "running"
	StateSucceeded JobState = "succeeded"
	StateFailed    JobState = "failed"
	StateCancelled JobState = "cancelled"
	StateUnknown   JobState = "unknown"
	StateLost      JobState = "lost"
)

// JobStates returns every state.
func JobStates() []JobState {
	return []JobState{StatePending, StateRunning, StateSucceeded, StateFailed, StateCancelled, StateUnknown, StateLost}
}

// Terminal reports whether s is final.
func (s JobState) Terminal() bool {
	switch s {
	case StateSucceeded, StateFailed, StateCancelled, StateLost:
		return true
	}
	return false
}

// Valid reports whether s is one of the states.
func (s JobState) Valid() bool {
	switch s {
	case StatePending, StateRunning, StateSucceeded, StateFailed, StateCancelled, StateUnknown, StateLost:
		return true
	}
	return false
}

// Reason says why a run or an attempt is in its state; the provider's own
// words stand raw beside it. Empty means that there is nothing to say.
type Reason string

// The reasons. Signaled comes only from a wait status, a provider's field or
// our own kill: an exit code of 128+n proves no signal.
const (
	ReasonCompleted         Reason = "completed"
	ReasonNonzeroExit       Reason = "nonzero_exit"
	ReasonSignaled          Reason = "signaled"
	ReasonOOMKilled         Reason = "oom_killed"
	ReasonTimedOut          Reason = "timed_out"
	ReasonCancelled         Reason = "cancelled"
	ReasonImagePull         Reason = "image_pull"
	ReasonInvalidSpec       Reason = "invalid_spec"
	ReasonRefused           Reason = "refused"
	ReasonFailedToStart     Reason = "failed_to_start"
	ReasonStartTimeout      Reason = "start_timeout"
	ReasonCapacity          Reason = "capacity"
	ReasonQuota             Reason = "quota"
	ReasonPreempted         Reason = "preempted"
	ReasonEvicted           Reason = "evicted"
	ReasonNodeLost          Reason = "node_lost"
	ReasonPermissionDenied  Reason = "permission_denied"
	ReasonInfrastructure    Reason = "infrastructure"
	ReasonQueued            Reason = "queued"
	ReasonUnschedulable     Reason = "unschedulable"
	ReasonCredentials       Reason = "credentials"
	ReasonSubmitUnconfirmed Reason = "submit_unconfirmed"
	ReasonSupervisorLost    Reason = "supervisor_lost"
	ReasonLost              Reason = "lost"
	ReasonUnknown           Reason = "unknown"
)

// ReasonRule is a reason's row of the table of states.
type ReasonRule struct {
	Reason Reason
	// States are the states that the reason may stand beside.
	States []JobState
	// Retry says that --retries may make a new attempt after a proven end.
	Retry bool
	// Doc says in one sentence what happened.
	Doc string
}

// ReasonRules returns the table of legal reasons: the only source for
// docs/states.md, for validation and for retries.
func ReasonRules() []ReasonRule { return slices.Clone(reasonRules()) }

// reasonRules is the table itself, made once: it is asked at every write.
var reasonRules = sync.OnceValue(makeReasonRules)

func makeReasonRules() []ReasonRule {
	st := func(s ...JobState) []JobState { return s }
	return []ReasonRule{
		{ReasonCompleted, st(StateSucceeded), false, "The process ended with code 0, or the platform says that it completed."},
		{ReasonNonzeroExit, st(StateFailed), true, "The process ended with a code other than 0."},
		{ReasonSignaled, st(StateFailed), true, "The process was killed by a signal, which its wait status or the provider proves."},
		{ReasonOOMKilled, st(StateFailed), true, "The process was killed for exceeding its memory limit."},
		{ReasonTimedOut, st(StateFailed), false, "The execution time-out passed and the job was ended for it."},
		{ReasonCancelled, st(StateCancelled), false, "A cancel was accepted and the job is gone or never started."},
		{ReasonImagePull, st(StatePending, StateFailed), false, "The image could not be fetched: wrong name, missing rights or unreachable registry."},
		{ReasonInvalidSpec, st(StateFailed), false, "The backend refused the request or could not start a container from it."},
		{ReasonRefused, st(StateFailed), false, "A change of a resource or workload isn't possible as things stand: in use, somebody else's, or changed meanwhile."},
		{ReasonFailedToStart, st(StateFailed), true, "The backend accepted the job and could not start it."},
		{ReasonStartTimeout, st(StateFailed), true, "The start time-out passed and the job is proven never to have run."},
		{ReasonCapacity, st(StatePending, StateFailed), false, "The backend has no room at the moment; the same attempt is sent again until the start time-out."},
		{ReasonQuota, st(StatePending, StateFailed), false, "A quota of the account is used up."},
		{ReasonPreempted, st(StateFailed), true, "The platform took a spot or preemptible machine back."},
		{ReasonEvicted, st(StateFailed), true, "The platform removed the container from its machine."},
		{ReasonNodeLost, st(StateFailed), true, "The machine under the container is gone."},
		{ReasonPermissionDenied, st(StatePending, StateFailed, StateUnknown), false, "The credentials lack a permission that the call needs."},
		{ReasonInfrastructure, st(StatePending, StateFailed), true, "The platform failed: network interface, disk, agent or engine."},
		{ReasonQueued, st(StatePending), false, "The run waits for its turn, here or on the backend."},
		{ReasonUnschedulable, st(StatePending, StateFailed), false, "No machine of the backend fits the request."},
		{ReasonCredentials, st(StatePending, StateUnknown, StateFailed), false, "The credentials are missing, wrong or expired."},
		{ReasonSubmitUnconfirmed, st(StateUnknown, StateLost), false, "The submit's reply was lost and the job can't be found; it may run."},
		{ReasonSupervisorLost, st(StateUnknown, StateLost), false, "The local supervisor died before it could record the job's end."},
		{ReasonLost, st(StateLost), false, "The backend no longer knows the job and its end was not seen."},
		{ReasonUnknown, st(StatePending, StateRunning, StateUnknown, StateFailed, StateLost), false, "The backend gave no reason, or can't be reached."},
	}
}

// Rule returns a reason's row; ok is false for a reason that doesn't exist.
func (r Reason) Rule() (rule ReasonRule, ok bool) {
	for _, rr := range reasonRules() {
		if rr.Reason == r {
			return rr, true
		}
	}
	return ReasonRule{}, false
}

// LegalReason reports whether reason may stand beside state. Pending and
// running may stand without one; terminal states and unknown may not.
func LegalReason(state JobState, reason Reason) bool {
	if reason == "" {
		return state == StatePending || state == StateRunning
	}
	rule, ok := reason.Rule()
	if !ok {
		return false
	}
	for _, s := range rule.States {
		if s == state {
			return true
		}
	}
	return false
}

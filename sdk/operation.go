package sdk

// OpRequest is what every mutating request of a workload carries.
type OpRequest struct {
	// OpID is the ID of the ledger's row. The driver leaves it where it can be
	// found again, and the same OpID sent twice changes the workload once.
	OpID ID
	// Path is the workload.
	Path WorkloadPath
	// Expect is what has to be there, else the call is FailedPrecondition and
	// changes nothing.
	Expect Expect
	// AgainstAutoscaler: a change of the count is wanted though an autoscaler
	// will undo it. Without it the driver refuses with FailedPrecondition and
	// the ID ErrAutoscaler, naming the autoscaler and its bounds.
	AgainstAutoscaler bool
	// DryRun: nothing is changed. The driver reads and refuses as it would, and
	// answers with OpResult.Calls.
	DryRun bool
}

// ErrAutoscaler and ErrExpect are the IDs of two refusals that drivers share:
// an autoscaler owns the count; what was expected isn't there.
const (
	ErrAutoscaler = "svc.autoscaled"
	ErrExpect     = "svc.not-as-expected"
)

// Expect guards a change against what others did meanwhile. What is unset is
// not looked at.
type Expect struct {
	// Replicas is how many the workload is to want at the moment.
	Replicas *int
	// Generation is DeploymentStatus.Generation as it was read. Whether the
	// backend compares it at the change itself, or the driver reads it right
	// before, is WorkloadGuarantees.Compares.
	Generation string
}

// Check returns FailedPrecondition where st is not what was expected.
func (e Expect) Check(op string, st DeploymentStatus) error {
	fail := func(format string, args ...any) error {
		err := Errorf(FailedPrecondition, op, format, args...)
		err.ID, err.Remedy = ErrExpect, "look with `windlass svc status`, and repeat the command if it still holds"
		return err
	}
	if e.Replicas != nil {
		switch {
		case st.Desired == nil:
			return fail("%s: %d replicas were expected, and the backend doesn't tell how many there are to be", st.Path, *e.Replicas)
		case *st.Desired != *e.Replicas:
			return fail("%s: %d replicas were expected, and there are to be %d", st.Path, *e.Replicas, *st.Desired)
		}
	}
	if e.Generation != "" && e.Generation != st.Generation {
		return fail("%s: generation %s was expected, and it is %s", st.Path, e.Generation, st.Generation)
	}
	return nil
}

// OpResult is what the backend accepted. Accepted is not done: see Rollout.
type OpResult struct {
	// Changed: false when the workload was so already, and nothing was sent.
	Changed bool
	// Generation is DeploymentStatus.Generation behind this change; empty where
	// the reply doesn't tell.
	Generation string
	// Rollout names what the change set going, for WorkloadStatusRequest; empty
	// where the backend has no name for it.
	Rollout string
	// Trace says in words where OpID can be found again on the backend, such as
	// "annotation windlass.run/op of deployment api"; empty is nowhere.
	Trace string
	// Warnings are sentences for people: what the backend does besides.
	Warnings []string
	// Calls are those that a dry run would make, in order.
	Calls []PlannedCall
}

// PlannedCall is a call that a dry run would make.
type PlannedCall struct {
	// Name is the vendor's name of the call, such as "ecs:UpdateService".
	Name string `json:"name"`
	// Object is what it changes, in the vendor's words.
	Object string `json:"object"`
	// Args are the members that matter, secret values redacted.
	Args map[string]string `json:"args,omitzero"`
}

// OpState is what became of an operation whose reply was lost.
type OpState string

// OpAccepted: the backend has it. OpAbsent: it proves that it was not carried
// out, and won't be. OpUnknown: it can't tell.
const (
	OpAccepted OpState = "accepted"
	OpAbsent   OpState = "absent"
	OpUnknown  OpState = "unknown"
)

// OpTrace is what was found of an operation.
type OpTrace struct {
	State OpState
	// Generation and Rollout are as in OpResult, where it was accepted.
	Generation, Rollout string
	// Evidence says in words where it was found, or why it can't be told.
	Evidence string
}

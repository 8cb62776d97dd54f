package sdk

import (
	"context"
	"iter"
	"time"
)

// The capabilities of live workloads. A provider that has any of them is what
// the design calls an InfrastructureProvider. Every method is safe for concurrent
// use; any call may come from another process than the last, and any reply may
// be lost. A workload that isn't there is NotFound. Mutating methods return when
// the backend has accepted the change and don't wait for it; an error for which
// IsClear is true has changed nothing.

// WorkloadLister lists workloads.
type WorkloadLister interface {
	// ListWorkloads gives every workload that the provider's credentials show, in
	// no order, each once, under the path that every other method takes.
	ListWorkloads(ctx context.Context, r ListWorkloadsRequest) iter.Seq2[WorkloadItem, error]
}

// ListWorkloadsRequest asks for all workloads.
type ListWorkloadsRequest struct {
	// Name, when not empty, asks for workloads of this last segment alone. A
	// backend that can't choose gives more; the caller looks.
	Name string
}

// WorkloadItem is a workload of a listing: what the backend tells there without a
// call for each.
type WorkloadItem struct {
	Path  WorkloadPath
	Image string
	// Desired and Ready are as in DeploymentStatus.
	Desired, Ready *int
	// Stopped: it was stopped and waits to be started again.
	Stopped bool
	// Unmade is as in DeploymentStatus.
	Unmade bool
}

// WorkloadStatuser tells how a workload is.
type WorkloadStatuser interface {
	// WorkloadStatus reads without side effects.
	WorkloadStatus(ctx context.Context, r WorkloadStatusRequest) (WorkloadStatusResult, error)
}

// WorkloadStatusRequest asks for a state.
type WorkloadStatusRequest struct {
	Path WorkloadPath
	// Rollout, when not empty, is OpResult.Rollout of the change to follow.
	Rollout string
	// OpID, when not zero, is an operation whose reply was lost: what became of it?
	// Before is the generation that was read before it was sent; empty is not known.
	OpID   ID
	Before string
	// Brief: what the record of a change keeps is enough. Path, Image, Desired,
	// Generation, Stopped, Unmade and Restores are as ever, and so is Op where it was
	// asked for. What costs calls besides may be left out: a count that wasn't read is
	// nil, Instances are none, and Rollout is unknown rather than guessed. It is a hint:
	// a provider may answer in full.
	Brief bool
}

// WorkloadStatusResult is how a workload is.
type WorkloadStatusResult struct {
	Status DeploymentStatus
	// Op is set when OpID was. Where the workload isn't there, and an operation was
	// asked for, there is no error: Op tells, and Status has the path alone.
	Op *OpTrace
}

// RolloutState is how far a change has come, by the backend's own verdict.
type RolloutState string

// The states of a rollout. Complete: the newest generation alone is there, as
// many instances are ready as there are to be, and nothing old is left. Failed:
// the backend has given up, or undone it. Unknown: it can't be told.
const (
	RolloutProgressing RolloutState = "progressing"
	RolloutComplete    RolloutState = "complete"
	RolloutFailed      RolloutState = "failed"
	RolloutUnknown     RolloutState = "unknown"
)

// DeploymentStatus is how a workload is at the moment. A count that the backend
// doesn't give is nil.
type DeploymentStatus struct {
	Path  WorkloadPath `json:"path"`
	Image string       `json:"image,omitzero"`
	// Desired is how many instances there are to be, Ready how many serve, Updated
	// how many are of the newest generation.
	Desired *int `json:"desired"`
	Ready   *int `json:"ready"`
	Updated *int `json:"updated"`
	// Generation is the newest that was accepted, GenerationSeen the one that the
	// backend works on: while they differ, the counts are of before. Opaque; equal
	// means that nothing changed between.
	Generation     string `json:"generation,omitzero"`
	GenerationSeen string `json:"generation_seen,omitzero"`
	// Rollout is that of the change that was asked for, or else of the newest.
	Rollout RolloutState `json:"rollout"`
	// RolloutID is the backend's name of that change, where it has one.
	RolloutID string `json:"rollout_id,omitzero"`
	// Stopped: Stop ended it. Restores is how many instances Start brings back;
	// nil is not known.
	Stopped bool `json:"stopped,omitzero"`
	// Unmade: it is described where workloads are, such as in a file, and no
	// instance was made yet. Start makes as many as Restores says. It isn't Stopped.
	Unmade   bool `json:"unmade,omitzero"`
	Restores *int `json:"restores,omitzero"`
	// Autoscaler, when not nil, owns Desired.
	Autoscaler *Autoscaler `json:"autoscaler,omitzero"`
	// Instances are none where the backend doesn't tell of single ones; then Ready
	// is nil too, and samples are of the whole workload.
	Instances []InstanceStatus `json:"instances,omitzero"`
	// Failure is the last that the backend tells of, also a past one.
	Failure *WorkloadFailure `json:"failure,omitzero"`
	// Warnings are sentences for people, such as that the config has drifted from
	// what the instances were made with.
	Warnings []string `json:"warnings,omitzero"`
	// Raw are the provider's own words by field, unchanged.
	Raw map[string]string `json:"raw,omitzero"`
}

// Autoscaler is what changes a workload's count by itself.
type Autoscaler struct {
	// Name is the backend's, such as "hpa/api".
	Name string `json:"name"`
	Min  int    `json:"min"`
	Max  int    `json:"max"`
}

// InstanceState is where one instance stands.
type InstanceState string

// The states of an instance.
const (
	InstancePending  InstanceState = "pending"
	InstanceRunning  InstanceState = "running"
	InstanceStopping InstanceState = "stopping"
	InstanceEnded    InstanceState = "ended"
	InstanceUnknown  InstanceState = "unknown"
)

// InstanceStatus is one instance of a workload: a container, pod or task.
type InstanceStatus struct {
	// Name is what Execer and LogTailer take.
	Name  string        `json:"name"`
	State InstanceState `json:"state"`
	// Ready: it serves.
	Ready bool `json:"ready"`
	// Generation is the one that it was made from, where that is known.
	Generation string `json:"generation,omitzero"`
	// Restarts is how often the backend started it again; nil is not told.
	Restarts *int `json:"restarts"`
	// Started is the backend's time; zero is unknown.
	Started time.Time `json:"started,omitzero"`
	// Reason, of the table of reasons, says why it isn't ready, Message is one line.
	Reason  Reason `json:"reason,omitzero"`
	Message string `json:"message,omitzero"`
}

// WorkloadFailure is something that went wrong.
type WorkloadFailure struct {
	// Reason is one of the table of reasons.
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
	// Instance is the one concerned; empty is the whole workload.
	Instance string `json:"instance,omitzero"`
	// At is the backend's time; zero is unknown.
	At time.Time `json:"at,omitzero"`
}

// Starter starts workloads.
type Starter interface {
	// StartWorkload makes the workload of a spec, or resumes one that was stopped
	// when Spec is nil, with as many replicas as before the stop. A workload that
	// runs is left as it is (Changed false); a spec for one that is there is
	// AlreadyExists, unless this OpID made it.
	StartWorkload(ctx context.Context, r StartWorkloadRequest) (StartWorkloadResult, error)
}

// StartWorkloadRequest starts a workload.
type StartWorkloadRequest struct {
	Op OpRequest
	// Spec was accepted by ValidateDeployment; its name is Op.Path's last segment.
	Spec *DeploymentSpec
	// Replicas, when not nil, is how many to resume with.
	Replicas *int
}

// StartWorkloadResult is an accepted start.
type StartWorkloadResult struct{ Op OpResult }

// Stopper stops workloads.
type Stopper interface {
	// StopWorkload ends all instances and keeps the workload, so that Start
	// brings back what was there. One that is stopped already is success.
	StopWorkload(ctx context.Context, r StopWorkloadRequest) (StopWorkloadResult, error)
}

// StopWorkloadRequest stops a workload.
type StopWorkloadRequest struct{ Op OpRequest }

// StopWorkloadResult is an accepted stop.
type StopWorkloadResult struct {
	Op OpResult
	// Restores is how many replicas Start will bring back; nil is not known.
	Restores *int
}

// Scaler changes the number of replicas.
type Scaler interface {
	// ScaleWorkload asks for a number of replicas. A workload that is stopped is
	// FailedPrecondition: Start with Replicas is meant.
	ScaleWorkload(ctx context.Context, r ScaleWorkloadRequest) (ScaleWorkloadResult, error)
}

// ScaleWorkloadRequest scales a workload.
type ScaleWorkloadRequest struct {
	Op OpRequest
	// Replicas is 0 or more.
	Replicas int
}

// ScaleWorkloadResult is an accepted change of the count.
type ScaleWorkloadResult struct{ Op OpResult }

// Restarter restarts workloads.
type Restarter interface {
	// RestartWorkload replaces or restarts every instance, as
	// WorkloadGuarantees.Restart says. A workload that is stopped is
	// FailedPrecondition.
	RestartWorkload(ctx context.Context, r RestartWorkloadRequest) (RestartWorkloadResult, error)
}

// RestartWorkloadRequest restarts a workload.
type RestartWorkloadRequest struct{ Op OpRequest }

// RestartWorkloadResult is an accepted restart.
type RestartWorkloadResult struct{ Op OpResult }

// Configurer changes a workload's settings.
type Configurer interface {
	// ApplyConfig sets and unsets names of the workload's config and secrets; what
	// isn't named stays. The instances are replaced, of this workload alone, so
	// that they have it.
	ApplyConfig(ctx context.Context, r ApplyConfigRequest) (ApplyConfigResult, error)
}

// ApplyConfigRequest changes settings. ValidateConfig has accepted it.
type ApplyConfigRequest struct {
	Op      OpRequest
	Set     map[string]string
	Secrets map[string]SecretRef
	Unset   []string
}

// ApplyConfigResult is an accepted change of settings; Op.Changed is false where
// everything was so already, and then nothing is replaced.
type ApplyConfigResult struct {
	Op OpResult
	// Revision names what the settings are now: equal settings may have equal
	// revisions, different ones never have.
	Revision string
}

// LogTailer reads a workload's output.
type LogTailer interface {
	// TailLogs gives the output of all instances, or of one, through restarts and
	// replacements. Following ends with ctx, and with nothing else but an error.
	TailLogs(ctx context.Context, r TailLogsRequest) iter.Seq2[WorkloadLogItem, error]
}

// TailLogsRequest asks for output.
type TailLogsRequest struct {
	Path WorkloadPath
	// Instance, when not empty, is the only one that is read.
	Instance string
	// Follow goes on with what is written later, also by instances made later.
	Follow bool
	// Since leaves out what is older; zero is all that is kept.
	Since time.Time
	// Tail is how many of the last lines of each instance come first; nil is all.
	Tail *int
}

// WorkloadLogItem is an item of one instance's output: an entry or a gap.
type WorkloadLogItem struct {
	Instance string
	Entry    *LogChunk
	Gap      *LogGap
}

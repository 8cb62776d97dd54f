// Package argo is Argo Workflows as far as one container's Workflow goes: its types,
// and a client of five methods with two implementations, one on the Kubernetes API
// and one on Argo Server's REST API.
//
// The types are the part of Argo's own that is sent and read. Argo's module isn't
// used: it brings every artifact store's client.
// https://argo-workflows.readthedocs.io/en/latest/fields/
package argo

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Version is the API's version that a Workflow names on the wire.
	Version = "argoproj.io/v1alpha1"
	// Kind is what a Workflow is called on the wire.
	Kind = "Workflow"
	// LabelWorkflow is on a pod, and names the Workflow that has made it.
	// https://argo-workflows.readthedocs.io/en/latest/workflow-concepts/
	LabelWorkflow = "workflows.argoproj.io/workflow"
	// LabelInstance says which of several controllers runs a Workflow.
	// https://argo-workflows.readthedocs.io/en/latest/scaling/#multiple-workflow-controllers-and-instance-id
	LabelInstance = "workflows.argoproj.io/controller-instanceid"
	// labelArchived is "Persisted" on a Workflow that comes from the archive's database.
	// https://github.com/argoproj/argo-workflows/blob/v4.0.5/persist/sqldb/workflow_archive.go
	labelArchived = "workflows.argoproj.io/workflow-archiving-status"
)

// Workflow is Argo's object.
type Workflow struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitzero"`
}

// Archived reports whether the Workflow comes from the archive: the cluster has it no
// more.
func (w *Workflow) Archived() bool { return w.Labels[labelArchived] == "Persisted" }

// Spec is what is to be done.
type Spec struct {
	Entrypoint                   string                        `json:"entrypoint"`
	Templates                    []Template                    `json:"templates"`
	ServiceAccountName           string                        `json:"serviceAccountName,omitempty"`
	AutomountServiceAccountToken *bool                         `json:"automountServiceAccountToken,omitempty"`
	Executor                     *Executor                     `json:"executor,omitempty"`
	Volumes                      []corev1.Volume               `json:"volumes,omitempty"`
	NodeSelector                 map[string]string             `json:"nodeSelector,omitempty"`
	Affinity                     *corev1.Affinity              `json:"affinity,omitempty"`
	Tolerations                  []corev1.Toleration           `json:"tolerations,omitempty"`
	ImagePullSecrets             []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	PodPriorityClassName         string                        `json:"podPriorityClassName,omitempty"`
	PodMetadata                  *Metadata                     `json:"podMetadata,omitempty"`
	PodSpecPatch                 string                        `json:"podSpecPatch,omitempty"`
	TTLStrategy                  *TTLStrategy                  `json:"ttlStrategy,omitempty"`
	ArchiveLogs                  *bool                         `json:"archiveLogs,omitempty"`
	Shutdown                     string                        `json:"shutdown,omitempty"`
}

// Template is a step, here always one container.
type Template struct {
	Name                  string            `json:"name"`
	ActiveDeadlineSeconds *int64            `json:"activeDeadlineSeconds,omitempty"`
	Container             *corev1.Container `json:"container,omitempty"`
}

// Executor says as whom Argo's own containers act.
type Executor struct {
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
}

// Metadata is that of the pods.
type Metadata struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// TTLStrategy says when an ended Workflow is deleted.
// https://argo-workflows.readthedocs.io/en/latest/cost-optimisation/#limit-the-total-number-of-workflows-and-pods
type TTLStrategy struct {
	SecondsAfterCompletion *int32 `json:"secondsAfterCompletion,omitempty"`
}

// Phases of a Workflow and of its nodes. An empty phase is a Workflow that its
// controller hasn't seen yet.
const (
	Pending   = "Pending"
	Running   = "Running"
	Succeeded = "Succeeded"
	Failed    = "Failed"
	Error     = "Error"
)

// Status is what has come of it.
type Status struct {
	Phase      string          `json:"phase,omitempty"`
	StartedAt  metav1.Time     `json:"startedAt,omitzero"`
	FinishedAt metav1.Time     `json:"finishedAt,omitzero"`
	Message    string          `json:"message,omitempty"`
	Nodes      map[string]Node `json:"nodes,omitempty"`
	Conditions []Condition     `json:"conditions,omitempty"`
}

// Done reports whether the Workflow is over. Argo says so only once the executor has
// reported that the container is.
func (s *Status) Done() bool {
	return s.Phase == Succeeded || s.Phase == Failed || s.Phase == Error
}

// Condition is one of the Workflow's.
type Condition struct {
	Type    string `json:"type,omitempty"`
	Status  string `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
}

// Node is a step's state.
type Node struct {
	ID           string      `json:"id"`
	Name         string      `json:"name"`
	Type         string      `json:"type"`
	TemplateName string      `json:"templateName,omitempty"`
	Phase        string      `json:"phase,omitempty"`
	Message      string      `json:"message,omitempty"`
	StartedAt    metav1.Time `json:"startedAt,omitzero"`
	FinishedAt   metav1.Time `json:"finishedAt,omitzero"`
	HostNodeName string      `json:"hostNodeName,omitempty"`
	Outputs      *Outputs    `json:"outputs,omitempty"`
}

// Outputs are what a step has left.
type Outputs struct {
	// ExitCode is the container's, in decimal; nil where Argo has none.
	ExitCode  *string    `json:"exitCode,omitempty"`
	Artifacts []Artifact `json:"artifacts,omitempty"`
}

// Artifact is a file that was kept.
type Artifact struct {
	Name string `json:"name"`
}

// MainLogs is the artifact in which Argo archives the main container's output.
// https://argo-workflows.readthedocs.io/en/latest/configure-archive-logs/
const MainLogs = "main-logs"

// Node is the state of the only step. ok is false while there is none.
func (w *Workflow) Node() (n Node, ok bool) {
	// The entry template's node has the Workflow's name for an ID.
	// https://github.com/argoproj/argo-workflows/blob/v4.0.5/pkg/apis/workflow/v1alpha1/workflow_types.go
	n, ok = w.Status.Nodes[w.Name]
	return n, ok
}

// PodRunning reports whether Argo last saw the pod run.
func (w *Workflow) PodRunning() bool {
	for _, c := range w.Status.Conditions {
		if c.Type == "PodRunning" {
			return c.Status == "True"
		}
	}
	return false
}

// Has reports whether a step has left an artifact.
func (n *Node) Has(artifact string) bool {
	if n.Outputs == nil {
		return false
	}
	for _, a := range n.Outputs.Artifacts {
		if a.Name == artifact {
			return true
		}
	}
	return false
}

// list is a page of Workflows.
type list struct {
	metav1.ListMeta `json:"metadata"`
	Items           []Workflow `json:"items"`
}

package argo

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The types are those of Argo 4.0 as far as a Workflow of one container may have them.
// https://github.com/argoproj/argo-workflows/blob/v4.0.5/pkg/apis/workflow/v1alpha1/workflow_types.go
type workflow struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              spec   `json:"spec"`
	Status            status `json:"status,omitzero"`
}

type spec struct {
	Templates                    []template                    `json:"templates,omitempty"`
	Entrypoint                   string                        `json:"entrypoint,omitempty"`
	ServiceAccountName           string                        `json:"serviceAccountName,omitempty"`
	AutomountServiceAccountToken *bool                         `json:"automountServiceAccountToken,omitempty"`
	Executor                     *executorConfig               `json:"executor,omitempty"`
	Volumes                      []corev1.Volume               `json:"volumes,omitempty"`
	Parallelism                  *int64                        `json:"parallelism,omitempty"`
	Suspend                      *bool                         `json:"suspend,omitempty"`
	NodeSelector                 map[string]string             `json:"nodeSelector,omitempty"`
	Affinity                     *corev1.Affinity              `json:"affinity,omitempty"`
	Tolerations                  []corev1.Toleration           `json:"tolerations,omitempty"`
	ImagePullSecrets             []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	TTLStrategy                  *ttlStrategy                  `json:"ttlStrategy,omitempty"`
	ActiveDeadlineSeconds        *int64                        `json:"activeDeadlineSeconds,omitempty"`
	Priority                     *int32                        `json:"priority,omitempty"`
	PodGC                        *podGC                        `json:"podGC,omitempty"`
	PodPriorityClassName         string                        `json:"podPriorityClassName,omitempty"`
	SecurityContext              *corev1.PodSecurityContext    `json:"securityContext,omitempty"`
	PodSpecPatch                 string                        `json:"podSpecPatch,omitempty"`
	Shutdown                     string                        `json:"shutdown,omitempty"`
	PodMetadata                  *metadata                     `json:"podMetadata,omitempty"`
	ArchiveLogs                  *bool                         `json:"archiveLogs,omitempty"`
}

type template struct {
	Name                  string              `json:"name,omitempty"`
	ActiveDeadlineSeconds *intstr.IntOrString `json:"activeDeadlineSeconds,omitempty"`
	Container             *corev1.Container   `json:"container,omitempty"`
}

type executorConfig struct {
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
}

type metadata struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type ttlStrategy struct {
	SecondsAfterCompletion *int32 `json:"secondsAfterCompletion,omitempty"`
	SecondsAfterSuccess    *int32 `json:"secondsAfterSuccess,omitempty"`
	SecondsAfterFailure    *int32 `json:"secondsAfterFailure,omitempty"`
}

type podGC struct {
	Strategy string `json:"strategy,omitempty"`
}

type status struct {
	Phase                       string          `json:"phase,omitempty"`
	StartedAt                   metav1.Time     `json:"startedAt,omitzero"`
	FinishedAt                  metav1.Time     `json:"finishedAt,omitzero"`
	Message                     string          `json:"message,omitempty"`
	Progress                    string          `json:"progress,omitempty"`
	Nodes                       map[string]node `json:"nodes,omitempty"`
	Conditions                  []condition     `json:"conditions,omitempty"`
	TaskResultsCompletionStatus map[string]bool `json:"taskResultsCompletionStatus,omitempty"`
}

type condition struct {
	Type    string `json:"type,omitempty"`
	Status  string `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
}

type node struct {
	ID            string      `json:"id"`
	Name          string      `json:"name"`
	DisplayName   string      `json:"displayName,omitempty"`
	Type          string      `json:"type"`
	TemplateName  string      `json:"templateName,omitempty"`
	TemplateScope string      `json:"templateScope,omitempty"`
	Phase         string      `json:"phase,omitempty"`
	Message       string      `json:"message,omitempty"`
	StartedAt     metav1.Time `json:"startedAt,omitzero"`
	FinishedAt    metav1.Time `json:"finishedAt,omitzero"`
	HostNodeName  string      `json:"hostNodeName,omitempty"`
	Progress      string      `json:"progress,omitempty"`
	Outputs       *outputs    `json:"outputs,omitempty"`
}

type outputs struct {
	ExitCode  *string    `json:"exitCode,omitempty"`
	Artifacts []artifact `json:"artifacts,omitempty"`
}

type artifact struct {
	Name string `json:"name"`
}

package argo

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube/podlog"
	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/sdk"
)

// TestNodeGone: a Workflow that Argo has ended isn't over while its pod still runs, or
// may; a node that doesn't tell is waited for as long as one may be away, and then
// Argo's word stands.
func TestNodeGone(t *testing.T) {
	over, grace := time.Unix(1e9, 0), int64(20)
	pod := corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace}, Status: corev1.PodStatus{Phase: corev1.PodFailed,
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(over)}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: podspec.Main, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}
	for after, want := range map[time.Duration]sdk.JobState{podlog.Patience + 20*time.Second: sdk.StateRunning, podlog.Patience + 21*time.Second: sdk.StateCancelled} {
		res := sdk.JobStatusResult{State: sdk.StateCancelled, Reason: sdk.ReasonCancelled}
		refine(&res, &pod, over.Add(after))
		if res.State != want || res.ExitCode != nil {
			t.Errorf("after %s it is %s, code %v", after, res.State, res.ExitCode)
		}
	}
}

package argo

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube/podlog"
	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/sdk"
)

// refine adds to a Workflow's end what its pod says: when the container ran, that a
// process in it was killed for memory, and who took the pod away. The code is Argo's;
// only where Argo has none for a container that ended is it the pod's.
func refine(res *sdk.JobStatusResult, pod *corev1.Pod) {
	for _, c := range pod.Status.ContainerStatuses {
		t := c.State.Terminated
		if c.Name != podspec.Main || t == nil || !podlog.Started(t) || madeUp(t.Reason) {
			continue
		}
		res.StartedAt, res.EndedAt, res.Launches = t.StartedAt.UTC(), t.FinishedAt.UTC(), 1
		res.OOMObserved = res.OOMObserved || t.Reason == "OOMKilled"
		if code := int(t.ExitCode); res.ExitCode == nil && (code != 0 || res.State == sdk.StateSucceeded) {
			res.ExitCode = &code
		}
	}
	if res.State != sdk.StateFailed || res.Reason == sdk.ReasonTimedOut {
		return
	}
	if loss, words := podspec.LossReason(pod); loss != "" {
		res.Reason, res.Message = loss, oneLine(words)
	}
}

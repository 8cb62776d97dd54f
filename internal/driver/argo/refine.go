package argo

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube/podlog"
	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/sdk"
)

// refine adds to a Workflow's end what its pod says: that it isn't over at all, when
// the container ran, that a process in it was killed for memory, and who took the pod
// away. The code is Argo's; only where Argo has none for a container that ended is it
// the pod's.
//
// Told to end a Workflow, Argo tells its own container too, which then reports nothing
// more: the Workflow completes while a job that takes its time to end still runs.
//
// A node that has gone says no more: then Argo's word stands. Now is the cluster's time.
func refine(res *sdk.JobStatusResult, pod *corev1.Pod, now time.Time) {
	if c := podlog.Of(pod, podspec.Main); !c.Ended && !podlog.Deserted(pod, podspec.Main, now) {
		res.State, res.Reason, res.ExitCode, res.EndedAt = sdk.StatePending, "", nil, time.Time{}
		if c.Started {
			res.State, res.Launches = sdk.StateRunning, 1
		}
		res.Message = oneLine("Argo has ended the Workflow, and its pod is still there; " + res.Message)
		return
	}
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

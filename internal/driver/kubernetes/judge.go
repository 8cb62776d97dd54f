package kubernetes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube/podlog"
	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/internal/driver/noexec"
	"github.com/windlass-run/windlass/sdk"
)

// judge is the state that the cluster tells. The main container decides: sidecars
// neither keep a job alive nor fail it. While any pod may still run, the job does.
func judge(s sight) sdk.JobStatusResult {
	res := sdk.JobStatusResult{State: sdk.StatePending, Raw: map[string]string{}}
	if s.job != nil {
		res.CreatedAt = s.job.CreationTimestamp.UTC()
		rawJob(res.Raw, s.job)
	}
	var decides *corev1.Pod
	for i := range s.pods {
		pod := &s.pods[i]
		res.Launches += launchesOf(pod)
		res.OOMObserved = res.OOMObserved || sawOOM(pod)
		if decides == nil || !ended(pod, s.now) || ended(decides, s.now) {
			decides = pod
		}
	}
	if decides == nil {
		withoutPod(&res, s.job)
		return res
	}
	rawPod(res.Raw, decides)
	if res.CreatedAt.IsZero() {
		res.CreatedAt = decides.CreationTimestamp.UTC()
	}
	main := mainOf(decides)
	res.StartedAt, res.EndedAt = timesOf(main)
	if !ended(decides, s.now) {
		res.EndedAt = time.Time{}
		progress(&res, decides, main)
		return res
	}
	if res.EndedAt.IsZero() {
		res.EndedAt = lastChange(decides)
	}
	if res.EndedAt.Before(res.StartedAt) {
		res.EndedAt = res.StartedAt
	}
	end(&res, s.job, decides, main)
	return res
}

// ended reports whether nothing that counts of a pod runs any more. Where the main
// container is alone its end is the pod's, which has the reason too, so that is
// waited for; sidecars aren't.
func ended(pod *corev1.Pod, now time.Time) bool {
	main := mainOf(pod)
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		// At its deadline a pod may be called failed while its container still has its
		// grace: code and last words are to come, unless its node has gone.
		return main == nil || main.State.Running == nil || podlog.Deserted(pod, podspec.Main, now)
	}
	return main != nil && main.State.Terminated != nil && len(pod.Spec.Containers) > 1
}

func mainOf(pod *corev1.Pod) *corev1.ContainerStatus {
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == podspec.Main })
	if i < 0 {
		return nil
	}
	return &pod.Status.ContainerStatuses[i]
}

// launchesOf is how often the platform has started the main container.
func launchesOf(pod *corev1.Pod) int {
	main := mainOf(pod)
	if main == nil {
		return 0
	}
	n := int(main.RestartCount)
	if main.State.Running != nil || main.State.Terminated != nil && podlog.Started(main.State.Terminated) {
		n++
	}
	return n
}

func sawOOM(pod *corev1.Pod) bool {
	main := mainOf(pod)
	if main == nil {
		return false
	}
	for _, t := range []*corev1.ContainerStateTerminated{main.State.Terminated, main.LastTerminationState.Terminated} {
		if t != nil && t.Reason == reasonOOM {
			return true
		}
	}
	return false
}

func timesOf(c *corev1.ContainerStatus) (began, over time.Time) {
	switch {
	case c == nil:
	case c.State.Running != nil:
		began = c.State.Running.StartedAt.UTC()
	case c.State.Terminated != nil && podlog.Started(c.State.Terminated):
		began, over = c.State.Terminated.StartedAt.UTC(), c.State.Terminated.FinishedAt.UTC()
	}
	return began, over
}

// lastChange is when a pod's conditions last changed; zero is unknown.
func lastChange(pod *corev1.Pod) time.Time {
	var t metav1.Time
	for _, c := range pod.Status.Conditions {
		if t.Before(&c.LastTransitionTime) {
			t = c.LastTransitionTime
		}
	}
	return t.UTC()
}

// progress is what a pod that isn't over does, or waits for.
func progress(res *sdk.JobStatusResult, pod *corev1.Pod, main *corev1.ContainerStatus) {
	res.Message = oneLine(pod.Status.Message)
	if res.Launches > 0 {
		res.State = sdk.StateRunning
		if main != nil && main.State.Terminated != nil {
			res.Message = "the process has ended; the pod is about to"
		}
		return
	}
	for _, c := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
			res.Reason, res.Message = podspec.WaitingReason(w.Reason), oneLine(strings.TrimSpace(w.Reason+": "+w.Message))
			return
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			res.Message = oneLine(c.Message)
			switch c.Reason {
			case corev1.PodReasonUnschedulable:
				res.Reason = sdk.ReasonUnschedulable
			case corev1.PodReasonSchedulingGated:
				res.Reason = sdk.ReasonQueued
			}
		}
	}
}

// end is how a job whose pods are over has ended.
func end(res *sdk.JobStatusResult, job *batchv1.Job, pod *corev1.Pod, main *corev1.ContainerStatus) {
	var t *corev1.ContainerStateTerminated
	if main != nil {
		t = main.State.Terminated
	}
	own := t != nil && podlog.Started(t) && t.Reason != reasonUnknown
	if own && t.ExitCode != 0 {
		code := int(t.ExitCode)
		res.ExitCode = &code
	}
	deserted := main != nil && main.State.Running != nil
	switch {
	case t != nil:
		res.Message = oneLine(t.Message)
	case deserted:
		res.Message = "the pod is over, and its node " + pod.Spec.NodeName + " doesn't tell what became of the container"
	}
	finish := func(state sdk.JobState, reason sdk.Reason, words ...string) {
		res.State, res.Reason = state, reason
		res.Message = cmp.Or(oneLine(strings.TrimSpace(strings.Join(words, " "))), res.Message)
	}
	ourCancel := pod.Annotations[noteCancel] != "" || job != nil && job.Annotations[noteCancel] != ""
	loss, words := podspec.LossReason(pod)
	byDeadline := pod.Status.Reason == reasonDeadline
	switch {
	case own && t.ExitCode == 0 && !byDeadline && loss == "" && pod.Status.Reason == "" && !(ourCancel && pod.DeletionTimestamp != nil):
		zero := 0
		res.ExitCode = &zero
		finish(sdk.StateSucceeded, sdk.ReasonCompleted)
	case pod.Status.Phase == corev1.PodSucceeded:
		// Kubernetes calls it completed, even if it was just being taken away.
		if own {
			zero := 0
			res.ExitCode = &zero
		}
		finish(sdk.StateSucceeded, sdk.ReasonCompleted, pod.Status.Message)
	case ourCancel && (byDeadline || pod.DeletionTimestamp != nil):
		finish(sdk.StateCancelled, sdk.ReasonCancelled)
	case byDeadline:
		finish(sdk.StateFailed, sdk.ReasonTimedOut, pod.Status.Message)
	case loss != "":
		finish(sdk.StateFailed, loss, words)
	case deserted:
		finish(sdk.StateFailed, sdk.ReasonNodeLost)
	case t == nil:
		finish(sdk.StateFailed, sdk.ReasonFailedToStart, pod.Status.Reason, pod.Status.Message, initFailure(pod))
	case t.Reason == reasonUnknown:
		finish(sdk.StateFailed, sdk.ReasonInfrastructure, t.Message)
	case !podlog.Started(t):
		finish(sdk.StateFailed, sdk.ReasonInvalidSpec, t.Reason+":", t.Message)
		// The kubelet passes the runtime's words on.
		if why := noexec.Why(t.Message); why != "" {
			res.Raw[sdk.RawExec] = why
		}
	case t.Reason == reasonOOM:
		finish(sdk.StateFailed, sdk.ReasonOOMKilled)
	case t.Signal > 0:
		res.Signal = signalName(t.Signal)
		finish(sdk.StateFailed, sdk.ReasonSignaled)
	case t.ExitCode != 0:
		finish(sdk.StateFailed, sdk.ReasonNonzeroExit)
	default:
		finish(sdk.StateFailed, sdk.ReasonUnknown, pod.Status.Reason, pod.Status.Message)
	}
}

// initFailure tells of an init container that kept the main one from starting.
func initFailure(pod *corev1.Pod) string {
	for _, c := range pod.Status.InitContainerStatuses {
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return fmt.Sprintf("the init container %s ended with code %d: %s %s", c.Name, t.ExitCode, t.Reason, t.Message)
		}
	}
	return ""
}

// withoutPod judges a Job that has no pod: not yet, not any more, or not ever.
func withoutPod(res *sdk.JobStatusResult, job *batchv1.Job) {
	if job == nil {
		return
	}
	cond := func(kind batchv1.JobConditionType) *batchv1.JobCondition {
		for i, c := range job.Status.Conditions {
			if c.Type == kind && c.Status == corev1.ConditionTrue {
				return &job.Status.Conditions[i]
			}
		}
		return nil
	}
	cancelled := job.Annotations[noteCancel] != ""
	complete, failed, suspended := cond(batchv1.JobComplete), cond(batchv1.JobFailed), cond(batchv1.JobSuspended)
	switch {
	case complete != nil:
		// Every container ended with 0; the code itself went with the pod.
		res.State, res.Reason, res.EndedAt, res.Message = sdk.StateSucceeded, sdk.ReasonCompleted, complete.LastTransitionTime.UTC(), "the pod is gone; the Job says that it completed"
	case failed != nil:
		res.State, res.Reason, res.EndedAt = sdk.StateFailed, sdk.ReasonUnknown, failed.LastTransitionTime.UTC()
		res.Message = oneLine("the pod is gone; " + failed.Reason + ": " + failed.Message)
		switch {
		case cancelled:
			res.State, res.Reason = sdk.StateCancelled, sdk.ReasonCancelled
		case failed.Reason == batchv1.JobReasonDeadlineExceeded:
			res.Reason = sdk.ReasonTimedOut
		case failed.Reason == batchv1.JobReasonPodFailurePolicy && strings.Contains(failed.Message, " condition "+string(corev1.DisruptionTarget)+" "):
			// Who took it away went with the pod. Of a code that stands here nothing
			// says whether it was the process's.
			res.Reason = sdk.ReasonEvicted
		}
	case cancelled && suspended != nil && job.Status.Active == 0:
		res.State, res.Reason, res.EndedAt, res.Message = sdk.StateCancelled, sdk.ReasonCancelled, suspended.LastTransitionTime.UTC(), "cancelled before the container was started"
	case suspended != nil:
		res.Reason, res.Message = sdk.ReasonQueued, oneLine(cmp.Or(suspended.Message, "the Job is suspended"))
	default:
		res.Message = "the Job has no pod yet; `kubectl describe job " + job.Name + "` says why if that goes on"
	}
}

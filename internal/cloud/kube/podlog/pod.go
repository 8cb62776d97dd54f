package podlog

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Of is what a pod tells of one of its containers.
func Of(pod *corev1.Pod, name string) Container {
	c := Container{UID: string(pod.UID), Pod: pod.Name}
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if i < 0 {
		c.Ended = over
		return c
	}
	switch s := pod.Status.ContainerStatuses[i]; {
	case s.State.Waiting != nil && s.RestartCount == 0:
		c.Ended = over
	case s.State.Terminated != nil:
		c.Started, c.Ended = Started(s.State.Terminated), true
	default:
		c.Started = true
	}
	return c
}

// Patience is how long behind its grace a pod that is over may leave open what became
// of a container. A kubelet that is started again, or a network that comes back, tells
// it within that.
const Patience = 10 * time.Minute

// Deserted reports whether a pod that is over has left open for longer than Patience
// what became of a container: its node has gone. Its last phase promises that the
// container has ended; nothing more will come. Now is the API server's time.
// https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-phase
func Deserted(pod *corev1.Pod, name string, now time.Time) bool {
	if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		return false
	}
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
	if i < 0 || pod.Status.ContainerStatuses[i].State.Running == nil {
		return false
	}
	// The last condition that changed is that the pod isn't ready any more.
	var last time.Time
	for _, c := range pod.Status.Conditions {
		if c.LastTransitionTime.After(last) {
			last = c.LastTransitionTime.Time
		}
	}
	grace := 30 * time.Second
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		grace = time.Duration(*g) * time.Second
	}
	return !last.IsZero() && now.Sub(last) > grace+Patience
}

// Started reports whether a container that is over ever ran. The kubelet writes the
// start of 1970 for one that it couldn't start.
func Started(t *corev1.ContainerStateTerminated) bool {
	return t.Reason != "StartError" && t.Reason != "ContainerCannotRun" && t.StartedAt.Unix() > 0
}

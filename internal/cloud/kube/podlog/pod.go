package podlog

import (
	"slices"

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

// Started reports whether a container that is over ever ran. The kubelet writes the
// start of 1970 for one that it couldn't start.
func Started(t *corev1.ContainerStateTerminated) bool {
	return t.Reason != "StartError" && t.Reason != "ContainerCannotRun" && t.StartedAt.Unix() > 0
}

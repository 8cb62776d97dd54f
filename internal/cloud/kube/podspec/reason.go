package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-run/windlass/sdk"
)

// WaitingReason is why a container waits. What the kubelet tries again stays
// pending: it may still work, and the start time-out decides.
// https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/kubelet/images/types.go
func WaitingReason(word string) sdk.Reason {
	switch word {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed":
		return sdk.ReasonImagePull
	case "CreateContainerError", "RunContainerError", "NetworkNotReady":
		return sdk.ReasonInfrastructure
	}
	return ""
}

// disruptionReason is who took a pod away.
// https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
func disruptionReason(word string) sdk.Reason {
	switch word {
	case "PreemptionByScheduler":
		return sdk.ReasonPreempted
	case "DeletionByPodGC":
		return sdk.ReasonNodeLost
	}
	return sdk.ReasonEvicted // EvictionByEvictionAPI, DeletionByTaintManager, TerminationByKubelet
}

// podReason is why a pod failed as a whole; empty where that doesn't tell.
// https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/kubelet/lifecycle/predicate.go
func podReason(word string) sdk.Reason {
	switch {
	case word == "Evicted":
		return sdk.ReasonEvicted
	case word == "Preempting":
		return sdk.ReasonPreempted
	case word == "NodeLost", word == "NodeShutdown", word == "Terminated", word == "Shutdown":
		return sdk.ReasonNodeLost
	case strings.HasPrefix(word, "OutOf"), word == "UnexpectedAdmissionError", word == "NodeAffinity", word == "NodeName", word == "NodePorts",
		word == "TaintToleration", word == "PodOSNotSupported", word == "PodOSSelectorNodeLabelDoesNotMatch":
		return sdk.ReasonFailedToStart
	}
	return ""
}

// LossReason is why a pod was taken away, or failed as a whole: a reason and the
// cluster's words for it. The reason is empty where neither is so.
func LossReason(pod *corev1.Pod) (sdk.Reason, string) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return disruptionReason(c.Reason), strings.TrimSpace(c.Reason + ": " + c.Message + " " + pod.Status.Message)
		}
	}
	if r := podReason(pod.Status.Reason); r != "" {
		return r, pod.Status.Reason + ": " + pod.Status.Message
	}
	return "", ""
}

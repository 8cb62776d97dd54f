package kubernetes

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Words of the kubelet.
// https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/kubelet/kubelet_pods.go
const (
	reasonOOM      = "OOMKilled"
	reasonDeadline = "DeadlineExceeded"
	// reasonUnknown is a container that was there and is no more: the code 137
	// beside it is made up.
	reasonUnknown = "ContainerStatusUnknown"
)

// signalName names what Kubernetes numbers.
func signalName(n int32) string {
	names := map[int32]string{1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM"}
	if s, ok := names[n]; ok {
		return s
	}
	return fmt.Sprintf("signal %d", n)
}

// rawJob and rawPod keep what the cluster says, in its own words.
func rawJob(m map[string]string, j *batchv1.Job) {
	for _, c := range j.Status.Conditions {
		key := "job." + string(c.Type)
		m[key] = string(c.Status)
		addRaw(m, key+".reason", c.Reason)
		addRaw(m, key+".message", c.Message)
	}
}

func rawPod(m map[string]string, pod *corev1.Pod) {
	m["pod"] = pod.Name
	addRaw(m, "node", pod.Spec.NodeName)
	addRaw(m, "pod.phase", string(pod.Status.Phase))
	addRaw(m, "pod.reason", pod.Status.Reason)
	addRaw(m, "pod.message", pod.Status.Message)
	for _, c := range pod.Status.Conditions {
		if c.Reason != "" || c.Type == corev1.DisruptionTarget {
			key := "pod." + string(c.Type)
			m[key] = string(c.Status)
			addRaw(m, key+".reason", c.Reason)
			addRaw(m, key+".message", c.Message)
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		key := "container." + c.Name
		switch {
		case c.State.Waiting != nil:
			m[key] = "waiting"
			addRaw(m, key+".reason", c.State.Waiting.Reason)
			addRaw(m, key+".message", c.State.Waiting.Message)
		case c.State.Running != nil:
			m[key] = "running"
		case c.State.Terminated != nil:
			m[key] = "terminated"
			m[key+".exit_code"] = fmt.Sprint(c.State.Terminated.ExitCode)
			addRaw(m, key+".reason", c.State.Terminated.Reason)
			addRaw(m, key+".message", c.State.Terminated.Message)
		}
	}
}

func addRaw(m map[string]string, key, value string) {
	if value != "" {
		m[key] = value
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

package kube

import (
	"fmt"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func (s *Server) podsOf(j *batchv1.Job) []*corev1.Pod {
	var out []*corev1.Pod
	for _, o := range s.selected("pods", labels.Everything()) {
		if pod := o.(*corev1.Pod); ownerOf(pod) == j.UID {
			out = append(out, pod)
		}
	}
	return out
}

// finished reports whether a Job has come to its end.
func finished(j *batchv1.Job) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}

func condition(j *batchv1.Job, kind batchv1.JobConditionType, is corev1.ConditionStatus, reason, message string) {
	j.Status.Conditions = slices.DeleteFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == kind })
	j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: kind, Status: is, Reason: reason, Message: message, LastTransitionTime: now(), LastProbeTime: now()})
}

// reconcile is the Job controller's step, for Jobs of one pod that isn't replaced.
// https://kubernetes.io/docs/concepts/workloads/controllers/job/
func (s *Server) reconcile(j *batchv1.Job) {
	if is, ok := s.get("jobs", j.Name); !ok || is != object(j) || finished(j) {
		return
	}
	next := j.DeepCopy()
	pods := s.podsOf(j)
	var active, failedPods, succeeded int32
	for _, pod := range pods {
		switch {
		case pod.Status.Phase == corev1.PodSucceeded:
			succeeded++
		case over(pod):
			failedPods++
		default:
			active++
		}
	}
	made := s.made[j.UID]
	lost := int32(made - len(pods)) //nolint:gosec // a Job has a pod or two
	switch suspend := j.Spec.Suspend != nil && *j.Spec.Suspend; {
	case succeeded > 0:
		for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
			condition(next, kind, corev1.ConditionTrue, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods")
		}
		done := now()
		next.Status.CompletionTime = &done
	case suspend && active > 0:
		for _, pod := range pods {
			if !over(pod) {
				s.deletePod(pod)
			}
		}
		if is, _ := s.get("jobs", j.Name); is != object(j) {
			return // a pod that went at once has brought the controller back
		}
	case suspend:
		condition(next, batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended")
	case failedPods+lost > 0 && active == 0:
		reason, message := failure(j, pods)
		condition(next, batchv1.JobFailureTarget, corev1.ConditionTrue, reason, message)
		condition(next, batchv1.JobFailed, corev1.ConditionTrue, reason, message)
	case active == 0 && refusesPod(j.Spec.Template.Spec):
		// The controller tries for ever, and tells of it in events alone.
	case active == 0:
		s.startPod(j)
		active = 1
	}
	next.Status.Active, next.Status.Failed, next.Status.Succeeded = active, failedPods+lost, succeeded
	s.put("jobs", next, "MODIFIED")
}

// failure words a Job's failure as its controller does, whose rules on pods fail the
// Job.
// https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/controller/job/pod_failure_policy.go
func failure(j *batchv1.Job, pods []*corev1.Pod) (reason, message string) {
	if policy := j.Spec.PodFailurePolicy; policy != nil {
		for _, pod := range pods {
			for i, rule := range policy.Rules {
				if text := matches(rule, pod); text != "" && pod.Status.Phase == corev1.PodFailed {
					return batchv1.JobReasonPodFailurePolicy, fmt.Sprintf("%s matching %s rule at index %d", text, rule.Action, i)
				}
			}
		}
	}
	return batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit"
}

// matches says what a rule sees in a pod; empty is nothing.
func matches(rule batchv1.PodFailurePolicyRule, pod *corev1.Pod) string {
	name := pod.Namespace + "/" + pod.Name
	if on := rule.OnExitCodes; on != nil {
		for _, c := range pod.Status.ContainerStatuses {
			t := c.State.Terminated
			if t != nil && t.ExitCode != 0 && (on.ContainerName == nil || *on.ContainerName == c.Name) &&
				slices.Contains(on.Values, t.ExitCode) == (on.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn) {
				return fmt.Sprintf("Container %s for pod %s failed with exit code %d", c.Name, name, t.ExitCode)
			}
		}
	}
	for _, pattern := range rule.OnPodConditions {
		for _, c := range pod.Status.Conditions {
			if c.Type == pattern.Type && c.Status == pattern.Status {
				return fmt.Sprintf("Pod %s has condition %s", name, c.Type)
			}
		}
	}
	return ""
}

// startPod makes a Job's pod.
func (s *Server) startPod(j *batchv1.Job) *corev1.Pod {
	s.made[j.UID]++
	controls, block := true, true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%05d", j.Name, s.serial), Labels: maps.Clone(j.Spec.Template.Labels), Annotations: maps.Clone(j.Spec.Template.Annotations),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: j.UID, Controller: &controls, BlockOwnerDeletion: &block}}},
		Spec: *j.Spec.Template.Spec.DeepCopy(), Status: corev1.PodStatus{Phase: corev1.PodPending}}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[batchv1.JobNameLabel], pod.Labels[batchv1.ControllerUidLabel] = j.Name, string(j.UID)
	s.admit(pod)
	s.put("pods", pod, "ADDED")
	s.keep(pod)
	return pod
}

// SecondPod starts another pod of a Job beside the first, as a controller with an
// old view of the world does.
// https://github.com/kubernetes/kubernetes/issues/62772
func (s *Server) SecondPod(job string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.get("jobs", job)
	if ok {
		s.startPod(o.(*batchv1.Job))
	}
	return ok
}

// changePod stores a pod as f changes it, and lets its Job know.
func (s *Server) changePod(name string, f func(pod *corev1.Pod)) bool {
	o, ok := s.get("pods", name)
	if !ok {
		return false
	}
	pod := o.(*corev1.Pod).DeepCopy()
	f(pod)
	s.put("pods", pod, "MODIFIED")
	s.parent(pod)
	return true
}

// parent has a pod's Job looked at.
func (s *Server) parent(pod *corev1.Pod) {
	for _, o := range s.selected("jobs", labels.Everything()) {
		if j := o.(*batchv1.Job); j.UID == ownerOf(pod) {
			s.reconcile(j)
		}
	}
}

// DeletePod deletes a pod as anybody could, without a grace: at once where nothing
// of it runs.
func (s *Server) DeletePod(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.get("pods", name)
	if ok {
		s.deletePod(o.(*corev1.Pod))
	}
	return ok
}

// Evict ends a pod as a node without memory does: it stays, without a code.
// https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/
func (s *Server) Evict(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.pods[name]
	if l != nil {
		l.evicted = true
		l.poke()
	}
	return l != nil
}

// Pods are the names of the pods that there are.
func (s *Server) Pods() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects["pods"]))
}

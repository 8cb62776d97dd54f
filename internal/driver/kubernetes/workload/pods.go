package workload

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/sdk"
)

// pods are those of a workload, by name, and the revision of the newest ones; the
// revision is empty where the controller has none yet.
func (w *Workloads) pods(ctx context.Context, op string, o *object) ([]corev1.Pod, string, error) {
	selector, err := metav1.LabelSelectorAsSelector(o.selector)
	if err != nil {
		return nil, "", w.fail(sdk.Internal, op, "the selector of %s: %w", o.ref.object(), err)
	}
	var all []corev1.Pod
	var failed error
	var wg sync.WaitGroup
	wg.Go(func() {
		all, failed = listed[corev1.Pod](ctx, w, op, kube.Pods(o.ref.namespace, ""), selector.String())
	})
	owners, newest, err := w.revisions(ctx, op, o, selector.String())
	wg.Wait()
	if err = cmp.Or(err, failed); err != nil {
		return nil, "", err
	}
	all = slices.DeleteFunc(all, func(p corev1.Pod) bool { c := metav1.GetControllerOf(&p); return c == nil || !owners[c.UID] })
	slices.SortFunc(all, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return all, newest, nil
}

// revisions are the UIDs of what makes a workload's pods, and the newest template's name.
func (w *Workloads) revisions(ctx context.Context, op string, o *object, selector string) (owners map[types.UID]bool, newest string, err error) {
	switch o.ref.kind {
	case deployment:
		sets, err := listed[appsv1.ReplicaSet](ctx, w, op, kube.Apps("replicasets", o.ref.namespace, ""), selector)
		owners, newest = replicaSets(o, sets)
		return owners, newest, err
	case daemonSet:
		all, err := listed[appsv1.ControllerRevision](ctx, w, op, kube.Apps("controllerrevisions", o.ref.namespace, ""), selector)
		return map[types.UID]bool{o.meta.UID: true}, newestRevision(o, all), err
	case statefulSet:
	}
	return map[types.UID]bool{o.meta.UID: true}, o.revision, nil
}

// listed reads a list of a type.
func listed[T any](ctx context.Context, w *Workloads, op string, at kube.Place, selector string) ([]T, error) {
	items, err := w.list(ctx, op, at, selector)
	if err != nil {
		return nil, err
	}
	out := make([]T, len(items))
	for i, raw := range items {
		if err := json.Unmarshal(raw, &out[i]); err != nil {
			return nil, w.fail(sdk.Internal, op, "read one of the %s: %w", at.Resource, err)
		}
	}
	return out, nil
}

// annotationRevision counts the templates of a Deployment; its newest ReplicaSet has
// the Deployment's own number.
// https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#checking-rollout-history-of-a-deployment
const annotationRevision = "deployment.kubernetes.io/revision"

// replicaSets are those of a Deployment, and the hash that the newest's pods have.
func replicaSets(o *object, sets []appsv1.ReplicaSet) (owners map[types.UID]bool, newest string) {
	owners = map[types.UID]bool{}
	for _, s := range sets {
		if !metav1.IsControlledBy(&s, &o.meta) {
			continue
		}
		owners[s.UID] = true
		if n := s.Annotations[annotationRevision]; n != "" && n == o.meta.Annotations[annotationRevision] {
			newest = s.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
		}
	}
	return owners, newest
}

// newestRevision is the hash of a DaemonSet's newest template.
// https://kubernetes.io/docs/tasks/manage-daemon/rollback-daemon-set/#understanding-daemonset-revisions
func newestRevision(o *object, all []appsv1.ControllerRevision) string {
	number, newest := int64(0), ""
	for _, r := range all {
		if metav1.IsControlledBy(&r, &o.meta) && r.Revision > number {
			number, newest = r.Revision, r.Labels[appsv1.ControllerRevisionHashLabelKey]
		}
	}
	return newest
}

// podRevision is the template that a pod was made from.
func podRevision(p *corev1.Pod) string {
	return cmp.Or(p.Labels[appsv1.DefaultDeploymentUniqueLabelKey], p.Labels[appsv1.ControllerRevisionHashLabelKey])
}

// gone reports whether a pod is over, and stays as a note of what was. One that is
// being deleted isn't that: it is still on its way.
func gone(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && (p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed)
}

func podReady(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// instance is a pod in the contract's words.
func instance(p *corev1.Pod) sdk.InstanceStatus {
	in := sdk.InstanceStatus{Name: p.Name, Ready: podReady(p), Generation: podRevision(p)}
	switch {
	case gone(p):
		in.State = sdk.InstanceEnded
	case p.DeletionTimestamp != nil:
		in.State = sdk.InstanceStopping
	case p.Status.Phase == corev1.PodRunning:
		in.State = sdk.InstanceRunning
	case p.Status.Phase == corev1.PodPending:
		in.State = sdk.InstancePending
	default:
		in.State = sdk.InstanceUnknown
	}
	if cs := p.Status.ContainerStatuses; len(cs) > 0 {
		restarts := 0
		for _, c := range cs {
			restarts += int(c.RestartCount)
		}
		in.Restarts = &restarts
	}
	if c := mainStatus(p); c != nil && c.State.Running != nil {
		in.Started = c.State.Running.StartedAt.UTC()
	}
	if !in.Ready {
		if f := podFailure(p); f != nil {
			in.Reason, in.Message = f.Reason, f.Message
		}
	}
	return in
}

// mainStatus is the status of the container that counts.
func mainStatus(p *corev1.Pod) *corev1.ContainerStatus {
	main := mainOf(p.Annotations, p.Spec.Containers)
	if main == nil {
		return nil
	}
	if i := slices.IndexFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == main.Name }); i >= 0 {
		return &p.Status.ContainerStatuses[i]
	}
	return nil
}

// podFailure is why a pod isn't ready, or was taken away; nil where nothing tells.
func podFailure(p *corev1.Pod) *sdk.WorkloadFailure {
	f := &sdk.WorkloadFailure{Instance: p.Name}
	if reason, words := podspec.LossReason(p); reason != "" {
		f.Reason, f.Message = reason, oneLine(words)
		return f
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			f.Reason, f.Message, f.At = sdk.ReasonUnschedulable, oneLine(c.Message), c.LastTransitionTime.UTC()
			return f
		}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if waitingFailure(f, c) || endFailure(f, c, c.State.Terminated) {
			return f
		}
	}
	return nil
}

// lastFailure is the last end of one of a pod's containers that isn't as it should be,
// nil where there was none.
func lastFailure(p *corev1.Pod) *sdk.WorkloadFailure {
	if f := podFailure(p); f != nil {
		return f
	}
	f := &sdk.WorkloadFailure{Instance: p.Name}
	for _, c := range p.Status.ContainerStatuses {
		if endFailure(f, c, c.LastTerminationState.Terminated) {
			return f
		}
	}
	return nil
}

// waitingFailure says why a container waits. What is started again after an end has
// the reason of that end.
func waitingFailure(f *sdk.WorkloadFailure, c corev1.ContainerStatus) bool {
	s := c.State.Waiting
	if s == nil || s.Reason == "" || s.Reason == "ContainerCreating" || s.Reason == "PodInitializing" {
		return false
	}
	words := oneLine(strings.TrimSuffix(s.Reason+": "+s.Message, ": "))
	if endFailure(f, c, c.LastTerminationState.Terminated) {
		f.Message += "; " + words
		return true
	}
	f.Reason, f.Message = podspec.WaitingReason(s.Reason), c.Name+": "+words
	if f.Reason == "" {
		f.Reason = sdk.ReasonFailedToStart // CreateContainerConfigError: a ConfigMap or Secret is missing
	}
	return true
}

// endFailure says how a container ended.
func endFailure(f *sdk.WorkloadFailure, c corev1.ContainerStatus, t *corev1.ContainerStateTerminated) bool {
	if t == nil {
		return false
	}
	f.At = t.FinishedAt.UTC()
	switch {
	case t.Reason == "OOMKilled":
		f.Reason = sdk.ReasonOOMKilled
	case t.Reason == "StartError" || t.Reason == "ContainerCannotRun":
		f.Reason = sdk.ReasonInvalidSpec
	case t.ExitCode != 0:
		f.Reason = sdk.ReasonNonzeroExit
	default:
		return false // an end with 0 is no failure
	}
	f.Message = c.Name + " ended with the exit code " + strconv.Itoa(int(t.ExitCode))
	if words := oneLine(t.Message); words != "" {
		f.Message += ": " + words
	}
	if c.RestartCount > 0 {
		f.Message += fmt.Sprintf("; %d restarts", c.RestartCount)
	}
	return true
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

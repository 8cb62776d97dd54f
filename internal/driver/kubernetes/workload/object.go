package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-run/windlass/sdk"
)

// object is a workload as the API has it, its three kinds in one form.
type object struct {
	ref  ref
	meta metav1.ObjectMeta
	// raw is all of it, for what was declared of it.
	raw      json.RawMessage
	selector *metav1.LabelSelector
	template corev1.PodTemplateSpec
	// observed is the generation that the controller works on. The counts are of that.
	observed                int64
	desired, ready, updated int
	// total counts pods of every revision, those that are being deleted not among them.
	total int
	// revision names the newest pods where the object itself tells, see podRevision.
	revision string
	// failed is the controller's word that it has given up; refusal that it can't make
	// pods.
	failed, refusal *metav1.Condition
	// manual: a new template replaces no pod by itself, and why.
	manual string
	// recreates: all old pods end before new ones start.
	recreates bool
	// scaler owns the count, and unseen is why that can't be told, where it was asked for.
	scaler *sdk.Autoscaler
	unseen error
	// history is how many old revisions the cluster keeps.
	history int
}

const defaultHistory = 10

// read gets a workload.
func (w *Workloads) read(ctx context.Context, op string, r ref) (*object, error) {
	var raw json.RawMessage
	if err := w.get(ctx, op, r.place(), &raw); err != nil {
		return nil, err
	}
	o, err := decode(r.kind, raw)
	if err != nil {
		return nil, w.fail(sdk.Internal, op, "read the %s: %w", r.object(), err)
	}
	return o, nil
}

// decode reads an object of a kind.
func decode(k kind, raw json.RawMessage) (*object, error) {
	switch k {
	case statefulSet:
		return decodeStatefulSet(raw)
	case daemonSet:
		return decodeDaemonSet(raw)
	case deployment:
	}
	var d appsv1.Deployment
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, err
	}
	o := newObject(k, raw, d.ObjectMeta, d.Spec.Selector, d.Spec.Template, d.Spec.RevisionHistoryLimit)
	o.observed, o.desired = d.Status.ObservedGeneration, count(d.Spec.Replicas)
	o.ready, o.updated, o.total = int(d.Status.ReadyReplicas), int(d.Status.UpdatedReplicas), int(d.Status.Replicas)
	o.recreates = d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
	if d.Spec.Paused {
		o.manual = "the rollout is paused; `kubectl rollout resume` lets it go on"
	}
	for _, c := range d.Status.Conditions {
		as := &metav1.Condition{Reason: c.Reason, Message: c.Message, LastTransitionTime: c.LastUpdateTime}
		switch {
		case c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse && c.Reason == "ProgressDeadlineExceeded":
			o.failed = as
		case c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue:
			o.refusal = as
		}
	}
	return o, nil
}

func decodeStatefulSet(raw json.RawMessage) (*object, error) {
	var s appsv1.StatefulSet
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	o := newObject(statefulSet, raw, s.ObjectMeta, s.Spec.Selector, s.Spec.Template, s.Spec.RevisionHistoryLimit)
	o.observed, o.desired, o.revision = s.Status.ObservedGeneration, count(s.Spec.Replicas), s.Status.UpdateRevision
	o.ready, o.updated, o.total = int(s.Status.ReadyReplicas), int(s.Status.UpdatedReplicas), int(s.Status.Replicas)
	switch u := s.Spec.UpdateStrategy; {
	case u.Type == appsv1.OnDeleteStatefulSetStrategyType:
		o.manual = onDelete
	case u.RollingUpdate != nil && u.RollingUpdate.Partition != nil && *u.RollingUpdate.Partition > 0:
		o.manual = fmt.Sprintf("its update strategy has the partition %d: pods below that number stay as they are", *u.RollingUpdate.Partition)
	}
	return o, nil
}

func decodeDaemonSet(raw json.RawMessage) (*object, error) {
	var d appsv1.DaemonSet
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, err
	}
	o := newObject(daemonSet, raw, d.ObjectMeta, d.Spec.Selector, d.Spec.Template, d.Spec.RevisionHistoryLimit)
	o.observed, o.desired = d.Status.ObservedGeneration, int(d.Status.DesiredNumberScheduled)
	o.ready, o.updated, o.total = int(d.Status.NumberReady), int(d.Status.UpdatedNumberScheduled), int(d.Status.CurrentNumberScheduled)
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		o.manual = onDelete
	}
	return o, nil
}

const onDelete = "its update strategy is OnDelete: pods stay as they are until somebody deletes them"

func newObject(k kind, raw json.RawMessage, m metav1.ObjectMeta, sel *metav1.LabelSelector, t corev1.PodTemplateSpec, history *int32) *object {
	o := &object{ref: ref{m.Namespace, k, m.Name}, raw: raw, meta: m, selector: sel, template: t, history: defaultHistory}
	if history != nil {
		o.history = int(*history)
	}
	return o
}

// count is a number of replicas; unset is one.
func count(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}

// version names a generation of one object: one that was deleted and made again
// counts from the beginning.
func version(generation int64, uid types.UID) string {
	return strconv.FormatInt(generation, 10) + "-" + string(uid[:min(len(uid), 8)])
}

func (o *object) generation() string { return version(o.meta.Generation, o.meta.UID) }

// image is that of the container that counts.
func (o *object) image() string {
	if c := mainOf(o.template.Annotations, o.template.Spec.Containers); c != nil {
		return c.Image
	}
	return ""
}

// annotationMain names the container that a person means who names none.
// https://kubernetes.io/docs/reference/labels-annotations-taints/#kubectl-kubernetes-io-default-container
const annotationMain = "kubectl.kubernetes.io/default-container"

// mainOf is the container that is meant where none is named.
func mainOf(annotations map[string]string, cs []corev1.Container) *corev1.Container {
	if len(cs) == 0 {
		return nil
	}
	i := slices.IndexFunc(cs, func(c corev1.Container) bool { return c.Name == annotations[annotationMain] })
	return &cs[max(i, 0)]
}

// restores is how many replicas a start brings back, nil where it isn't noted.
func (o *object) restores() *int {
	n, err := strconv.Atoi(o.meta.Annotations[annotationRestores])
	if err != nil || n < 0 {
		return nil
	}
	return &n
}

// stopped reports whether a stop ended it, and nobody gave it replicas since.
func (o *object) stopped() bool {
	return o.ref.kind != daemonSet && o.desired == 0 && o.restores() != nil
}

// rollout names the newest change of ours that replaced pods; empty is none.
func (o *object) rollout() string { return o.template.Annotations[annotationRollout] }

package workload

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/sdk"
)

func pod(name, revision string, change ...func(p *corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pod-template-hash": revision}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}
	for _, f := range change {
		f(&p)
	}
	return p
}

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func leaving(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1e9, 0)} }

func waiting(reason, message string) func(p *corev1.Pod) {
	return func(p *corev1.Pod) {
		unready(p)
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
}

func crashed(reason string, code int32) func(p *corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].RestartCount = 3
		p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, FinishedAt: metav1.Unix(1e9, 0)}
	}
}

// TestF94NothingOldIsLeft: a rollout isn't complete while the controller hasn't seen
// it, while a pod of before is there, also one that is being deleted, which the
// controller counts no more, or while one is too many.
func TestF94NothingOldIsLeft(t *testing.T) {
	for _, k := range []struct {
		name   string
		change func(o *object)
		pods   []corev1.Pod
		want   sdk.RolloutState
	}{
		{"done", nil, []corev1.Pod{pod("a", "2"), pod("b", "2")}, sdk.RolloutComplete},
		{"done, beside the note of an evicted one", nil, []corev1.Pod{pod("a", "2"), pod("b", "2"), pod("c", "1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, sdk.RolloutComplete},
		{"unseen", func(o *object) { o.observed = 6 }, []corev1.Pod{pod("a", "2"), pod("b", "2")}, sdk.RolloutProgressing},
		{"an old one leaves", nil, []corev1.Pod{pod("a", "2"), pod("b", "2"), pod("c", "1", leaving)}, sdk.RolloutProgressing},
		{"one too many leaves", nil, []corev1.Pod{pod("a", "2"), pod("b", "2"), pod("c", "2", leaving)}, sdk.RolloutProgressing},
		{"an old one ended, and isn't gone", nil, []corev1.Pod{pod("a", "2"), pod("b", "2"), pod("c", "1", leaving, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })}, sdk.RolloutProgressing},
		{"counted, and not there yet", nil, []corev1.Pod{pod("a", "2")}, sdk.RolloutProgressing},
		{"one isn't ready", func(o *object) { o.ready = 1 }, []corev1.Pod{pod("a", "2"), pod("b", "2", unready)}, sdk.RolloutProgressing},
		{"given up", func(o *object) { o.failed = &metav1.Condition{Message: "has timed out progressing"} }, []corev1.Pod{pod("a", "1"), pod("b", "2", unready)}, sdk.RolloutFailed},
		{"given up on the one before", func(o *object) { o.failed, o.observed = &metav1.Condition{}, 6 }, []corev1.Pod{pod("a", "1")}, sdk.RolloutProgressing},
	} {
		o := &object{ref: ref{"n", deployment, "w"}, meta: metav1.ObjectMeta{Generation: 7, UID: "0123456789"}, observed: 7, desired: 2, ready: 2, updated: 2, total: 2}
		if k.change != nil {
			k.change(o)
		}
		if st := judge(o, k.pods, "2"); st.Rollout != k.want || len(st.Instances) != len(k.pods) {
			t.Errorf("%s: %s with %d instances", k.name, st.Rollout, len(st.Instances))
		}
	}
}

// TestFailures: the reason is the cluster's, of the newest pods first.
func TestFailures(t *testing.T) {
	for _, k := range []struct {
		name   string
		pods   []corev1.Pod
		change func(o *object)
		reason sdk.Reason
		words  string
	}{
		{"none", []corev1.Pod{pod("a", "2")}, nil, "", ""},
		{"starting", []corev1.Pod{pod("a", "2", waiting("ContainerCreating", ""))}, nil, "", ""},
		{"no image", []corev1.Pod{pod("a", "2", waiting("ImagePullBackOff", "Back-off pulling"))}, nil, sdk.ReasonImagePull, "Back-off pulling"},
		{"no ConfigMap", []corev1.Pod{pod("a", "2", waiting("CreateContainerConfigError", `configmap "x" not found`))}, nil, sdk.ReasonFailedToStart, `configmap "x" not found`},
		{"crashes", []corev1.Pod{pod("a", "2", waiting("CrashLoopBackOff", "back-off"), crashed("Error", 3))}, nil, sdk.ReasonNonzeroExit, "exit code 3; 3 restarts; CrashLoopBackOff"},
		{"memory", []corev1.Pod{pod("a", "2", waiting("CrashLoopBackOff", "back-off"), crashed("OOMKilled", 137))}, nil, sdk.ReasonOOMKilled, "137"},
		{"got over", []corev1.Pod{pod("a", "2", crashed("OOMKilled", 137))}, nil, sdk.ReasonOOMKilled, "3 restarts"},
		{"no node", []corev1.Pod{pod("a", "2", unready, func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes"}}}
		})}, nil, sdk.ReasonUnschedulable, "0/3 nodes"},
		{"an old one is worse off", []corev1.Pod{pod("a", "1", waiting("ImagePullBackOff", "")), pod("b", "2", waiting("CrashLoopBackOff", ""), crashed("Error", 1))}, nil, sdk.ReasonNonzeroExit, ""},
		{"quota", nil, func(o *object) { o.refusal = &metav1.Condition{Message: "exceeded quota: all"} }, sdk.ReasonQuota, "exceeded quota"},
		{"too late", nil, func(o *object) { o.failed = &metav1.Condition{Message: "timed out"} }, sdk.ReasonStartTimeout, "timed out"},
	} {
		o := &object{ref: ref{"n", deployment, "w"}, meta: metav1.ObjectMeta{UID: "0123456789"}}
		if k.change != nil {
			k.change(o)
		}
		f := failure(o, k.pods, "2")
		if f == nil {
			f = &sdk.WorkloadFailure{}
		}
		if f.Reason != k.reason || !strings.Contains(f.Message, k.words) {
			t.Errorf("%s: %s %q", k.name, f.Reason, f.Message)
		}
	}
}

// TestTrace: an operation that isn't there is proven absent only when nothing came
// after it, and no call can still be under way.
func TestTrace(t *testing.T) {
	at := time.Unix(1e9, 0)
	clock := fixed{at}
	w := On(Cluster{Clock: clock})
	ids := sdk.NewIDSource(clock)
	id, other := ids.NewID(), ids.NewID()
	o := &object{ref: ref{"n", deployment, "w"}, meta: metav1.ObjectMeta{Generation: 7, UID: "0123456789", Annotations: map[string]string{annotationOp: other.String()}}}
	later := On(Cluster{Clock: fixed{at.Add(mayArrive + time.Second)}})
	for name, k := range map[string]struct {
		w      *Workloads
		id     sdk.ID
		before string
		want   sdk.OpState
	}{
		"there":            {w, other, "", sdk.OpAccepted},
		"may still arrive": {w, id, o.generation(), sdk.OpUnknown},
		"never came":       {later, id, o.generation(), sdk.OpAbsent},
		"something came":   {later, id, "6-01234567", sdk.OpUnknown},
		"before unknown":   {later, id, "", sdk.OpUnknown},
	} {
		if got := k.w.trace(o, k.id, k.before); got.State != k.want || got.Evidence == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

type fixed struct{ at time.Time }

func (f fixed) Now() time.Time { return f.at }

func (fixed) Sleep(context.Context, time.Duration) error { return nil }

// FuzzPath: what is taken for a path is given back as it is.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"n/deployment/w", "n/statefulset/w.x", "n/pod/w", "a/b", "n/daemonset/W", "a.b/deployment/w", "//", ""} {
		f.Add(s)
	}
	w := &Workloads{}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := w.parsePath("op", "n", sdk.WorkloadPath(s))
		if err == nil && r.path() != sdk.WorkloadPath(s) {
			t.Errorf("%q became %q", s, r.path())
		}
		if err != nil && sdk.CodeOf(err) != sdk.InvalidArgument {
			t.Errorf("%q: %v", s, err)
		}
	})
}

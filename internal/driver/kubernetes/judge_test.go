package kubernetes

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube/podlog"
	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/sdk"
)

// terminated is a pod whose main container is over.
func terminated(phase corev1.PodPhase, code int32, reason string, change ...func(*corev1.Pod)) corev1.Pod {
	at := metav1.NewTime(time.Unix(1e9, 0))
	pod := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: podspec.Main}}}, Status: corev1.PodStatus{Phase: phase,
		ContainerStatuses: []corev1.ContainerStatus{{Name: podspec.Main, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: reason, StartedAt: at, FinishedAt: at}}}}}}
	for _, f := range change {
		f(&pod)
	}
	return pod
}

func disrupted(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason})
	}
}

func because(reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Reason = reason }
}

func noted(p *corev1.Pod) { p.Annotations = map[string]string{noteCancel: "now"} }

func running(p *corev1.Pod) {
	p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
}

func sidecar(p *corev1.Pod) {
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "proxy"})
}

func never(p *corev1.Pod) {
	p.Status.ContainerStatuses[0].State.Terminated.StartedAt = metav1.Unix(0, 0)
}

// TestF21Ends judges pods that are over: the code is the process's or absent, and
// the reason the most specific one.
func TestF21Ends(t *testing.T) {
	const none = -1
	for name, k := range map[string]struct {
		pod    corev1.Pod
		state  sdk.JobState
		reason sdk.Reason
		code   int
		oom    bool
	}{
		"completed":            {terminated(corev1.PodSucceeded, 0, "Completed"), sdk.StateSucceeded, sdk.ReasonCompleted, 0, false},
		"code":                 {terminated(corev1.PodFailed, 7, "Error"), sdk.StateFailed, sdk.ReasonNonzeroExit, 7, false},
		"137 proves no signal": {terminated(corev1.PodFailed, 137, "Error"), sdk.StateFailed, sdk.ReasonNonzeroExit, 137, false},
		"OOM":                  {terminated(corev1.PodFailed, 137, "OOMKilled"), sdk.StateFailed, sdk.ReasonOOMKilled, 137, true},
		"OOM of a child":       {terminated(corev1.PodSucceeded, 0, "OOMKilled"), sdk.StateSucceeded, sdk.ReasonCompleted, 0, true},
		"deadline":             {terminated(corev1.PodFailed, 143, "Error", because("DeadlineExceeded")), sdk.StateFailed, sdk.ReasonTimedOut, 143, false},
		"deadline, code 0":     {terminated(corev1.PodFailed, 0, "Completed", because("DeadlineExceeded")), sdk.StateFailed, sdk.ReasonTimedOut, none, false},
		"our cancel":           {terminated(corev1.PodFailed, 143, "Error", because("DeadlineExceeded"), noted), sdk.StateCancelled, sdk.ReasonCancelled, 143, false},
		"ended before cancel":  {terminated(corev1.PodFailed, 3, "Error", noted), sdk.StateFailed, sdk.ReasonNonzeroExit, 3, false},
		"evicted":              {terminated(corev1.PodFailed, 137, "Error", because("Evicted")), sdk.StateFailed, sdk.ReasonEvicted, 137, false},
		"preempted":            {terminated(corev1.PodFailed, 137, "Error", disrupted("PreemptionByScheduler")), sdk.StateFailed, sdk.ReasonPreempted, 137, false},
		"tainted":              {terminated(corev1.PodFailed, 137, "Error", disrupted("DeletionByTaintManager")), sdk.StateFailed, sdk.ReasonEvicted, 137, false},
		"left with 0":          {terminated(corev1.PodSucceeded, 0, "Completed", disrupted("DeletionByTaintManager")), sdk.StateSucceeded, sdk.ReasonCompleted, 0, false},
		"node gone":            {terminated(corev1.PodFailed, 137, "ContainerStatusUnknown", disrupted("DeletionByPodGC")), sdk.StateFailed, sdk.ReasonNodeLost, none, false},
		"kubelet lost it":      {terminated(corev1.PodFailed, 137, "ContainerStatusUnknown"), sdk.StateFailed, sdk.ReasonInfrastructure, none, false},
		"no such program":      {terminated(corev1.PodFailed, 128, "StartError", never), sdk.StateFailed, sdk.ReasonInvalidSpec, none, false},
		"sidecar runs on":      {terminated(corev1.PodRunning, 4, "Error", sidecar), sdk.StateFailed, sdk.ReasonNonzeroExit, 4, false},
		"sidecar has failed":   {terminated(corev1.PodFailed, 0, "Completed", sidecar), sdk.StateSucceeded, sdk.ReasonCompleted, 0, false},
		"about to end":         {terminated(corev1.PodRunning, 4, "Error"), sdk.StateRunning, "", 4, false},
		"has its grace":        {terminated(corev1.PodFailed, 0, "", because("DeadlineExceeded"), running), sdk.StateRunning, "", none, false},
		"not admitted":         {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu"}}, sdk.StateFailed, sdk.ReasonFailedToStart, none, false},
	} {
		got := judge(sight{job: &batchv1.Job{}, pods: []corev1.Pod{k.pod}})
		code := none
		if got.ExitCode != nil {
			code = *got.ExitCode
		}
		if k.state == sdk.StateRunning {
			k.code = none
		}
		if got.State != k.state || got.Reason != k.reason || code != k.code || got.OOMObserved != k.oom {
			t.Errorf("%s: %s %s, code %d, oom %t; want %s %s %d %t", name, got.State, got.Reason, code, got.OOMObserved, k.state, k.reason, k.code, k.oom)
		}
		if !sdk.LegalReason(got.State, got.Reason) {
			t.Errorf("%s: %s may not be %s", name, got.State, got.Reason)
		}
	}
}

// TestNodeGone: a pod that is over, and whose node doesn't tell what became of the
// container, is waited for as long as a node may be away; then its end is told without
// a code. What counts is the cluster's clock.
func TestNodeGone(t *testing.T) {
	over := time.Unix(1e9, 0)
	grace := int64(20)
	left := func(change ...func(*corev1.Pod)) corev1.Pod {
		return terminated(corev1.PodFailed, 0, "", append([]func(*corev1.Pod){running, func(p *corev1.Pod) {
			p.Spec.TerminationGracePeriodSeconds = &grace
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(over)}}
		}}, change...)...)
	}
	for name, k := range map[string]struct {
		pod    corev1.Pod
		after  time.Duration
		state  sdk.JobState
		reason sdk.Reason
	}{
		"within its patience": {left(because("DeadlineExceeded")), podlog.Patience + 20*time.Second, sdk.StateRunning, ""},
		"deadline":            {left(because("DeadlineExceeded")), podlog.Patience + 21*time.Second, sdk.StateFailed, sdk.ReasonTimedOut},
		"our cancel":          {left(because("DeadlineExceeded"), noted), podlog.Patience + 21*time.Second, sdk.StateCancelled, sdk.ReasonCancelled},
		"no more is known":    {left(), podlog.Patience + 21*time.Second, sdk.StateFailed, sdk.ReasonNodeLost},
		"no condition":        {left(func(p *corev1.Pod) { p.Status.Conditions = nil }), time.Hour, sdk.StateRunning, ""},
		"still running":       {left(func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }), time.Hour, sdk.StateRunning, ""},
	} {
		got := judge(sight{job: &batchv1.Job{}, pods: []corev1.Pod{k.pod}, now: over.Add(k.after)})
		if got.State != k.state || got.Reason != k.reason || got.ExitCode != nil || got.Launches != 1 {
			t.Errorf("%s: %s %s, code %v, %d launches", name, got.State, got.Reason, got.ExitCode, got.Launches)
		}
		if k.state.Terminal() && got.EndedAt.IsZero() {
			t.Errorf("%s: no time of its end", name)
		}
	}
}

// TestNodeGoneTold goes through the API: the wait is over once the server's clock says
// so, and this machine's has no say.
func TestNodeGoneTold(t *testing.T) {
	var ahead atomic.Int64
	w := newWorldAhead(t, nil, &ahead)
	p := w.Open()
	grace := 10 * time.Minute // the kubelet has nothing to tell for that long
	spec := shell("trap '' TERM; echo up; while :; do sleep 0.05; done")
	spec.Grace = &grace
	h := w.Run(p, w.Plan(p, spec))
	w.Running(p, h)
	w.Eventually("output", func() bool { text, _ := w.Text(p, h, nil); return text == "up\n" })
	if _, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil {
		t.Fatal(err)
	}
	w.Eventually("pod that is called failed", func() bool { return w.Status(p, h).Raw["pod.phase"] == string(corev1.PodFailed) })
	if st := w.Status(p, h); st.State != sdk.StateRunning {
		t.Errorf("within its grace it is %s", st.State)
	}
	ahead.Store(int64(time.Hour))
	_ = w.Status(p, h) // a look tells the time for the next
	st := w.Status(p, h)
	if st.State != sdk.StateCancelled || st.ExitCode != nil || !strings.Contains(st.Message, "doesn't tell") {
		t.Errorf("got %s %s, code %v: %s", st.State, st.Reason, st.ExitCode, st.Message)
	}
	if text, err := w.Follow(t.Context(), p, h, nil); err != nil || text != "up\n" {
		t.Errorf("the log is %q, %v", text, err)
	}
}

// TestUnrunnable: a command that isn't there, or can't be run, is told as such.
func TestUnrunnable(t *testing.T) {
	w := newWorld(t, nil)
	w.Unrunnable(w.Open())
}

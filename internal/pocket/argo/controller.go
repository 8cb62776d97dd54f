package argo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// control is Argo's controller: it looks at every Workflow whenever anything changes.
func (s *Server) control() {
	for {
		changed := s.cluster.Changed()
		var next time.Duration
		if s.tuned().Asleep {
			select {
			case <-s.poke:
				continue
			case <-s.ctx.Done():
				return
			}
		}
		for _, raw := range s.cluster.Objects(plural, labels.Everything()) {
			w := &workflow{}
			if err := json.Unmarshal(raw, w); err != nil {
				panic("argo: " + err.Error()) // it was stored
			}
			if d := s.operate(w); d > 0 && (next == 0 || d < next) {
				next = d
			}
		}
		var late <-chan time.Time
		if next > 0 {
			late = time.After(next)
		}
		select {
		case <-changed:
		case <-s.poke:
		case <-late:
		case <-s.ctx.Done():
			return
		}
	}
}

// operate is one step with a Workflow. It returns after how long to look again.
// https://github.com/argoproj/argo-workflows/blob/v4.0.5/workflow/controller/operator.go
func (s *Server) operate(w *workflow) time.Duration {
	switch w.Status.Phase {
	case "":
		s.begin(w)
	case "Pending":
		if s.tuned().Postponed == "" {
			s.begin(w)
		}
	case "Running":
		return s.follow(w)
	default:
		return s.expire(w)
	}
	return 0
}

func now() metav1.Time { return metav1.NewTime(time.Now().UTC().Truncate(time.Second)) }

func done(phase string) bool { return phase == "Succeeded" || phase == "Failed" || phase == "Error" }

// store changes a Workflow's status, if it changes by that.
func (s *Server) store(name string, f func(w *workflow)) {
	s.cluster.Update(plural, name, func(o metav1.Object) metav1.Object {
		w := o.(*workflow)           //nolint:forcetypeassert // the kind makes no other
		before, _ := json.Marshal(w) //nolint:errchkjson // it was JSON
		f(w)
		if after, _ := json.Marshal(w); slices.Equal(before, after) { //nolint:errchkjson // it was JSON
			return nil
		}
		return w
	})
}

// begin marks a Workflow as running and makes its pod.
func (s *Server) begin(w *workflow) {
	if why := s.tuned().Postponed; why != "" {
		s.store(w.Name, func(w *workflow) { w.Status.Phase, w.Status.Message = "Pending", why })
		return
	}
	start := now()
	fail := func(err error) {
		s.store(w.Name, func(w *workflow) {
			w.Status.Phase, w.Status.Message = "Error", err.Error()
			w.Status.StartedAt, w.Status.FinishedAt = start, now()
			complete(w)
		})
	}
	if err := validate(w); err != nil {
		fail(fmt.Errorf("invalid spec: %w", err))
		return
	}
	meta, pod, err := s.podOf(w)
	if err != nil {
		fail(fmt.Errorf("error in entry template execution: %w", err))
		return
	}
	s.store(w.Name, func(w *workflow) {
		w.Status.Phase, w.Status.Message, w.Status.StartedAt = "Running", "", start
		w.Status.Nodes = map[string]node{w.Name: {ID: w.Name, Name: w.Name, DisplayName: w.Name, Type: "Pod", TemplateName: w.Spec.Entrypoint, TemplateScope: "local/" + w.Name,
			Phase: "Pending", StartedAt: start, Progress: "0/1"}}
		w.Status.TaskResultsCompletionStatus = map[string]bool{w.Name: false}
		if w.Labels == nil {
			w.Labels = map[string]string{}
		}
		w.Labels["workflows.argoproj.io/phase"] = "Running"
	})
	s.cluster.StartPod(plural, w.Name, w.Name, meta, pod)
}

// podOf is the pod of the only step. Argo's own containers, init and wait, aren't
// there; what they do the controller and the executor do here.
func (s *Server) podOf(w *workflow) (metav1.ObjectMeta, corev1.PodSpec, error) {
	i := slices.IndexFunc(w.Spec.Templates, func(t template) bool { return t.Name == w.Spec.Entrypoint })
	t, err := substitute(w, w.Spec.Templates[i])
	if err != nil {
		return metav1.ObjectMeta{}, corev1.PodSpec{}, err
	}
	c := *t.Container
	c.Name = "main"
	pod := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{c}, Volumes: w.Spec.Volumes, NodeSelector: w.Spec.NodeSelector,
		Affinity: w.Spec.Affinity, Tolerations: w.Spec.Tolerations, ImagePullSecrets: w.Spec.ImagePullSecrets, PriorityClassName: w.Spec.PodPriorityClassName,
		ServiceAccountName: w.Spec.ServiceAccountName, AutomountServiceAccountToken: w.Spec.AutomountServiceAccountToken}
	if d := t.ActiveDeadlineSeconds; d != nil {
		n, err := strconv.ParseInt(d.String(), 10, 64)
		if err != nil {
			return metav1.ObjectMeta{}, pod, err
		}
		pod.ActiveDeadlineSeconds = &n
	}
	meta := metav1.ObjectMeta{Labels: map[string]string{"workflows.argoproj.io/workflow": w.Name, "workflows.argoproj.io/completed": "false"}, Annotations: map[string]string{}}
	if m := w.Spec.PodMetadata; m != nil {
		for k, v := range m.Labels {
			meta.Labels[k] = v
		}
		for k, v := range m.Annotations {
			meta.Annotations[k] = v
		}
	}
	if w.Spec.PodSpecPatch != "" {
		// Only members that aren't lists are patched here, for which a strategic merge
		// is the same as any.
		if err := json.Unmarshal([]byte(w.Spec.PodSpecPatch), &pod); err != nil {
			return meta, pod, fmt.Errorf("error applying PodSpecPatch: %w", err)
		}
	}
	return meta, pod, nil
}

// complete marks a Workflow that is over.
func complete(w *workflow) {
	if w.Labels == nil {
		w.Labels = map[string]string{}
	}
	w.Labels["workflows.argoproj.io/completed"], w.Labels["workflows.argoproj.io/phase"] = "true", w.Status.Phase
}

// follow brings a Workflow's state up to its pod's.
func (s *Server) follow(w *workflow) time.Duration {
	pods := s.cluster.Owned(w.UID)
	if len(pods) == 0 {
		s.podless(w)
		return 0
	}
	pod := &pods[0]
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	knobs := s.tuned()
	waits := cmp.Or(knobs.WaitEnds, waitEnds)
	s.store(w.Name, func(w *workflow) {
		n := w.Status.Nodes[w.Name]
		assess(&n, pod, knobs)
		running := "False"
		if n.Phase == "Running" {
			running = "True"
		}
		w.Status.Conditions = []condition{{Type: "PodRunning", Status: running}}
		if w.Spec.Shutdown != "" && !over {
			n.Phase, n.Message = "Failed", "workflow shutdown with strategy:  "+w.Spec.Shutdown
			n.FinishedAt = now()
		}
		if w.Spec.ArchiveLogs != nil && *w.Spec.ArchiveLogs && over && n.Outputs != nil {
			n.Outputs.Artifacts = []artifact{{Name: "main-logs"}}
		}
		w.Status.Nodes[w.Name] = n
		// Told to end, Argo's own container ends too, and soon; what the job's does then
		// is seen no more.
		late := w.Spec.Shutdown != "" && s.since(w.Name) > waits
		if over || late {
			// The executor has reported.
			w.Status.TaskResultsCompletionStatus[w.Name] = true
			end(w, &n)
		}
	})
	if w.Spec.Shutdown != "" && !over {
		s.terminate(pod)
		return waits
	}
	if over && (knobs.CollectPods || w.Spec.PodGC != nil && w.Spec.PodGC.Strategy == "OnPodCompletion") {
		s.cluster.Delete("pods", pod.Name)
	}
	return 0
}

// waitEnds is Knobs.WaitEnds where nothing is set.
const waitEnds = 150 * time.Millisecond

// since is for how long a Workflow has been told to end.
func (s *Server) since(name string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.told[name]
	if !ok {
		at = time.Now()
		s.told[name] = at
	}
	return time.Since(at)
}

// podless is a Workflow whose pod is gone, or was never there.
func (s *Server) podless(w *workflow) {
	n := w.Status.Nodes[w.Name]
	if w.Spec.Shutdown == "" && n.Phase == "Pending" && n.HostNodeName == "" {
		if meta, pod, err := s.podOf(w); err == nil {
			s.cluster.StartPod(plural, w.Name, w.Name, meta, pod)
		}
		return
	}
	s.store(w.Name, func(w *workflow) {
		n := w.Status.Nodes[w.Name]
		switch {
		case w.Spec.Shutdown != "":
			n.Phase, n.Message = "Failed", "workflow shutdown with strategy:  "+w.Spec.Shutdown
		default:
			n.Phase, n.Message = "Error", "pod deleted"
		}
		n.FinishedAt = now()
		w.Status.Nodes[w.Name] = n
		w.Status.Conditions = []condition{{Type: "PodRunning", Status: "False"}}
		end(w, &n)
	})
}

// end is a Workflow's end by its step's.
func end(w *workflow, n *node) {
	w.Status.Phase, w.Status.FinishedAt = n.Phase, now()
	w.Status.Message = n.Message
	if n.Phase != "Succeeded" && w.Spec.Shutdown != "" {
		w.Status.Message = "Stopped with strategy '" + w.Spec.Shutdown + "'"
	}
	w.Status.Conditions = append(w.Status.Conditions, condition{Type: "Completed", Status: "True"})
	complete(w)
}

// assess is a step's state by its pod's.
func assess(n *node, pod *corev1.Pod, knobs Knobs) {
	var main *corev1.ContainerStatus
	if len(pod.Status.ContainerStatuses) > 0 {
		main = &pod.Status.ContainerStatuses[0]
	}
	n.HostNodeName = pod.Spec.NodeName
	switch pod.Status.Phase {
	case corev1.PodPending:
		n.Phase, n.Message = "Pending", pending(pod)
	case corev1.PodSucceeded:
		n.Phase, n.Message, n.Progress = "Succeeded", "", "1/1"
	case corev1.PodFailed:
		n.Phase, n.Message = failed(pod, main)
	case corev1.PodRunning:
		if n.Phase == "Pending" {
			n.Message = ""
		}
		n.Phase = "Running"
	}
	if main != nil && main.State.Terminated != nil {
		if n.Outputs == nil {
			n.Outputs = &outputs{}
		}
		if !knobs.NoExitCode {
			code := strconv.Itoa(int(main.State.Terminated.ExitCode))
			n.Outputs.ExitCode = &code
		}
		if done(n.Phase) && n.FinishedAt.IsZero() {
			n.FinishedAt = main.State.Terminated.FinishedAt
		}
	}
}

func pending(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			if w.Message != "" {
				return w.Reason + ": " + w.Message
			}
			return w.Reason
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Reason == corev1.PodReasonUnschedulable {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// failed is why a pod failed, in Argo's one message.
func failed(pod *corev1.Pod, main *corev1.ContainerStatus) (phase, message string) {
	switch {
	case pod.Status.Message != "":
		return "Failed", pod.Status.Message
	case main == nil:
		return "Failed", fmt.Sprintf("can't find failed message for pod %s namespace %s", pod.Name, pod.Namespace)
	case main.State.Waiting != nil:
		return "Error", fmt.Sprintf("Pod failed before main container starts due to %s: %s", main.State.Waiting.Reason, main.State.Waiting.Message)
	case main.State.Terminated == nil || main.State.Terminated.ExitCode == 0:
		return "Failed", "pod failed: main container did not complete successfully"
	}
	t := main.State.Terminated
	message = fmt.Sprintf("main: %s (exit code %d)", t.Reason, t.ExitCode)
	if t.Message != "" {
		message += ": " + t.Message
	}
	return "Failed", message
}

// terminate sends TERM into a pod's container; a pod that waits is deleted. The KILL
// that should follow never comes: with the Workflow's end the pod gets a label by which
// the controller sees it no more.
// https://github.com/argoproj/argo-workflows/blob/v4.0.5/workflow/controller/pod/queue.go
func (s *Server) terminate(pod *corev1.Pod) {
	if pod.Status.Phase == corev1.PodPending {
		s.cluster.Delete("pods", pod.Name)
		return
	}
	const never = 24 * time.Hour
	s.cluster.Signal(pod.Name, never)
}

// expire deletes a Workflow that is over past its time to live.
// https://argo-workflows.readthedocs.io/en/latest/fields/#ttlstrategy
func (s *Server) expire(w *workflow) time.Duration {
	t := w.Spec.TTLStrategy
	if t == nil || t.SecondsAfterCompletion == nil {
		return 0
	}
	unit := s.tuned().Unit
	if unit <= 0 {
		unit = time.Second
	}
	left := time.Until(w.Status.FinishedAt.Add(time.Duration(*t.SecondsAfterCompletion) * unit))
	if left > 0 {
		return left
	}
	s.cluster.Delete(plural, w.Name)
	return 0
}

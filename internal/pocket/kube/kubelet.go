package kube

import (
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/pocket/run"
)

// podLife is what the kubelet knows of a pod.
type podLife struct {
	name string
	// pokes has a value when something changed.
	pokes chan struct{}
	// deleted and evicted are asked for; expired is past its deadline.
	deleted, evicted, expired bool
	// unpulled is what the registry says of an image that isn't to be had. A kubelet
	// would ask again for ever; this one waits as long, and asks once.
	unpulled  string
	began     time.Time
	container run.Container
}

func (l *podLife) poke() {
	select {
	case l.pokes <- struct{}{}:
	default: // it will look anyway
	}
}

// keep takes a pod on.
func (s *Server) keep(pod *corev1.Pod) {
	l := &podLife{name: pod.Name, pokes: make(chan struct{}, 1)}
	s.pods[pod.Name], s.logs[pod.Name] = l, &podLog{}
	spec := pod.Spec
	s.all.Go(func() { s.live(l, spec) })
}

// deletePod asks for a pod's end. One that never ran, or is over, goes at once.
func (s *Server) deletePod(pod *corev1.Pod) {
	l := s.pods[pod.Name]
	if l == nil || l.container == nil || over(pod) && pod.Status.ContainerStatuses[0].State.Running == nil {
		s.forget(pod.Name)
		if l != nil {
			l.deleted = true
			l.poke()
		}
		return
	}
	if l.deleted {
		return
	}
	l.deleted = true
	s.changePod(pod.Name, func(pod *corev1.Pod) { t := now(); pod.DeletionTimestamp = &t })
	l.poke()
}

// forget removes a pod with its log.
func (s *Server) forget(name string) {
	if o, ok := s.get("pods", name); ok {
		pod := o.(*corev1.Pod).DeepCopy()
		s.drop("pods", pod)
		delete(s.pods, name)
		delete(s.logs, name)
		s.parent(pod)
	}
}

// live leads a pod through its life.
func (s *Server) live(l *podLife, spec corev1.PodSpec) {
	if !s.bind(l) {
		return
	}
	env, ok := s.environment(l, &spec)
	if !ok {
		return
	}
	c := spec.Containers[0]
	vars := map[string]string{}
	var list []string
	for _, e := range env {
		vars[e.Name] = expand(e.Value, vars)
		list = append(list, e.Name+"="+vars[e.Name])
	}
	rs := run.Spec{Name: l.name, Image: c.Image, Entrypoint: expandAll(c.Command, vars), Command: expandAll(c.Args, vars), Env: list, Dir: c.WorkingDir}
	if sc := c.SecurityContext; sc != nil && sc.RunAsUser != nil {
		rs.User = decimal(*sc.RunAsUser)
		if sc.RunAsGroup != nil {
			rs.User += ":" + decimal(*sc.RunAsGroup)
		}
	}
	if q := c.Resources.Limits.Memory(); !q.IsZero() {
		rs.MemoryMiB = max(q.Value()>>20, 1)
	}
	log := s.logOf(l.name)
	out, errs := &lineWriter{s: s, log: log}, &lineWriter{s: s, log: log, errs: true}
	rs.Stdout, rs.Stderr = out, errs
	running, err := s.exec.Start(s.ctx, rs)
	var se *run.StartError
	if errors.As(err, &se) && se.Phase == run.Pull {
		s.mu.Lock()
		l.unpulled = se.Text
		s.mu.Unlock()
		s.environment(l, &spec) // until its end
		return
	}
	if err != nil {
		s.unstarted(l, err)
		return
	}
	s.mu.Lock()
	l.container = running
	s.mu.Unlock()
	s.update(l, func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: c.Name, Image: c.Image, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: s.nodeTime()}}}}
	})
	grace := 30 * time.Second
	if g := spec.TerminationGracePeriodSeconds; g != nil {
		grace = time.Duration(*g) * time.Second
	}
	for stopped := false; ; {
		if s.due(l) && !stopped {
			stopped = true
			s.fail(l)
			running.Stop(grace)
		}
		select {
		case <-running.Done():
			out.end()
			errs.end()
			s.ended(l, running.Exit())
			return
		case <-l.pokes:
		case <-s.untilDeadline(l):
		}
	}
}

// fail calls a pod failed that has passed its deadline, while its container still has
// its grace, where the knob says so.
func (s *Server) fail(l *podLife) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.expired && s.knobs.FailsEarly {
		s.changePod(l.name, expire)
	}
}

func expire(pod *corev1.Pod) {
	pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "PodFailed", LastTransitionTime: now()})
}

// update changes a pod. It reports whether it is there.
func (s *Server) update(l *podLife, f func(pod *corev1.Pod)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changePod(l.name, f)
}

// bind waits for a node, and takes the pod there.
func (s *Server) bind(l *podLife) bool {
	for said := ""; ; {
		s.mu.Lock()
		delay, why, gone := s.knobs.StartDelay, s.knobs.Unschedulable, l.deleted
		s.mu.Unlock()
		if gone {
			return false
		}
		if why != "" {
			if why != said {
				said = why
				s.update(l, func(pod *corev1.Pod) {
					pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: why, LastTransitionTime: now()}}
				})
			}
			select {
			case <-l.pokes:
			case <-s.ctx.Done():
				return false
			}
			continue
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-l.pokes:
			timer.Stop()
			continue
		case <-s.ctx.Done():
			timer.Stop()
			return false
		}
		return s.update(l, func(pod *corev1.Pod) {
			begin := now()
			l.began = time.Now()
			pod.Spec.NodeName, pod.Status.StartTime = "node-1", &begin
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: begin}}
			waits(pod, "ContainerCreating", "")
		})
	}
}

func waits(pod *corev1.Pod, reason, message string) {
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
}

// retry is how long the kubelet waits before it tries again.
const retry = 20 * time.Millisecond

// environment waits for image and Secrets.
func (s *Server) environment(l *podLife, spec *corev1.PodSpec) ([]corev1.EnvVar, bool) {
	said := ""
	for {
		s.mu.Lock()
		reason, message := s.knobs.NoImage, "failed to pull and unpack image: not found"
		if l.unpulled != "" {
			reason, message = "ErrImagePull", l.unpulled
		}
		var env []corev1.EnvVar
		if reason == "" {
			env, message = s.values(spec.Containers[0].Env)
			if message != "" {
				reason = "CreateContainerConfigError"
			}
		}
		gone := l.deleted
		s.mu.Unlock()
		switch {
		case gone:
			return nil, false
		case s.due(l):
			s.ended(l, run.Exit{Code: -1})
			return nil, false
		case reason == "":
			return env, true
		case said != reason+message:
			said = reason + message
			s.update(l, func(pod *corev1.Pod) { waits(pod, reason, message) })
		}
		timer := time.NewTimer(retry)
		select {
		case <-timer.C:
		case <-l.pokes:
			timer.Stop()
		case <-s.ctx.Done():
			timer.Stop()
			return nil, false
		}
	}
}

// values reads the Secrets that variables name.
func (s *Server) values(env []corev1.EnvVar) ([]corev1.EnvVar, string) {
	out := slices.Clone(env)
	for i, e := range out {
		if e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil {
			continue
		}
		ref := e.ValueFrom.SecretKeyRef
		o, ok := s.get("secrets", ref.Name)
		if !ok {
			return nil, `secret "` + ref.Name + `" not found`
		}
		v, ok := o.(*corev1.Secret).Data[ref.Key]
		if !ok {
			return nil, "couldn't find key " + ref.Key + " in Secret " + Namespace + "/" + ref.Name
		}
		// A value from a Secret isn't expanded.
		out[i].Value = strings.ReplaceAll(string(v), "$", "$$")
	}
	return out, ""
}

// due reports whether a pod must end, and notes why.
func (s *Server) due(l *podLife) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.deadline(l); ok && !time.Now().Before(at) && !l.evicted && !l.deleted {
		l.expired = true
	}
	return l.expired || l.evicted || l.deleted || s.ctx.Err() != nil
}

func (s *Server) deadline(l *podLife) (time.Time, bool) {
	o, ok := s.get("pods", l.name)
	if !ok || l.began.IsZero() {
		return time.Time{}, false
	}
	d := o.(*corev1.Pod).Spec.ActiveDeadlineSeconds
	if d == nil {
		return time.Time{}, false
	}
	unit := s.knobs.Unit
	if unit <= 0 {
		unit = time.Second
	}
	return l.began.Add(time.Duration(*d) * unit), true
}

// untilDeadline fires at a pod's deadline, or never.
func (s *Server) untilDeadline(l *podLife) <-chan time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.deadline(l)
	if !ok || l.expired {
		return nil
	}
	return time.After(time.Until(at))
}

// unstarted ends a pod whose container can't be started.
func (s *Server) unstarted(l *podLife, err error) {
	var se *run.StartError
	text := err.Error()
	if errors.As(err, &se) {
		text = se.Text
	}
	s.update(l, func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodFailed
		pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError",
			Message: "failed to create containerd task: " + text, StartedAt: metav1.Unix(0, 0), FinishedAt: s.nodeTime()}}
	})
}

// ended writes a pod's end: that of its container first.
func (s *Server) ended(l *podLife, exit run.Exit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if exit.Code >= 0 {
		s.changePod(l.name, func(pod *corev1.Pod) {
			began := pod.Status.StartTime
			if r := pod.Status.ContainerStatuses[0].State.Running; r != nil {
				began = &r.StartedAt
			}
			t := &corev1.ContainerStateTerminated{ExitCode: int32(exit.Code), Reason: "Completed", StartedAt: *began, FinishedAt: s.nodeTime()} //nolint:gosec // it is at most 255
			if exit.Code != 0 {
				t.Reason = "Error"
			}
			if exit.OOM || s.knobs.OOMImage != "" && s.knobs.OOMImage == pod.Spec.Containers[0].Image {
				t.Reason = "OOMKilled"
			}
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: t}
			pod.Status.ContainerStatuses[0].Ready = false
		})
	}
	s.changePod(l.name, func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodFailed
		switch {
		case l.evicted:
			pod.Status.Reason, pod.Status.Message = "Evicted", "The node was low on resource: memory."
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet,
				Message: "The node was low on resource: memory.", LastTransitionTime: now()})
		case l.expired:
			expire(pod)
		case exit.Code == 0:
			pod.Status.Phase = corev1.PodSucceeded
		}
	})
	s.wake()
	if l.deleted {
		s.forget(l.name)
	}
}

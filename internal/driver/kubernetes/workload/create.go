package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/sdk"
)

// Options is what may stand in a DeploymentSpec's options: the placement of its pods.
func Options() sdk.Schema {
	return sdk.Schema{Doc: "Where the pods of a workload run.", Fields: podspec.PlacementFields()}
}

// create makes the workload of a spec, under the kind that its path names. It is
// declared as a whole, and nothing of somebody else's is taken.
func (w *Workloads) create(ctx context.Context, req sdk.OpRequest, s sdk.DeploymentSpec) (sdk.OpResult, error) {
	r, err := w.parse(opStart, req.Path)
	if err != nil {
		return sdk.OpResult{}, err
	}
	m := &maker{ref: r, spec: s, problems: append(sdk.ValidateDeployment(s), names(s.Config, s.Secrets)...)}
	pod := m.pod(w.c.Placement)
	if err := w.failed(opStart, m.problems); err != nil {
		return sdk.OpResult{}, err
	}
	fresh, err := w.resolve(ctx, opStart, s.Config, s.Secrets)
	if err != nil {
		return sdk.OpResult{}, err
	}
	if err := w.ended(ctx, opStart); err != nil {
		return sdk.OpResult{}, err
	}
	id := req.OpID.String()
	there, err := w.read(ctx, opStart, r)
	switch {
	case err == nil && there.meta.Annotations[annotationOp] == id && !req.DryRun:
		return sdk.OpResult{Changed: true, Generation: there.generation(), Rollout: there.rolloutOf(id), Trace: traceOf(r)}, nil
	case err == nil:
		return sdk.OpResult{}, w.exists(r)
	case sdk.CodeOf(err) != sdk.NotFound:
		return sdk.OpResult{}, err
	}
	if err := req.Expect.Check(opStart, sdk.DeploymentStatus{Path: req.Path}); err != nil {
		return sdk.OpResult{}, err
	}
	p := &parts{ref: r, name: partName(r, id), config: fresh.config, secret: fresh.secret}
	pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, fresh.env(p.name)...)
	pod.Annotations[annotationRollout] = id
	if len(s.Config)+len(s.Secrets) > 0 {
		pod.Annotations[annotationConfig] = id
	}
	if req.DryRun {
		return sdk.OpResult{Changed: true, Calls: append(p.calls(), applied(r, map[string]string{"image": s.Image, "replicas": fmt.Sprint(m.replicas())}))}, nil
	}
	if err := w.prepare(ctx, opStart, p); err != nil {
		return sdk.OpResult{}, err
	}
	return w.declare(ctx, r, id, m.object(pod, map[string]string{annotationOp: id}), p)
}

func (w *Workloads) exists(r ref) error {
	e := w.fail(sdk.AlreadyExists, opStart, "the %s is there already", r.object())
	e.Remedy = "`windlass svc start` without a file starts one that was stopped; svc config, scale and restart change one that runs"
	return e
}

// declare makes the workload, and gives it its parts.
func (w *Workloads) declare(ctx context.Context, r ref, id string, object any, p *parts) (sdk.OpResult, error) {
	var raw json.RawMessage
	var created bool
	err := w.c.Spend(ctx, opStart, func() (err error) {
		created, err = w.c.Session.Apply(ctx, opStart, r.place(), manager, false, object, &raw)
		return err
	})
	if sdk.CodeOf(err) == sdk.Aborted {
		err = w.exists(r) // somebody made it since the look
	}
	if err != nil {
		return sdk.OpResult{}, w.undo(ctx, opStart, p, err)
	}
	o, err := decode(r.kind, raw)
	if err != nil {
		return sdk.OpResult{}, sdk.Unclear(w.fail(sdk.Internal, opStart, "read the answer: %w", err))
	}
	res := sdk.OpResult{Changed: true, Generation: o.generation(), Rollout: o.rolloutOf(id), Trace: traceOf(r)}
	if !created {
		res.Warnings = append(res.Warnings, "somebody made the "+r.object()+" at the same moment, and it has what either declared: look at it with kubectl")
	}
	p.owner = ownedBy(o)
	if err := w.prepare(ctx, opStart, p); err != nil {
		res.Warnings = append(res.Warnings, "its settings "+p.name+" don't belong to it, and stay when it is deleted: "+err.Error())
	}
	return res, nil
}

// maker makes the objects of a spec.
type maker struct {
	ref      ref
	spec     sdk.DeploymentSpec
	problems []sdk.Problem
}

func (m *maker) bad(code sdk.Code, field, value, format string, args ...any) {
	m.problems = append(m.problems, sdk.Problem{Field: field, Value: value, Message: fmt.Sprintf(format, args...), Code: code})
}

func (m *maker) replicas() int32 {
	if n := m.spec.Replicas; n != nil {
		return int32(*n) //nolint:gosec // ValidateDeployment bounds it
	}
	return 1
}

// pod is the template, with what can't be done noted as problems.
func (m *maker) pod(place podspec.Placement) corev1.PodTemplateSpec {
	s := m.spec
	if s.Name != m.ref.name {
		m.bad(sdk.InvalidArgument, "name", s.Name, "isn't that of the target %s", m.ref.path())
	}
	if m.ref.kind == daemonSet && s.Replicas != nil {
		m.bad(sdk.Unimplemented, "replicas", fmt.Sprint(*s.Replicas), "a DaemonSet has a pod on each node that fits, and no count")
	}
	place = m.placement(place)
	c := corev1.Container{Name: podspec.Main, Image: s.Image, ImagePullPolicy: corev1.PullPolicy(place.ImagePullPolicy)}
	for i, word := range s.Command {
		m.text(fmt.Sprintf("command[%d]", i), word)
		c.Command = append(c.Command, kube.Escape(word))
	}
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		m.text("env."+k, s.Env[k])
		c.Env = append(c.Env, corev1.EnvVar{Name: k, Value: kube.Escape(s.Env[k])})
	}
	for _, p := range s.Ports {
		proto := corev1.ProtocolTCP
		if p.Protocol == sdk.ProtocolUDP {
			proto = corev1.ProtocolUDP
		}
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: p.Name, ContainerPort: int32(p.Port), Protocol: proto}) //nolint:gosec // ValidateDeployment bounds it
	}
	limits := corev1.ResourceList{}
	if n := s.Resources.CPU; n > 0 {
		limits[corev1.ResourceCPU] = *resource.NewMilliQuantity(n, resource.DecimalSI)
	}
	if n := s.Resources.Memory; n > 0 {
		limits[corev1.ResourceMemory] = *resource.NewQuantity(n, resource.BinarySI)
	}
	if len(limits) > 0 {
		c.Resources = corev1.ResourceRequirements{Limits: limits, Requests: limits.DeepCopy()}
	}
	if s.Health != nil {
		c.ReadinessProbe = m.probe(*s.Health)
	}
	token := place.ServiceAccount != ""
	spec := corev1.PodSpec{AutomountServiceAccountToken: &token}
	place.Fill(&spec)
	spec.Containers = []corev1.Container{c}
	if patched, err := podspec.Patched(spec, place.Pod); err == nil { // else placement has said so
		spec = patched
	}
	notes := maps.Clone(place.Annotations)
	if notes == nil {
		notes = map[string]string{}
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: m.labels(), Annotations: notes}, Spec: spec}
}

func (m *maker) text(field, s string) {
	if !utf8.ValidString(s) {
		m.bad(sdk.Unimplemented, field, "", "is not UTF-8, and Kubernetes takes text alone")
	}
}

// placement reads the options over what the config gives.
func (m *maker) placement(place podspec.Placement) podspec.Placement {
	var own podspec.Placement
	if ps := Options().Validate("options", m.spec.Options); len(ps) > 0 {
		m.problems = append(m.problems, ps...)
		return place
	}
	if len(m.spec.Options) > 0 {
		if err := json.Unmarshal(m.spec.Options, &own); err != nil {
			m.bad(sdk.InvalidArgument, "options", "", "%v", err)
			return place
		}
	}
	place = place.With(own)
	for _, p := range place.Problems() {
		p.Field = "options." + p.Field
		m.problems = append(m.problems, p)
	}
	return place
}

// probe is the check of readiness. Failures of a pod that was never ready count for
// nothing there, so that a start period is kept by itself.
// https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/
func (m *maker) probe(h sdk.HealthCheck) *corev1.Probe {
	seconds := func(field string, d time.Duration) int32 {
		if d%time.Second != 0 || d > time.Hour {
			m.bad(sdk.Unimplemented, "health."+field, d.String(), "Kubernetes takes whole seconds, and an hour at most is allowed here")
		}
		return int32(min(d, time.Hour) / time.Second) //nolint:gosec // an hour at most
	}
	p := &corev1.Probe{PeriodSeconds: seconds("interval", h.Interval), TimeoutSeconds: seconds("timeout", h.Timeout), FailureThreshold: int32(min(h.Failures, 1<<20))} //nolint:gosec // bounded here
	switch {
	case h.Command != nil:
		var argv []string
		for _, word := range h.Command {
			argv = append(argv, word) // a probe's words aren't expanded
		}
		p.Exec = &corev1.ExecAction{Command: argv}
	case h.HTTPPath != "":
		p.HTTPGet = &corev1.HTTPGetAction{Path: h.HTTPPath, Port: intstr.FromInt32(int32(h.Port))} //nolint:gosec // ValidateDeployment bounds it
	default:
		p.TCPSocket = &corev1.TCPSocketAction{Port: intstr.FromInt32(int32(h.Port))} //nolint:gosec // ValidateDeployment bounds it
	}
	return p
}

func (m *maker) labels() map[string]string {
	return map[string]string{labelWorkload: labelOf(m.ref), "app.kubernetes.io/name": kube.LabelValue(m.ref.name), "app.kubernetes.io/managed-by": manager}
}

// object is the workload, without the members that an apply may not have.
func (m *maker) object(pod corev1.PodTemplateSpec, annotations map[string]string) any {
	meta := metav1.ObjectMeta{Name: m.ref.name, Namespace: m.ref.namespace, Labels: m.labels(), Annotations: annotations}
	typed := metav1.TypeMeta{APIVersion: "apps/v1", Kind: m.ref.kind.word()}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{labelWorkload: labelOf(m.ref)}}
	n := m.replicas()
	switch m.ref.kind {
	case statefulSet:
		return unset(appsv1.StatefulSet{TypeMeta: typed, ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &n, Selector: selector, Template: pod, ServiceName: m.ref.name}})
	case daemonSet:
		return unset(appsv1.DaemonSet{TypeMeta: typed, ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: pod}})
	case deployment:
	}
	return unset(appsv1.Deployment{TypeMeta: typed, ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &n, Selector: selector, Template: pod}})
}

// unset makes an object of the API's own types a declaration: their members that have
// no value would be declared as empty.
func unset(object any) map[string]any {
	data, err := json.Marshal(object)
	if err != nil {
		panic("workload: " + err.Error()) // it is of the API's own types
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		panic("workload: " + err.Error()) // it was encoded just now
	}
	delete(out, "status")
	dropEmpty(out)
	return out
}

// dropEmpty drops null and empty members, such as creationTimestamp and resources.
func dropEmpty(m map[string]any) {
	for k, v := range m {
		switch v := v.(type) {
		case nil:
			delete(m, k)
		case map[string]any:
			dropEmpty(v)
			if len(v) == 0 && k != "emptyDir" {
				delete(m, k)
			}
		case []any:
			for _, item := range v {
				if sub, ok := item.(map[string]any); ok {
					dropEmpty(sub)
				}
			}
		}
	}
}

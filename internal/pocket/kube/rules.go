package kube

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

func invalid(format string, args ...any) error {
	return refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, format, args...)
}

// check refuses what the API's validation refuses, as far as drivers go near it.
// https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/apis/batch/validation/validation.go
// https://github.com/kubernetes/kubernetes/blob/v1.34.4/pkg/apis/core/validation/validation.go
func check(o object) error {
	if msgs := validation.IsDNS1123Subdomain(o.GetName()); len(msgs) > 0 {
		return invalid("metadata.name: Invalid value: %q: %s", o.GetName(), strings.Join(msgs, "; "))
	}
	if o.GetNamespace() != "" && o.GetNamespace() != Namespace {
		return refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "the namespace of the provided object does not match the namespace sent on the request")
	}
	if err := checkMeta("metadata", o.GetLabels(), o.GetAnnotations()); err != nil {
		return err
	}
	switch o := o.(type) {
	case *batchv1.Job:
		return checkJob(o)
	case *corev1.Pod:
		return checkPod(&o.Spec)
	case *corev1.Secret:
		total := 0
		for k, v := range o.Data {
			if msgs := validation.IsConfigMapKey(k); len(msgs) > 0 {
				return invalid("data[%s]: Invalid value: %s", k, strings.Join(msgs, "; "))
			}
			total += len(v)
		}
		if total > corev1.MaxSecretSize {
			return invalid("data: Too long: may not be more than %d bytes", corev1.MaxSecretSize)
		}
	}
	return nil
}

func checkMeta(at string, labels, annotations map[string]string) error {
	for k, v := range labels {
		if msgs := append(validation.IsQualifiedName(k), validation.IsValidLabelValue(v)...); len(msgs) > 0 {
			return invalid("%s.labels: Invalid value: %q: %s", at, k+"="+v, strings.Join(msgs, "; "))
		}
	}
	for k := range annotations {
		if msgs := validation.IsQualifiedName(strings.ToLower(k)); len(msgs) > 0 {
			return invalid("%s.annotations: Invalid value: %q: %s", at, k, strings.Join(msgs, "; "))
		}
	}
	return nil
}

func checkJob(j *batchv1.Job) error {
	t := j.Spec.Template
	if msgs := validation.IsDNS1123Label(j.Name); len(msgs) > 0 {
		return invalid("metadata.name: Invalid value: %q: a Job's name is its pods' label: %s", j.Name, strings.Join(msgs, "; "))
	}
	if err := checkMeta("spec.template.metadata", t.Labels, t.Annotations); err != nil {
		return err
	}
	switch t.Spec.RestartPolicy {
	case corev1.RestartPolicyNever:
	case corev1.RestartPolicyOnFailure:
		if j.Spec.PodFailurePolicy != nil {
			return invalid("spec.template.spec.restartPolicy: Invalid value: \"OnFailure\": only \"Never\" is supported when podFailurePolicy is specified")
		}
	default:
		return invalid("spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"")
	}
	if p := j.Spec.PodFailurePolicy; p != nil {
		if r := j.Spec.PodReplacementPolicy; r != nil && *r != batchv1.Failed {
			return invalid("spec.podReplacementPolicy: Unsupported value: %q: supported values: \"Failed\"", *r)
		}
		for _, rule := range p.Rules {
			if c := rule.OnExitCodes; c != nil && c.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn && slices.Contains(c.Values, 0) {
				return invalid("spec.podFailurePolicy.rules.onExitCodes.values: Invalid value: 0: must not be 0 for the In operator")
			}
		}
	}
	return checkPod(&t.Spec)
}

func checkPod(p *corev1.PodSpec) error {
	if len(p.Containers) == 0 {
		return invalid("spec.containers: Required value")
	}
	if d := p.ActiveDeadlineSeconds; d != nil && *d < 1 {
		return invalid("spec.activeDeadlineSeconds: Invalid value: %d: must be between 1 and 2147483647, inclusive", *d)
	}
	if g := p.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		return invalid("spec.terminationGracePeriodSeconds: Invalid value: %d: must be greater than or equal to 0", *g)
	}
	volumes := map[string]bool{}
	for _, v := range p.Volumes {
		if msgs := validation.IsDNS1123Label(v.Name); len(msgs) > 0 || volumes[v.Name] {
			return invalid("spec.volumes.name: Invalid value: %q: %s", v.Name, strings.Join(msgs, "; "))
		}
		volumes[v.Name] = true
	}
	for _, c := range slices.Concat(p.InitContainers, p.Containers) {
		if msgs := validation.IsDNS1123Label(c.Name); len(msgs) > 0 {
			return invalid("spec.containers.name: Invalid value: %q: %s", c.Name, strings.Join(msgs, "; "))
		}
		if strings.TrimSpace(c.Image) == "" {
			return invalid("spec.containers.image: Required value")
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] || m.MountPath == "" {
				return invalid("spec.containers.volumeMounts.name: Not found: %q", m.Name)
			}
		}
		for _, e := range c.Env {
			if msgs := validation.IsRelaxedEnvVarName(e.Name); len(msgs) > 0 {
				return invalid("spec.containers.env.name: Invalid value: %q: %s", e.Name, strings.Join(msgs, "; "))
			}
		}
		for name, limit := range c.Resources.Limits {
			if q, ok := c.Resources.Requests[name]; ok && q.Cmp(limit) > 0 {
				return invalid("spec.containers.resources.requests: Invalid value: must be less than or equal to %s limit", name)
			}
		}
	}
	return nil
}

// patch merges as RFC 7386 has it, and refuses what may not change.
func (s *Server) patch(c call, o object) (any, error) {
	if c.request.Header.Get("Content-Type") != "application/merge-patch+json" {
		return nil, refuse(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "the body of the request was in an unknown format")
	}
	raw, _ := encode(c.res, o)
	var is, change any
	if err := json.Unmarshal(raw, &is); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(c.body, &change); err != nil {
		return nil, refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "%s", err)
	}
	merged, err := json.Marshal(merge(is, change))
	if err != nil {
		return nil, err
	}
	next := c.res.empty()
	if err := strict(merged, next); err != nil {
		return nil, err
	}
	if next.GetUID() != o.GetUID() {
		return nil, refuse(http.StatusConflict, metav1.StatusReasonConflict, "Precondition failed: UID in precondition: %s, UID in object meta: %s", next.GetUID(), o.GetUID())
	}
	if err := mayBecome(o, next); err != nil {
		return nil, err
	}
	if err := check(next); err != nil {
		return nil, err
	}
	if c.res.check != nil {
		if err := c.res.check(next); err != nil {
			return nil, err
		}
	}
	s.put(c.resource, next, "MODIFIED")
	switch next := next.(type) {
	case *corev1.Pod:
		if l := s.pods[next.Name]; l != nil {
			l.poke()
		}
	case *batchv1.Job:
		s.reconcile(next)
	}
	return c.shown(next), nil
}

// mayBecome refuses changes of what can't be changed.
// https://kubernetes.io/docs/concepts/workloads/pods/#pod-update-and-replacement
func mayBecome(o, next object) error {
	switch o := o.(type) {
	case *corev1.Pod:
		was, is := o.Spec.DeepCopy(), next.(*corev1.Pod).Spec.DeepCopy()
		from, to := was.ActiveDeadlineSeconds, is.ActiveDeadlineSeconds
		if from != nil && (to == nil || *to > *from) {
			return invalid("spec.activeDeadlineSeconds: Invalid value: must be less than or equal to previous value")
		}
		was.ActiveDeadlineSeconds, is.ActiveDeadlineSeconds = nil, nil
		if !reflect.DeepEqual(was, is) {
			return refuse(http.StatusForbidden, metav1.StatusReasonInvalid, "pod updates may not change fields other than `spec.activeDeadlineSeconds`")
		}
	case *batchv1.Job:
		if !reflect.DeepEqual(o.Spec.Template, next.(*batchv1.Job).Spec.Template) {
			return invalid("spec.template: Invalid value: field is immutable")
		}
	case *corev1.Secret:
		if o.Immutable != nil && *o.Immutable && !maps.EqualFunc(o.Data, next.(*corev1.Secret).Data, func(a, b []byte) bool { return string(a) == string(b) }) {
			return invalid("data: Forbidden: field is immutable when `immutable` is set")
		}
	}
	return nil
}

func merge(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	for k, v := range p {
		if v == nil {
			delete(t, k)
		} else {
			t[k] = merge(t[k], v)
		}
	}
	return t
}

// ownerOf is the UID of an object's controller.
func ownerOf(o object) types.UID {
	for _, r := range o.GetOwnerReferences() {
		if r.Controller != nil && *r.Controller {
			return r.UID
		}
	}
	return ""
}

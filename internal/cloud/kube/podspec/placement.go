package podspec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

// defaultGPU is the resource of NVIDIA's device plugin.
// https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/
const defaultGPU = "nvidia.com/gpu"

// Placement is what the config gives for all jobs, and the options for one.
type Placement struct {
	ServiceAccount   string            `json:"service_account"`
	NodeSelector     map[string]string `json:"node_selector"`
	Tolerations      []json.RawMessage `json:"tolerations"`
	Affinity         json.RawMessage   `json:"affinity"`
	RuntimeClass     string            `json:"runtime_class"`
	PriorityClass    string            `json:"priority_class"`
	ImagePullSecrets []string          `json:"image_pull_secrets"`
	ImagePullPolicy  string            `json:"image_pull_policy"`
	GPUResource      string            `json:"gpu_resource"`
	Annotations      map[string]string `json:"annotations"`
	Pod              json.RawMessage   `json:"pod"`
}

// Things are the objects that it names, without which a pod isn't made or finds no
// image.
func (p Placement) Things(namespace string) []kube.Thing {
	var out []kube.Thing
	add := func(field string, at kube.Place) {
		if at.Name != "" {
			out = append(out, kube.Thing{At: at, Field: field})
		}
	}
	add("service_account", kube.Accounts(namespace, p.ServiceAccount))
	add("runtime_class", kube.RuntimeClasses(p.RuntimeClass))
	add("priority_class", kube.PriorityClasses(p.PriorityClass))
	for _, name := range p.ImagePullSecrets {
		add("image_pull_secrets", kube.Secrets(namespace, name))
	}
	return out
}

// Problems returns what is wrong with a placement, by field.
func (p Placement) Problems() []sdk.Problem {
	var out []sdk.Problem
	bad := func(field, value, message string) {
		out = append(out, sdk.Problem{Field: field, Value: value, Message: message, Code: sdk.InvalidArgument})
	}
	for field, name := range map[string]string{"service_account": p.ServiceAccount, "runtime_class": p.RuntimeClass, "priority_class": p.PriorityClass} {
		if name != "" {
			if msg := kube.CheckName(name); msg != "" {
				bad(field, name, msg)
			}
		}
	}
	for i, name := range p.ImagePullSecrets {
		if msg := kube.CheckName(name); msg != "" {
			bad(fmt.Sprintf("image_pull_secrets[%d]", i), name, msg)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(p.NodeSelector)) {
		if msg := kube.CheckLabel(k, p.NodeSelector[k]); msg != "" {
			bad("node_selector."+k, p.NodeSelector[k], msg)
		}
	}
	var pod corev1.PodSpec
	if err := p.fill(&pod); err != nil {
		bad(err.field, "", err.text)
	}
	if len(p.Pod) > 0 {
		if err := CheckPatch(p.Pod); err != nil {
			bad("pod", "", err.Error())
		}
	}
	slices.SortFunc(out, func(a, b sdk.Problem) int { return cmp.Compare(a.Field, b.Field) })
	return out
}

// fieldError is what is wrong with a field of the placement.
type fieldError struct{ field, text string }

// Fill puts into a pod what Kubernetes' own types describe. What isn't of those
// types is left out: Problems has said so.
func (p Placement) Fill(pod *corev1.PodSpec) { _ = p.fill(pod) }

func (p Placement) fill(pod *corev1.PodSpec) *fieldError {
	pod.ServiceAccountName, pod.NodeSelector, pod.PriorityClassName = p.ServiceAccount, p.NodeSelector, p.PriorityClass
	if p.RuntimeClass != "" {
		pod.RuntimeClassName = &p.RuntimeClass
	}
	for _, name := range p.ImagePullSecrets {
		pod.ImagePullSecrets = append(pod.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	for i, raw := range p.Tolerations {
		var t corev1.Toleration
		if err := Strictly(raw, &t); err != nil {
			return &fieldError{fmt.Sprintf("tolerations[%d]", i), "is no toleration: " + err.Error()}
		}
		pod.Tolerations = append(pod.Tolerations, t)
	}
	if len(p.Affinity) > 0 {
		var a corev1.Affinity
		if err := Strictly(p.Affinity, &a); err != nil {
			return &fieldError{"affinity", "is no affinity: " + err.Error()}
		}
		pod.Affinity = &a
	}
	return nil
}

// With returns the placement of a job that sets o.
func (p Placement) With(o Placement) Placement {
	p.ServiceAccount = cmp.Or(o.ServiceAccount, p.ServiceAccount)
	p.RuntimeClass = cmp.Or(o.RuntimeClass, p.RuntimeClass)
	p.PriorityClass = cmp.Or(o.PriorityClass, p.PriorityClass)
	p.ImagePullPolicy = cmp.Or(o.ImagePullPolicy, p.ImagePullPolicy)
	p.GPUResource = cmp.Or(o.GPUResource, p.GPUResource, defaultGPU)
	if o.NodeSelector != nil {
		p.NodeSelector = o.NodeSelector
	}
	if o.Tolerations != nil {
		p.Tolerations = o.Tolerations
	}
	if o.Affinity != nil {
		p.Affinity = o.Affinity
	}
	if o.ImagePullSecrets != nil {
		p.ImagePullSecrets = o.ImagePullSecrets
	}
	if o.Pod != nil {
		p.Pod = o.Pod
	}
	annotations := map[string]string{}
	maps.Copy(annotations, p.Annotations)
	maps.Copy(annotations, o.Annotations)
	p.Annotations = annotations
	return p
}

// PlacementFields are the members that the config and the options share.
func PlacementFields() []sdk.SchemaField {
	text := &sdk.SchemaField{Type: sdk.TypeString}
	return []sdk.SchemaField{
		{Name: "service_account", Type: sdk.TypeString, Default: "the namespace's default, without a token", Doc: "The service account of the pod, whose token it then gets."},
		{Name: "node_selector", Type: sdk.TypeMap, Doc: "Labels that the node must have."},
		{Name: "tolerations", Type: sdk.TypeList, Elem: &sdk.SchemaField{Type: sdk.TypeAny}, Doc: "Tolerations, as in a pod's spec."},
		{Name: "affinity", Type: sdk.TypeAny, Doc: "The affinity, as in a pod's spec."},
		{Name: "runtime_class", Type: sdk.TypeString, Doc: "The RuntimeClass, such as one of gVisor or Kata."},
		{Name: "priority_class", Type: sdk.TypeString, Doc: "The PriorityClass."},
		{Name: "image_pull_secrets", Type: sdk.TypeList, Elem: text, Doc: "Secrets of the namespace with registries' credentials."},
		{Name: "image_pull_policy", Type: sdk.TypeString, Default: "Kubernetes' own: Always for :latest, else IfNotPresent",
			Enum: []string{string(corev1.PullAlways), string(corev1.PullIfNotPresent), string(corev1.PullNever)}, Doc: "When the image is pulled."},
		{Name: "gpu_resource", Type: sdk.TypeString, Default: defaultGPU, Doc: "The resource that a GPU is."},
		{Name: "annotations", Type: sdk.TypeMap, Doc: "Further annotations of the pod."},
		{Name: "pod", Type: sdk.TypeAny, Doc: "A JSON merge patch of the pod's spec, such as volumes, initContainers and hostAliases; not of containers, nor of what Windlass decides."},
	}
}

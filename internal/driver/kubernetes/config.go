package kubernetes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

// placement is what the config gives for all jobs, and the options for one.
type placement struct {
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

// config is what stands under `config:` of a provider.
type config struct {
	placement
	Context   string       `json:"context"`
	Namespace string       `json:"namespace"`
	Rate      int          `json:"rate"`
	LogStall  sdk.Duration `json:"log_stall"`
}

// options is what stands in JobSpec.Options.
type options struct {
	placement
}

const (
	defaultRate     = 50
	defaultLogStall = sdk.Duration(time.Minute)
	defaultGPU      = "nvidia.com/gpu"
)

func (c config) filled() config {
	c.Rate = cmp.Or(c.Rate, defaultRate)
	c.LogStall = cmp.Or(c.LogStall, defaultLogStall)
	return c
}

// check refuses what no job could run with.
func (c config) check(provider string) error {
	problems := c.problems()
	if c.Namespace != "" {
		if msg := kube.CheckName(c.Namespace); msg != "" {
			problems = append(problems, sdk.Problem{Field: "namespace", Value: c.Namespace, Message: msg})
		}
	}
	for _, p := range problems {
		return &sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Provider: provider, Field: "config." + p.Field, Err: fmt.Errorf("%q: %s", p.Value, p.Message)}
	}
	return nil
}

// problems returns what is wrong with a placement, by field.
func (p placement) problems() []sdk.Problem {
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
		if err := checkPatch(p.Pod); err != nil {
			bad("pod", "", err.Error())
		}
	}
	slices.SortFunc(out, func(a, b sdk.Problem) int { return cmp.Compare(a.Field, b.Field) })
	return out
}

// fieldError is what is wrong with a field of the placement.
type fieldError struct{ field, text string }

// fill puts into a pod what Kubernetes' own types describe.
func (p placement) fill(pod *corev1.PodSpec) *fieldError {
	pod.ServiceAccountName, pod.NodeSelector, pod.PriorityClassName = p.ServiceAccount, p.NodeSelector, p.PriorityClass
	if p.RuntimeClass != "" {
		pod.RuntimeClassName = &p.RuntimeClass
	}
	for _, name := range p.ImagePullSecrets {
		pod.ImagePullSecrets = append(pod.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	for i, raw := range p.Tolerations {
		var t corev1.Toleration
		if err := strictly(raw, &t); err != nil {
			return &fieldError{fmt.Sprintf("tolerations[%d]", i), "is no toleration: " + err.Error()}
		}
		pod.Tolerations = append(pod.Tolerations, t)
	}
	if len(p.Affinity) > 0 {
		var a corev1.Affinity
		if err := strictly(p.Affinity, &a); err != nil {
			return &fieldError{"affinity", "is no affinity: " + err.Error()}
		}
		pod.Affinity = &a
	}
	return nil
}

// with returns the placement of a job that sets o.
func (p placement) with(o placement) placement {
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

// placementFields are the members that the config and the options share.
func placementFields() []sdk.SchemaField {
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

func configSchema() sdk.Schema {
	own := []sdk.SchemaField{
		{Name: "context", Type: sdk.TypeString, Default: "the kubeconfig's current one", Doc: "The context of the kubeconfig."},
		{Name: "namespace", Type: sdk.TypeString, Default: "the context's; within a cluster, the pod's", Doc: "The namespace in which jobs run."},
		{Name: "rate", Type: sdk.TypeInt, Min: 1, Max: 100000, Default: fmt.Sprint(defaultRate), Doc: "The most calls a second of all providers of the cluster in one process; twice as many may come at once."},
		{Name: "log_stall", Type: sdk.TypeDuration, Default: time.Duration(defaultLogStall).String(), Doc: "A followed log that is silent for so long is opened again."},
	}
	return sdk.Schema{Doc: "Which cluster and namespace run the jobs, and where in it.", Fields: append(own, placementFields()...)}
}

func optionsSchema() sdk.Schema {
	return sdk.Schema{Doc: "What stands under config: too; a job's own values come first.", Fields: placementFields()}
}

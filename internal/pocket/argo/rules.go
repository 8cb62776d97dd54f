package argo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windlass-run/windlass/internal/pocket/kube"
)

// check refuses what the CRD's schema refuses.
// https://github.com/argoproj/argo-workflows/blob/v4.0.5/manifests/base/crds/full/argoproj.io_workflows.yaml
func check(o metav1.Object) error {
	w, ok := o.(*workflow)
	if !ok {
		return kube.Invalid("it is no Workflow")
	}
	for i, t := range w.Spec.Templates {
		if t.Container != nil && t.Container.Image == "" && t.Container.Name == "" {
			return kube.Invalid("spec.templates[%d].container.image: Required value", i)
		}
		if d := t.ActiveDeadlineSeconds; d != nil && d.Type == intstr.Int && d.IntVal < 1 {
			return kube.Invalid("spec.templates[%d].activeDeadlineSeconds: Invalid value: %d", i, d.IntVal)
		}
	}
	return nil
}

// validate refuses what Argo's own validation refuses: Argo Server before it makes a
// Workflow, the controller by ending it in error.
// https://github.com/argoproj/argo-workflows/blob/v4.0.5/workflow/validate/validate.go
func validate(w *workflow) error {
	if len(w.Name) > 63 {
		return fmt.Errorf("workflow name %q must not be more than 63 characters long (currently %d)", w.Name, len(w.Name))
	}
	names := map[string]bool{}
	for i, t := range w.Spec.Templates {
		if msgs := validation.IsDNS1123Label(strings.ToLower(t.Name)); len(msgs) > 0 {
			return fmt.Errorf("spec.templates[%d].name: '%s' is invalid: %s", i, t.Name, strings.Join(msgs, "; "))
		}
		if names[t.Name] {
			return fmt.Errorf("spec.templates[%d].name '%s' is not unique", i, t.Name)
		}
		names[t.Name] = true
		if t.Container == nil {
			return fmt.Errorf("templates.%s template type unspecified. choose one of: container, containerSet, steps, script, resource, dag, suspend, data, http, or plugin", t.Name)
		}
		if t.Container.Image == "" {
			return fmt.Errorf("templates.%s.container.image may not be empty", t.Name)
		}
	}
	switch {
	case w.Spec.Entrypoint == "":
		return errors.New("spec.entrypoint is required")
	case !names[w.Spec.Entrypoint]:
		return fmt.Errorf("spec.entrypoint '%s' undefined", w.Spec.Entrypoint)
	}
	if g := w.Spec.PodGC; g != nil {
		switch g.Strategy {
		case "", "OnPodCompletion", "OnPodSuccess", "OnWorkflowCompletion", "OnWorkflowSuccess":
		default:
			return fmt.Errorf("podGC.strategy unknown strategy '%s'", g.Strategy)
		}
	}
	// https://github.com/argoproj/argo-workflows/blob/v4.0.5/workflow/controller/workflowpod.go
	if a := w.Spec.AutomountServiceAccountToken; a != nil && !*a && (w.Spec.Executor == nil || w.Spec.Executor.ServiceAccountName == "") {
		return errors.New("executor.serviceAccountName must not be empty if automountServiceAccountToken is false")
	}
	_, err := substitute(w, w.Spec.Templates)
	return err
}

var tags = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{(.*?)\}\}`) })

// substitute replaces Argo's variables in any value, as JSON. A tag without an end is
// an error, one that begins with = an expression, and one that isn't known stays.
// https://argo-workflows.readthedocs.io/en/latest/variables/
// https://github.com/argoproj/argo-workflows/blob/v4.0.5/util/template/template.go
func substitute[T any](w *workflow, v T) (T, error) {
	var out T
	raw, err := json.Marshal(v)
	if err != nil {
		return out, err
	}
	if bytes.LastIndex(raw, []byte("{{")) > bytes.LastIndex(raw, []byte("}}")) {
		return out, errors.New(`cannot find end tag="}}"`)
	}
	known := map[string]string{"workflow.name": w.Name, "workflow.namespace": w.Namespace, "workflow.uid": string(w.UID), "pod.name": w.Name}
	var bad error
	raw = tags().ReplaceAllFunc(raw, func(m []byte) []byte {
		name := strings.TrimSpace(string(m[2 : len(m)-2]))
		if strings.HasPrefix(name, "=") {
			bad = fmt.Errorf("failed to evaluate expression %q", name[1:])
			return m
		}
		if v, ok := known[name]; ok {
			quoted, _ := json.Marshal(v) //nolint:errchkjson // a text can be encoded
			return quoted[1 : len(quoted)-1]
		}
		return m
	})
	if bad != nil {
		return out, bad
	}
	return out, json.Unmarshal(raw, &out)
}

package workload

import (
	"strings"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

// kind is one of the kinds of workloads. Its string is the segment of a path.
type kind string

const (
	deployment  kind = "deployment"
	statefulSet kind = "statefulset"
	daemonSet   kind = "daemonset"
)

// kinds are all, in the order in which they are listed.
func kinds() []kind { return []kind{deployment, statefulSet, daemonSet} }

// word is the API's name of the kind.
func (k kind) word() string {
	switch k {
	case statefulSet:
		return "StatefulSet"
	case daemonSet:
		return "DaemonSet"
	case deployment:
	}
	return "Deployment"
}

// plural is the API's resource.
func (k kind) plural() string { return string(k) + "s" }

// ref is a workload's place: NAMESPACE/KIND/NAME in a path.
type ref struct {
	namespace string
	kind      kind
	name      string
}

func (r ref) path() sdk.WorkloadPath {
	return sdk.WorkloadPath(r.namespace + "/" + string(r.kind) + "/" + r.name)
}

func (r ref) place() kube.Place { return kube.Apps(r.kind.plural(), r.namespace, r.name) }

// object is the workload in words.
func (r ref) object() string { return string(r.kind) + " " + r.namespace + "/" + r.name }

// parse takes a path apart.
func (w *Workloads) parse(op string, p sdk.WorkloadPath) (ref, error) {
	return w.parsePath(op, w.c.Session.Namespace, p)
}

// parsePath is parse, with a namespace for examples.
func (w *Workloads) parsePath(op, namespace string, p sdk.WorkloadPath) (ref, error) {
	bad := func(format string, args ...any) (ref, error) {
		e := w.fail(sdk.InvalidArgument, op, format, args...)
		e.Field = "target"
		return ref{}, e
	}
	if err := p.Check(); err != nil {
		return ref{}, err
	}
	parts := p.Segments()
	if len(parts) != 3 {
		return bad("%q isn't NAMESPACE/KIND/NAME, such as %s/deployment/api", p, namespace)
	}
	r := ref{parts[0], kind(parts[1]), parts[2]}
	switch r.kind {
	case deployment, statefulSet, daemonSet:
	default:
		return bad("%q: the kind is deployment, statefulset or daemonset", p)
	}
	for _, name := range []string{r.namespace, r.name} {
		if msg := kube.CheckName(name); msg != "" {
			return bad("%q is no name of an object: %s", name, msg)
		}
	}
	if strings.Contains(r.namespace, ".") {
		return bad("%q is no name of a namespace: it has a dot", r.namespace)
	}
	return r, nil
}

package kube

import (
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fixture is an object that was there before anybody came, and that can only be
// read.
type fixture struct{ group, resource, name, kind string }

// fixtures are what every cluster has, as far as pods name it, and the namespace with
// an account for jobs.
// https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/#priorityclass
func fixtures() []fixture {
	return []fixture{
		{"v1", "namespaces", Namespace, "Namespace"},
		{"v1", "serviceaccounts", "default", "ServiceAccount"},
		{"v1", "serviceaccounts", Account, "ServiceAccount"},
		{"scheduling.k8s.io/v1", "priorityclasses", "system-cluster-critical", "PriorityClass"},
		{"scheduling.k8s.io/v1", "priorityclasses", "system-node-critical", "PriorityClass"},
		{"node.k8s.io/v1", "runtimeclasses", "", "RuntimeClass"},
	}
}

// namespaceUID is that of the only namespace.
const namespaceUID = "6e2d1f9c-4b57-4a83-9d10-7c0f5a3b8e21"

// Account is the service account of the namespace beside the default one.
const Account = "jobs"

// standing is the fixture that a path below a group is about, which may be there or
// not. ok is false for a path of another kind.
func standing(group string, parts []string) (found fixture, ok bool) {
	if len(parts) == 4 && parts[0] == "namespaces" && parts[2] == "serviceaccounts" {
		found = fixture{group: group, resource: parts[2], name: parts[3]}
		if parts[1] != Namespace {
			found.name = parts[1] + "/" + parts[3]
		}
	} else if len(parts) == 2 {
		found = fixture{group: group, resource: parts[0], name: parts[1]}
	}
	return found, slices.ContainsFunc(fixtures(), func(f fixture) bool { return f.group == found.group && f.resource == found.resource })
}

// stand answers a read of a fixture, with its metadata alone.
func (s *Server) stand(c call) (any, error) {
	if slices.Contains(s.knobs.Denied, "get "+c.resource) {
		return nil, refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "%s %q is forbidden: User %q cannot get resource %q", c.resource, c.name, Reader, c.resource)
	}
	i := slices.IndexFunc(fixtures(), func(f fixture) bool { return f.resource == c.resource && f.name == c.name })
	if i < 0 {
		return nil, absent(c.resource, c.name)
	}
	meta := metav1.ObjectMeta{Name: c.name}
	if c.resource == "namespaces" {
		// https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-metadata-name
		meta.UID, meta.Labels = namespaceUID, map[string]string{"kubernetes.io/metadata.name": c.name}
		if s.knobs.Terminating {
			at := now()
			meta.DeletionTimestamp = &at
		}
	}
	return metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, ObjectMeta: meta}, nil
}

// refusesPod reports whether admission refuses a pod for what it names and the
// cluster hasn't.
// https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#serviceaccount
// https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#priority
// https://kubernetes.io/docs/concepts/containers/runtime-class/
func refusesPod(spec corev1.PodSpec) bool {
	missing := func(resource, name string) bool {
		return name != "" && !slices.ContainsFunc(fixtures(), func(f fixture) bool { return f.resource == resource && f.name == name })
	}
	runtime := spec.RuntimeClassName
	return missing("serviceaccounts", spec.ServiceAccountName) || missing("priorityclasses", spec.PriorityClassName) || runtime != nil && missing("runtimeclasses", *runtime)
}

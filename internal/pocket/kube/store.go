package kube

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// object is one of the API's.
type object interface{ metav1.Object }

// event is a change of an object, as it then was.
type event struct {
	version  int64
	resource string
	kind     string
	labels   labels.Set
	raw      json.RawMessage
	meta     json.RawMessage
}

// resource is a kind that is served.
type resource struct {
	group, kind string
	empty       func() object
	// check refuses what this kind's own rules refuse; nil refuses nothing.
	check func(o object) error
}

func (r resource) typed() metav1.TypeMeta { return metav1.TypeMeta{APIVersion: r.group, Kind: r.kind} }

func builtin() map[string]resource {
	return map[string]resource{
		"jobs":            {group: "batch/v1", kind: "Job", empty: func() object { return &batchv1.Job{} }},
		"pods":            {group: "v1", kind: "Pod", empty: func() object { return &corev1.Pod{} }},
		"secrets":         {group: "v1", kind: "Secret", empty: func() object { return &corev1.Secret{} }},
		"networkpolicies": {group: "networking.k8s.io/v1", kind: "NetworkPolicy", empty: func() object { return &networkingv1.NetworkPolicy{} }},
	}
}

// encode is an object as it is sent.
func encode(res resource, o object) (raw, meta json.RawMessage) {
	raw, err := json.Marshal(o)
	if err != nil {
		panic("kube: " + err.Error()) // Kubernetes' own types can be encoded
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		panic("kube: " + err.Error())
	}
	members["apiVersion"], members["kind"] = quote(res.group), quote(res.kind)
	raw, _ = json.Marshal(members) //nolint:errchkjson // it was JSON just now
	meta, _ = json.Marshal(map[string]json.RawMessage{"apiVersion": quote("meta.k8s.io/v1"), "kind": quote("PartialObjectMetadata"), "metadata": members["metadata"]})
	return raw, meta
}

func quote(s string) json.RawMessage { return json.RawMessage(strconv.Quote(s)) }

// put stores an object that is new or was changed.
func (s *Server) put(name string, o object, kind string) {
	s.version++
	o.SetResourceVersion(strconv.FormatInt(s.version, 10))
	if s.objects[name] == nil {
		s.objects[name] = map[string]object{}
	}
	s.objects[name][o.GetName()] = o
	s.tell(name, o, kind)
}

// drop removes an object.
func (s *Server) drop(name string, o object) {
	delete(s.objects[name], o.GetName())
	s.version++
	o.SetResourceVersion(strconv.FormatInt(s.version, 10))
	s.tell(name, o, "DELETED")
}

// maxHistory bounds the changes that are kept for watches, each as the object then was.
// Who watches from before them is told that they are gone.
const maxHistory = 5_000

func (s *Server) tell(name string, o object, kind string) {
	raw, meta := encode(s.kinds[name], o)
	s.history = append(s.history, event{s.version, name, kind, labels.Set(o.GetLabels()), raw, meta})
	if len(s.history) > maxHistory {
		s.history = slices.Clone(s.history[maxHistory/2:])
		s.oldest = s.history[0].version - 1
	}
	s.wake()
}

// admit gives a new object what the server gives.
func (s *Server) admit(o object) {
	s.serial++
	o.SetUID(types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012d", s.life, s.serial)))
	o.SetCreationTimestamp(now())
	o.SetNamespace(Namespace)
	o.SetGeneration(1)
}

func now() metav1.Time { return metav1.NewTime(time.Now().UTC().Truncate(time.Second)) }

// nodeTime is the moment as the node's kubelet writes it.
func (s *Server) nodeTime() metav1.Time { return metav1.NewTime(s.nodeNow().Truncate(time.Second)) }

func (s *Server) get(name, id string) (object, bool) {
	o, ok := s.objects[name][id]
	return o, ok
}

// all returns the objects that a selector chooses, by name.
func (s *Server) selected(name string, sel labels.Selector) []object {
	var out []object
	for _, o := range s.objects[name] {
		if sel.Matches(labels.Set(o.GetLabels())) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b object) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out
}

// dependents drops what an object owns.
func (s *Server) dependents(uid types.UID) {
	for name := range s.kinds {
		for _, o := range s.selected(name, labels.Everything()) {
			if slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == uid }) {
				if pod, ok := o.(*corev1.Pod); ok {
					s.deletePod(pod)
				} else {
					s.drop(name, o)
				}
			}
		}
	}
}

package kube

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-run/windlass/internal/pocket/fault"
)

// Kind is a custom resource whose controller lives outside of this package.
// https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/custom-resources/
type Kind struct {
	// Group is such as "argoproj.io/v1alpha1", Name such as "Workflow".
	Group, Name string
	// New makes an empty object, into which JSON is decoded strictly.
	New func() metav1.Object
	// Check refuses what the kind's own rules refuse, by [Invalid].
	Check func(o metav1.Object) error
}

func kindsOf(more map[string]Kind) map[string]resource {
	out := builtin()
	for plural, k := range more {
		out[plural] = resource{group: k.Group, kind: k.Name, empty: func() object { return k.New() }, check: func(o object) error { return k.Check(o) }}
	}
	return out
}

// Invalid refuses an object for what it has.
func Invalid(format string, args ...any) error { return invalid(format, args...) }

// Changed is closed at the next change of anything.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Objects are those of a resource that a label selector's requirements choose, as
// they are now.
func (s *Server) Objects(plural string, sel labels.Selector) []json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []json.RawMessage
	for _, o := range s.selected(plural, sel) {
		raw, _ := encode(s.kinds[plural], o)
		out = append(out, raw)
	}
	return out
}

// Update stores what f makes of an object of a kind that isn't built in; f gets a
// copy and may return nil for no change.
func (s *Server) Update(plural, name string, f func(o metav1.Object) metav1.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is, ok := s.get(plural, name)
	if !ok {
		return
	}
	raw, _ := encode(s.kinds[plural], is)
	o := s.kinds[plural].empty()
	if err := json.Unmarshal(raw, o); err != nil {
		panic("kube: " + err.Error()) // it was encoded just now
	}
	if next := f(o); next != nil {
		s.put(plural, next, "MODIFIED")
	}
}

// Delete deletes an object with what it owns. A pod that runs gets its grace.
func (s *Server) Delete(plural, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.get(plural, name)
	if !ok {
		return
	}
	if pod, isPod := o.(*corev1.Pod); isPod {
		s.deletePod(pod)
		return
	}
	s.drop(plural, o)
	s.dependents(o.GetUID())
}

// StartPod makes a pod that an object owns, as that object's controller does. It
// reports whether there is a pod: one that is there already stays, and none is made
// once the owner is gone.
func (s *Server) StartPod(plural, owner, name string, meta metav1.ObjectMeta, spec corev1.PodSpec) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.get(plural, owner)
	if !ok {
		return false
	}
	if _, there := s.get("pods", name); there {
		return true
	}
	controls, block := true, true
	res := s.kinds[plural]
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: maps.Clone(meta.Labels), Annotations: maps.Clone(meta.Annotations),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: res.group, Kind: res.kind, Name: owner, UID: o.GetUID(), Controller: &controls, BlockOwnerDeletion: &block}}},
		Spec: *spec.DeepCopy(), Status: corev1.PodStatus{Phase: corev1.PodPending}}
	s.admit(pod)
	s.put("pods", pod, "ADDED")
	s.keep(pod)
	return true
}

// Owned are the pods that an object controls, as they are now.
func (s *Server) Owned(uid types.UID) []corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []corev1.Pod
	for _, o := range s.selected("pods", labels.Everything()) {
		if pod := o.(*corev1.Pod); ownerOf(pod) == uid {
			out = append(out, *pod.DeepCopy())
		}
	}
	return out
}

// Signal sends TERM into a pod's container, and KILL after the grace, as one who
// executes a command in it. The pod isn't asked to end.
func (s *Server) Signal(pod string, grace time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.pods[pod]; l != nil && l.container != nil {
		l.container.Stop(grace)
	}
}

// Answer answers a call that isn't a stream, without faults and unrecorded: for one
// who serves the same objects in another way.
func (s *Server) Answer(ctx context.Context, method, path string, query url.Values, body []byte) (fault.Reply, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://kube"+path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return fault.Reply{}, err
	}
	r.Header.Set("Content-Type", "application/merge-patch+json")
	c, err := s.parse(r, body)
	if err != nil {
		return failed(err), nil
	}
	return s.answer(c), nil
}

// Log writes a pod's log as a stream, like that of the API, and uncut. What can't be
// read is returned; nothing was written then.
func (s *Server) Log(w http.ResponseWriter, r *http.Request, pod string, query url.Values) error {
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	c := call{request: r, resource: "pods", name: pod, verb: "log", sub: "log", uncut: true}
	if _, err := s.readOf(c); err != nil {
		return err
	}
	s.serveLog(r.Context(), w, c)
	return nil
}

// Stream applies the plan of faults to a stream that is served elsewhere, and records
// the call. It reports whether the stream may go on; else it is answered.
func (s *Server) Stream(w http.ResponseWriter, r *http.Request, action string) bool {
	return !disturbed(w, r, s.serve, action)
}

// LogCut is the knob of that name.
func (s *Server) LogCut() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.knobs.LogCut
}

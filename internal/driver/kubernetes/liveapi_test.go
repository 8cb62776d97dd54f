package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/windlass-run/windlass/internal/pocket/fault"
)

// apiServer is an API server for workloads whose controllers are done at once. Its
// server-side apply is Kubernetes' own. What a real cluster does is shown on one
// (TestRealLive); this one makes what that won't do on demand.
type apiServer struct {
	serve fault.Server
	apply managedfields.TypeConverter
	stop  chan struct{}

	mu sync.Mutex
	// objects are by resource, then by namespace/name.
	objects map[string]map[string]metav1.Object
	serial  int
	// changed is closed and made anew at each change.
	changed chan struct{}
	// logs are what the pods wrote.
	logs map[string]string
	// denied are resources that may not be read; narrow has none be read in all
	// namespaces at once.
	denied []string
	narrow bool
	// unmeasured is how many more times no pod has measurements; below 0 there is no
	// metrics API.
	unmeasured int
	// busy has so many applies meet another writer first.
	busy int
	// silent ends an exec without its end being told.
	silent bool
}

func newAPIServer() *apiServer {
	return &apiServer{serve: fault.Server{Plan: fault.NewPlan(0), Recorder: fault.NewRecorder(true), Now: time.Now}, apply: applyconfigurations.NewTypeConverter(scheme.Scheme),
		stop: make(chan struct{}), objects: map[string]map[string]metav1.Object{}, changed: make(chan struct{}), logs: map[string]string{}}
}

// Close ends what is open.
func (s *apiServer) Close() error {
	close(s.stop)
	return nil
}

// place is what a request is about.
type place struct {
	gvk                            schema.GroupVersionKind
	resource, namespace, name, sub string
}

// kindsByResource are the kinds that are served.
func kindsByResource() map[string]string {
	return map[string]string{"deployments": "Deployment", "statefulsets": "StatefulSet", "daemonsets": "DaemonSet", "replicasets": "ReplicaSet", "controllerrevisions": "ControllerRevision",
		"pods": "Pod", "configmaps": "ConfigMap", "secrets": "Secret", "horizontalpodautoscalers": "HorizontalPodAutoscaler"}
}

func placeOf(r *http.Request) place {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var p place
	gv := parts[1]
	if parts[0] == "apis" {
		gv, parts = parts[1]+"/"+parts[2], parts[3:]
	} else {
		parts = parts[2:]
	}
	group, err := schema.ParseGroupVersion(gv)
	if err != nil {
		panic(err) // the driver's own addresses
	}
	if parts[0] == "namespaces" {
		p.namespace, parts = parts[1], parts[2:]
	}
	for i, to := range []*string{&p.resource, &p.name, &p.sub} {
		if i < len(parts) {
			*to = parts[i]
		}
	}
	p.gvk = group.WithKind(kindsByResource()[p.resource])
	return p
}

// ServeHTTP implements http.Handler.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller has gone
	}
	p := placeOf(r)
	verb := strings.ToLower(r.Method)
	switch {
	case p.sub == "exec":
		s.serveExec(w, r, p)
		return
	case p.sub == "log":
		s.serveLog(w, r, p)
		return
	case r.Method == http.MethodPost:
		verb = "create"
	case r.Method == http.MethodGet && p.name == "":
		verb = "list"
	}
	s.serve.Serve(w, r, p.resource+"."+verb, body, func() fault.Reply {
		code, out, err := s.do(r, p, body)
		if errors.Is(err, errUnserved) {
			return fault.Reply{Status: http.StatusNotFound, Body: []byte("404 page not found\n")}
		}
		if err != nil {
			return statusReply(err)
		}
		return jsonReply(code, out)
	}, func(f fault.Refusal) fault.Reply {
		return statusReply(&apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: int32(f.Status), Reason: metav1.StatusReason(f.Code), Message: f.Message}}) //nolint:gosec // an HTTP status
	})
}

// errUnserved is an API group that isn't there: an API server has no Status for it.
var errUnserved = errors.New("nobody serves that")

func jsonReply(code int, v any) fault.Reply {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // of the API's own types
	}
	return fault.Reply{Status: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
}

func statusReply(err error) fault.Reply {
	var st *apierrors.StatusError
	if !errors.As(err, &st) {
		st = apierrors.NewInternalError(err)
	}
	st.ErrStatus.Kind, st.ErrStatus.APIVersion = "Status", "v1"
	return jsonReply(int(st.ErrStatus.Code), st.ErrStatus)
}

func (s *apiServer) do(r *http.Request, p place, body []byte) (int, any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gr := schema.GroupResource{Group: p.gvk.Group, Resource: p.resource}
	if slices.Contains(s.denied, p.resource) || s.narrow && p.namespace == "" {
		return 0, nil, apierrors.NewForbidden(gr, p.name, errors.New("not yours"))
	}
	if p.gvk.Group == "metrics.k8s.io" {
		if s.unmeasured < 0 {
			return 0, nil, errUnserved
		}
		return s.measures(r, p)
	}
	if p.gvk.Kind == "" {
		return 0, nil, apierrors.NewNotFound(gr, p.name)
	}
	is := s.objects[p.resource][p.namespace+"/"+p.name]
	switch {
	case r.Method == http.MethodGet && p.name == "":
		items, err := s.list(r, p)
		return http.StatusOK, map[string]any{"metadata": map[string]any{}, "items": items}, err
	case r.Method == http.MethodPatch:
		return s.patch(r, p, is, body)
	case is == nil:
		return 0, nil, apierrors.NewNotFound(gr, p.name)
	case r.Method == http.MethodDelete:
		delete(s.objects[p.resource], p.namespace+"/"+p.name)
		return http.StatusOK, metav1.Status{Status: metav1.StatusSuccess}, nil
	}
	return http.StatusOK, is, nil
}

func (s *apiServer) list(r *http.Request, p place) ([]metav1.Object, error) {
	sel, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	items := []metav1.Object{}
	for _, o := range s.objects[p.resource] {
		if (p.namespace == "" || p.namespace == o.GetNamespace()) && sel.Matches(labels.Set(o.GetLabels())) {
			items = append(items, o)
		}
	}
	slices.SortFunc(items, func(a, b metav1.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	return items, nil
}

// patch is server-side apply by Kubernetes' own field manager.
func (s *apiServer) patch(r *http.Request, p place, is metav1.Object, body []byte) (int, any, error) {
	if r.Header.Get("Content-Type") != "application/apply-patch+yaml" {
		return 0, nil, apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", schema.GroupResource{Resource: p.resource}, p.name, "apply alone is served", 0, false)
	}
	want := &unstructured.Unstructured{}
	if err := want.UnmarshalJSON(body); err != nil {
		return 0, nil, apierrors.NewBadRequest(err.Error())
	}
	code := http.StatusOK
	if s.busy > 0 && is != nil && want.GetResourceVersion() != "" {
		s.busy--
		s.put(p.resource, is) // its controller writes its status
	}
	if want.GetUID() != "" && (is == nil || want.GetUID() != is.GetUID()) || want.GetResourceVersion() != "" && (is == nil || want.GetResourceVersion() != is.GetResourceVersion()) {
		return 0, nil, apierrors.NewConflict(schema.GroupResource{Group: p.gvk.Group, Resource: p.resource}, p.name, errors.New("the object has been modified"))
	}
	next, err := s.applied(p, is, want, r.URL.Query().Get("fieldManager"), r.URL.Query().Get("force") == "true")
	if err != nil {
		return 0, nil, err
	}
	if is == nil {
		code = http.StatusCreated
		s.admit(next, p.namespace)
	}
	if is == nil || specOf(is) != specOf(next) {
		next.SetGeneration(next.GetGeneration() + 1)
	}
	s.put(p.resource, next)
	s.reconcile(p.resource, next)
	return code, s.objects[p.resource][p.namespace+"/"+next.GetName()], nil
}

func (s *apiServer) applied(p place, is metav1.Object, want *unstructured.Unstructured, manager string, force bool) (metav1.Object, error) {
	m, err := managedfields.NewDefaultFieldManager(s.apply, scheme.Scheme, noDefaults{}, scheme.Scheme, p.gvk, p.gvk.GroupVersion(), "", nil)
	if err != nil {
		return nil, err
	}
	var live runtime.Object
	if is != nil {
		live = is.(runtime.Object).DeepCopyObject() //nolint:forcetypeassert // what is stored is both
	} else if live, err = scheme.Scheme.New(p.gvk); err != nil {
		return nil, err
	}
	live.GetObjectKind().SetGroupVersionKind(p.gvk)
	out, err := m.Apply(live, want, manager, force)
	if err != nil {
		return nil, err
	}
	return out.(metav1.Object), nil //nolint:forcetypeassert // it is of the scheme's types
}

type noDefaults struct{}

func (noDefaults) Default(runtime.Object) {}

// specOf is what a generation counts the changes of.
func specOf(o metav1.Object) string {
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err) // of the API's own types
	}
	var m struct{ Spec json.RawMessage }
	if err := json.Unmarshal(raw, &m); err != nil {
		panic(err)
	}
	return string(m.Spec)
}

func (s *apiServer) admit(o metav1.Object, namespace string) {
	s.serial++
	o.SetUID(types.UID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", s.serial)))
	o.SetNamespace(namespace)
	o.SetCreationTimestamp(metav1.Now())
}

func (s *apiServer) put(resource string, o metav1.Object) {
	s.serial++
	o.SetResourceVersion(strconv.Itoa(s.serial))
	if s.objects[resource] == nil {
		s.objects[resource] = map[string]metav1.Object{}
	}
	s.objects[resource][o.GetNamespace()+"/"+o.GetName()] = o
	close(s.changed)
	s.changed = make(chan struct{})
}

// add stores an object as its owner would make it, and lets its controller work.
func (s *apiServer) add(resource, namespace string, manifest map[string]any) metav1.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &unstructured.Unstructured{Object: jsonOf(manifest)}
	o, err := s.applied(place{gvk: u.GroupVersionKind(), resource: resource, namespace: namespace}, nil, u, "kubectl", false)
	if err != nil {
		panic(err) // the tests' own manifest
	}
	s.admit(o, namespace)
	o.SetGeneration(1)
	s.put(resource, o)
	s.reconcile(resource, o)
	return o
}

func jsonOf(m map[string]any) map[string]any {
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(raw, &out); err != nil {
		panic(err)
	}
	return out
}

// reconcile is the controllers' work: a Deployment's ReplicaSets and pods.
func (s *apiServer) reconcile(resource string, o metav1.Object) {
	d, ok := o.(*appsv1.Deployment)
	if !ok {
		return
	}
	d = d.DeepCopy()
	template, err := json.Marshal(d.Spec.Template)
	if err != nil {
		panic(err)
	}
	sum := 0
	for i, b := range template {
		sum = (sum*31 + int(b) + i) % 1_000_000_007
	}
	hash, n := strconv.Itoa(sum), 1
	if d.Spec.Replicas != nil {
		n = int(*d.Spec.Replicas)
	}
	set := s.replicaSet(d, hash)
	ready := 0
	for key, p := range s.objects["pods"] {
		pod := p.(*corev1.Pod) //nolint:forcetypeassert // what is stored there
		switch owner := metav1.GetControllerOf(pod); {
		case owner == nil || pod.Labels["deployment"] != string(d.UID):
		case owner.UID == set.UID && ready < n:
			ready++
		default:
			delete(s.objects["pods"], key)
		}
	}
	for ; ready < n; ready++ {
		s.pod(d, set, hash)
	}
	if strings.HasPrefix(d.Spec.Template.Spec.Containers[0].Image, "registry.invalid/") {
		ready = 0
	}
	d.Annotations = mapWith(d.Annotations, "deployment.kubernetes.io/revision", set.Annotations["deployment.kubernetes.io/revision"])
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: int32(n), UpdatedReplicas: int32(n), ReadyReplicas: int32(ready), AvailableReplicas: int32(ready)} //nolint:gosec // a few
	s.put(resource, d)
}

func mapWith(m map[string]string, k, v string) map[string]string {
	out := map[string]string{k: v}
	for k, v := range m {
		if _, ok := out[k]; !ok {
			out[k] = v
		}
	}
	return out
}

// replicaSet is the one of a template, made where there is none; its revision becomes
// the newest.
func (s *apiServer) replicaSet(d *appsv1.Deployment, hash string) *appsv1.ReplicaSet {
	newest := 0
	for _, o := range s.objects["replicasets"] {
		if set := o.(*appsv1.ReplicaSet); metav1.IsControlledBy(set, d) { //nolint:forcetypeassert // what is stored there
			n, _ := strconv.Atoi(set.Annotations["deployment.kubernetes.io/revision"])
			if set.Name == d.Name+"-"+hash {
				return set
			}
			newest = max(newest, n)
		}
	}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: d.Name + "-" + hash, Labels: mapWith(d.Spec.Template.Labels, "pod-template-hash", hash),
		Annotations:     map[string]string{"deployment.kubernetes.io/revision": strconv.Itoa(newest + 1)},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}}}
	s.admit(set, d.Namespace)
	s.put("replicasets", set)
	return set
}

func (s *apiServer) pod(d *appsv1.Deployment, set *appsv1.ReplicaSet, hash string) {
	s.serial++
	t := d.Spec.Template.DeepCopy()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%05d", set.Name, s.serial), Annotations: t.Annotations,
		Labels:          mapWith(mapWith(t.Labels, "pod-template-hash", hash), "deployment", string(d.UID)),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}}, Spec: t.Spec}
	s.admit(p, d.Namespace)
	c := corev1.ContainerStatus{Name: t.Spec.Containers[0].Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	if strings.HasPrefix(t.Spec.Containers[0].Image, "registry.invalid/") {
		p.Status = corev1.PodStatus{Phase: corev1.PodPending}
		c.Ready, c.State = false, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such host"}}
	} else {
		s.logs[p.Name] = time.Now().UTC().Format(time.RFC3339Nano) + " is up\n"
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{c}
	s.put("pods", p)
}

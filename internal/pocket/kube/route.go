package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kjson "sigs.k8s.io/json"

	"github.com/windlass-run/windlass/internal/pocket/fault"
)

// refusal is an error of the API.
type refusal struct {
	code   int
	reason metav1.StatusReason
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(code int, reason metav1.StatusReason, format string, args ...any) error {
	return &refusal{code, reason, fmt.Sprintf(format, args...)}
}

func statusOf(r *refusal) metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Message: r.text, Reason: r.reason, Code: int32(r.code)} //nolint:gosec // an HTTP status
}

func reply(code int, v any) fault.Reply {
	body, err := json.Marshal(v)
	if err != nil {
		panic("kube: " + err.Error()) // it is of the API's own types
	}
	return fault.Reply{Status: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
}

func failed(err error) fault.Reply {
	var r *refusal
	if !errors.As(err, &r) {
		r = &refusal{http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error()}
	}
	return reply(r.code, statusOf(r))
}

// answer carries a call out that isn't a stream.
func (s *Server) answer(c call) fault.Reply {
	out, err := s.do(c)
	if err != nil {
		return failed(err)
	}
	code := http.StatusOK
	if c.verb == "create" {
		code = http.StatusCreated
	}
	return reply(code, out)
}

// call is what a request asks for.
type call struct {
	verb, resource, name, sub string
	res                       resource
	body                      []byte
	request                   *http.Request
	meta                      bool
	// elsewhere: it is about a namespace that isn't there, in which nothing is.
	elsewhere bool
	// standing: it is about a fixture.
	standing bool
	// uncut: the knob LogCut is somebody else's.
	uncut bool
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 4<<20))
	if err != nil {
		return // the caller has gone
	}
	c, err := s.parse(r, body)
	if denied := s.permit(c); denied != nil {
		err = denied
	}
	action := c.resource + "." + c.verb
	if err == nil && (c.verb == "watch" || c.verb == "log") {
		s.stream(w, c, action)
		return
	}
	s.serve.Serve(w, r, action, body, func() fault.Reply {
		if err != nil {
			return failed(err)
		}
		return s.answer(c)
	}, refusalOf)
}

// parse reads method and path.
func (s *Server) parse(r *http.Request, body []byte) (call, error) {
	c := call{request: r, body: body, resource: "unknown", verb: strings.ToLower(r.Method), meta: strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")}
	notFound := refuse(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group := ""
	switch {
	case len(parts) > 2 && parts[0] == "api":
		group, parts = parts[1], parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		group, parts = parts[1]+"/"+parts[2], parts[3:]
	default:
		return c, notFound
	}
	if group == "authorization.k8s.io/v1" && parts[0] == "selfsubjectaccessreviews" && r.Method == http.MethodPost {
		c.resource, c.verb = parts[0], "create"
		return c, nil
	}
	if found, ok := standing(group, parts); ok {
		c.verb, c.resource, c.name, c.standing = "get", found.resource, found.name, true
		if r.Method != http.MethodGet {
			return c, refuse(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "the server does not allow this method on the requested resource")
		}
		return c, nil
	}
	if len(parts) < 3 || parts[0] != "namespaces" {
		return c, notFound
	}
	namespace := parts[1]
	c.resource, parts = parts[2], parts[3:]
	var ok bool
	if c.res, ok = s.kinds[c.resource]; !ok || c.res.group != group {
		return c, notFound
	}
	if len(parts) > 0 {
		c.name = parts[0]
	}
	if len(parts) > 1 {
		c.sub = parts[1]
	}
	switch {
	case r.Method == http.MethodGet && c.resource == "pods" && c.sub == "log":
		c.verb = "log"
	case c.sub != "":
		return c, notFound
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") == "true":
		c.verb = "watch"
	case r.Method == http.MethodGet && c.name == "":
		c.verb = "list"
	case r.Method == http.MethodPost && c.name == "":
		c.verb = "create"
	case c.name == "" || r.Method != http.MethodGet && r.Method != http.MethodPatch && r.Method != http.MethodDelete:
		return c, refuse(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "the server does not allow this method on the requested resource")
	}
	if namespace != Namespace && c.verb == "create" {
		return c, refuse(http.StatusNotFound, metav1.StatusReasonNotFound, "namespaces %q not found", namespace)
	}
	if namespace != Namespace && c.name != "" {
		return c, absent(c.resource, c.name)
	}
	c.elsewhere = namespace != Namespace
	return c, nil
}

func absent(resource, name string) error {
	return refuse(http.StatusNotFound, metav1.StatusReasonNotFound, "%s %q not found", resource, name)
}

// do carries a call out that isn't a stream.
func (s *Server) do(c call) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.standing:
		return s.stand(c)
	case c.resource == "selfsubjectaccessreviews":
		return s.review(c)
	case c.verb == "create":
		return s.create(c)
	case c.verb == "list":
		return s.list(c)
	}
	o, ok := s.get(c.resource, c.name)
	if !ok {
		return nil, absent(c.resource, c.name)
	}
	switch c.verb {
	case "patch":
		return s.patch(c, o)
	case "delete":
		return s.remove(c, o)
	}
	return c.shown(o), nil
}

// shown is an object in the form that was asked for.
func (c call) shown(o object) json.RawMessage {
	raw, meta := encode(c.res, o)
	if c.meta {
		return meta
	}
	return raw
}

// strict decodes as fieldValidation=Strict does.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation
func strict(body []byte, out any) error {
	problems, err := kjson.UnmarshalStrict(body, out)
	if err != nil {
		return refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "%s", err)
	}
	if len(problems) > 0 {
		return refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "strict decoding error: %s", errors.Join(problems...))
	}
	return nil
}

func (s *Server) review(c call) (any, error) {
	var v authorizationv1.SelfSubjectAccessReview
	if err := strict(c.body, &v); err != nil {
		return nil, err
	}
	a := v.Spec.ResourceAttributes
	if a == nil {
		return nil, refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "spec.resourceAttributes: Required value")
	}
	right := a.Verb + " " + a.Resource
	if a.Subresource != "" {
		right += "/" + a.Subresource
	}
	if a.Group != "" {
		right += "." + a.Group
	}
	v.Status.Allowed = !slices.Contains(s.knobs.Denied, right) && (reads(a.Verb) || s.access(c.request) == All)
	return v, nil
}

func (s *Server) create(c call) (any, error) {
	o := c.res.empty()
	if err := strict(c.body, o); err != nil {
		return nil, err
	}
	var typed metav1.TypeMeta
	if err := json.Unmarshal(c.body, &typed); err != nil || typed != c.res.typed() {
		return nil, refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "the object provided is a %s of %s, not a %s of %s", typed.Kind, typed.APIVersion, c.res.kind, c.res.group)
	}
	if err := check(o); err != nil {
		return nil, err
	}
	if c.res.check != nil {
		if err := c.res.check(o); err != nil {
			return nil, err
		}
	}
	if _, ok := s.get(c.resource, o.GetName()); ok {
		return nil, refuse(http.StatusConflict, metav1.StatusReasonAlreadyExists, "%s %q already exists", c.resource, o.GetName())
	}
	j, isJob := o.(*batchv1.Job)
	if isJob && s.knobs.Quota {
		return nil, refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "jobs.batch %q is forbidden: exceeded quota: all, requested: count/jobs.batch=1, used: count/jobs.batch=5, limited: count/jobs.batch=5", o.GetName())
	}
	s.admit(o)
	if secret, ok := o.(*corev1.Secret); ok {
		secret.Data, secret.StringData = folded(secret), nil
	}
	if isJob {
		begin := now()
		j.Status = batchv1.JobStatus{StartTime: &begin}
	}
	s.put(c.resource, o, "ADDED")
	if isJob {
		s.reconcile(j)
	}
	return c.shown(o), nil
}

// folded are a Secret's values, those that were written as text among them.
// https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/secret-v1/
func folded(secret *corev1.Secret) map[string][]byte {
	out := maps.Clone(secret.Data)
	for k, v := range secret.StringData {
		if out == nil {
			out = map[string][]byte{}
		}
		out[k] = []byte(v)
	}
	return out
}

func (s *Server) remove(c call, o object) (any, error) {
	var opts metav1.DeleteOptions
	if len(c.body) > 0 {
		if err := strict(c.body, &opts); err != nil {
			return nil, err
		}
	}
	if p := opts.Preconditions; p != nil && p.UID != nil && *p.UID != o.GetUID() {
		return nil, refuse(http.StatusConflict, metav1.StatusReasonConflict, "the UID in the precondition (%s) does not match the UID in record (%s)", *p.UID, o.GetUID())
	}
	if pod, ok := o.(*corev1.Pod); ok {
		s.deletePod(pod)
	} else {
		s.drop(c.resource, o)
		s.dependents(o.GetUID())
	}
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess}, nil
}

// list answers with a page; its continuation names the last object and forgets
// nothing.
func (s *Server) list(c call) (any, error) {
	q := c.request.URL.Query()
	sel, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		return nil, refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "unable to parse the label selector: %s", err)
	}
	limit := len(s.objects[c.resource])
	if text := q.Get("limit"); text != "" {
		if _, err := fmt.Sscan(text, &limit); err != nil {
			return nil, refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "limit: %q is no number", text)
		}
	}
	items, next := []json.RawMessage{}, ""
	for _, o := range s.selected(c.resource, sel) {
		if c.elsewhere {
			break
		}
		if after := q.Get("continue"); after != "" && o.GetName() <= after {
			continue
		}
		if len(items) == limit {
			next = s.lastName(items[limit-1])
			break
		}
		items = append(items, c.shown(o))
	}
	group, kind := c.res.group, c.res.kind+"List"
	if c.meta {
		group, kind = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	return map[string]any{"apiVersion": group, "kind": kind, "items": items,
		"metadata": metav1.ListMeta{ResourceVersion: fmt.Sprint(s.version), Continue: next}}, nil
}

func (s *Server) lastName(raw json.RawMessage) string {
	var m metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &m); err != nil {
		panic("kube: " + err.Error()) // it was encoded just now
	}
	return m.Name
}

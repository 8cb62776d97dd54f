package argo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/kube"
)

// call is a request of Argo Server's API.
// https://github.com/argoproj/argo-workflows/blob/v4.0.5/pkg/apiclient/workflow/workflow.proto
type call struct {
	action, name, node, artifact string
	namespace                    string
}

// parse reads method and path. ok is false for a path that isn't Argo Server's.
func parse(r *http.Request) (c call, ok bool) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) == 5 && parts[0] == "artifacts" && r.Method == http.MethodGet:
		return call{action: "artifacts.get", namespace: parts[1], name: parts[2], node: parts[3], artifact: parts[4]}, true
	case len(parts) < 4 || parts[0] != "api" || parts[1] != "v1" || parts[2] != plural:
		return c, false
	}
	c.namespace = parts[3]
	if len(parts) > 4 {
		c.name = parts[4]
	}
	verb := ""
	if len(parts) > 5 {
		verb = strings.Join(parts[5:], "/")
	}
	actions := map[string]string{"POST/": "create", "GET/": "list", "GET/NAME": "get", "DELETE/NAME": "delete", "PUT/NAME/terminate": "patch", "GET/NAME/log": "log"}
	key := r.Method + "/"
	if c.name != "" {
		key += "NAME"
	}
	if verb != "" {
		key += "/" + verb
	}
	switch a := actions[key]; a {
	case "log":
		c.action = "pods.log"
	case "":
		c.action = "unknown"
	default:
		c.action = plural + "." + a
	}
	return c, true
}

// grpcError is an error in the form of Argo Server's gateway, by HTTP status.
// https://github.com/argoproj/argo-workflows/blob/v4.0.5/server/utils/errors.go
func grpcError(status int, text string) fault.Reply {
	codes := map[int]int{http.StatusBadRequest: 3, http.StatusUnprocessableEntity: 3, http.StatusNotFound: 5, http.StatusConflict: 6, http.StatusForbidden: 7,
		http.StatusTooManyRequests: 8, http.StatusUnauthorized: 16, http.StatusServiceUnavailable: 14}
	code, ok := codes[status]
	switch {
	case !ok && status >= 400 && status < 500:
		code, status = 3, http.StatusBadRequest
	case !ok:
		code, status = 13, http.StatusInternalServerError
	}
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	return answer(status, map[string]any{"code": code, "message": text, "error": text, "details": []any{}})
}

func answer(status int, v any) fault.Reply {
	body, err := json.Marshal(v)
	if err != nil {
		panic("argo: " + err.Error()) // it is of plain values
	}
	return fault.Reply{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
}

func (s *Server) rest(w http.ResponseWriter, r *http.Request, c call) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 4<<20))
	if err != nil {
		return // the caller has gone
	}
	right := s.access.Of(r)
	if right != kube.None && (c.action == "pods.log" || c.action == "artifacts.get") {
		if s.cluster.Stream(w, r, c.action) {
			s.stream(w, r, c)
		}
		return
	}
	s.serve.Serve(w, r, c.action, body, func() fault.Reply {
		switch {
		case right == kube.None:
			return grpcError(http.StatusUnauthorized, "token not valid. see https://argo-workflows.readthedocs.io/en/latest/faq/")
		case right == kube.Look && c.action != plural+".list" && c.action != plural+".get":
			return grpcError(http.StatusForbidden, fmt.Sprintf("workflows.argoproj.io is forbidden: User %q cannot %s resource %q in API group %q in the namespace %q",
				kube.Reader, strings.TrimPrefix(c.action, plural+"."), plural, "argoproj.io", c.namespace))
		}
		return s.do(r, c, body)
	}, func(f fault.Refusal) fault.Reply { return grpcError(f.Status, f.Message) })
}

// do carries a call out by the Kubernetes API, as Argo Server does.
func (s *Server) do(r *http.Request, c call, body []byte) fault.Reply {
	at := "/apis/argoproj.io/v1alpha1/namespaces/" + c.namespace + "/" + plural
	if c.name != "" {
		at += "/" + c.name
	}
	through := func(method string, query url.Values, body []byte) fault.Reply {
		reply, err := s.cluster.Answer(r.Context(), method, at, query, body)
		if err != nil {
			return grpcError(http.StatusInternalServerError, err.Error())
		}
		if reply.Status > 299 {
			var st metav1.Status
			_ = json.Unmarshal(reply.Body, &st) // without it the message is empty
			return grpcError(reply.Status, st.Message)
		}
		reply.Status = http.StatusOK
		return reply
	}
	switch c.action {
	case "workflows.create":
		return s.create(c, body, func(raw []byte) fault.Reply { return through(http.MethodPost, nil, raw) })
	case "workflows.list":
		q := url.Values{}
		for k, v := range r.URL.Query() {
			name, ok := strings.CutPrefix(k, "listOptions.")
			if !ok {
				return grpcError(http.StatusBadRequest, "unknown parameter "+k)
			}
			q[name] = v
		}
		return through(http.MethodGet, q, nil)
	case "workflows.get":
		if reply := through(http.MethodGet, nil, nil); reply.Status == http.StatusOK {
			return reply
		}
		if w := s.archived(c.name); w != nil {
			return answer(http.StatusOK, w)
		}
		return through(http.MethodGet, nil, nil)
	case "workflows.delete":
		return s.remove(c, func() fault.Reply { return through(http.MethodDelete, nil, nil) }, through(http.MethodGet, nil, nil))
	case "workflows.patch":
		reply := through(http.MethodGet, nil, nil)
		var w workflow
		if reply.Status != http.StatusOK || json.Unmarshal(reply.Body, &w) != nil {
			return reply
		}
		if done(w.Status.Phase) {
			return grpcError(http.StatusInternalServerError, fmt.Sprintf("cannot shutdown a completed workflow: workflow: %q, namespace: %q", w.Name, w.Namespace))
		}
		return through(http.MethodPatch, nil, []byte(`{"spec":{"shutdown":"Terminate"}}`))
	}
	return grpcError(http.StatusNotFound, "Not Found")
}

// create validates a Workflow before it is made.
func (s *Server) create(c call, body []byte, make func(raw []byte) fault.Reply) fault.Reply {
	var req struct {
		Namespace string          `json:"namespace"`
		Workflow  json.RawMessage `json:"workflow"`
	}
	var w workflow
	if err := strict(body, &req); err != nil {
		return grpcError(http.StatusBadRequest, err.Error())
	}
	if err := strict(req.Workflow, &w); err != nil {
		return grpcError(http.StatusBadRequest, err.Error())
	}
	if req.Namespace != c.namespace {
		return grpcError(http.StatusBadRequest, "the namespaces of path and body differ")
	}
	if err := validate(&w); err != nil {
		return grpcError(http.StatusBadRequest, err.Error())
	}
	return make(req.Workflow)
}

func strict(raw []byte, out any) error {
	problems, err := kjson.UnmarshalStrict(raw, out)
	if err == nil && len(problems) > 0 {
		err = problems[0]
	}
	return err
}

// remove deletes a Workflow; one that has ended stays in the archive.
func (s *Server) remove(c call, drop func() fault.Reply, is fault.Reply) fault.Reply {
	if is.Status != http.StatusOK {
		return is
	}
	w := &workflow{}
	if s.tuned().Archive && json.Unmarshal(is.Body, w) == nil && done(w.Status.Phase) {
		w.Labels["workflows.argoproj.io/workflow-archiving-status"] = "Persisted"
		s.mu.Lock()
		s.archive[c.name] = w
		s.mu.Unlock()
	}
	if reply := drop(); reply.Status != http.StatusOK {
		return reply
	}
	return answer(http.StatusOK, map[string]any{})
}

func (s *Server) archived(name string) *workflow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.archive[name]
}

// stream serves logs and artifacts.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, c call) {
	send := func(reply fault.Reply) {
		for k, v := range reply.Header {
			w.Header()[k] = v
		}
		w.WriteHeader(reply.Status)
		_, _ = w.Write(reply.Body) // a caller that has gone misses nothing that counts
	}
	if c.action == "artifacts.get" {
		s.mu.Lock()
		kept, ok := s.kept[c.name]
		s.mu.Unlock()
		if !ok || c.artifact != "main-logs" || c.namespace != kube.Namespace {
			send(grpcError(http.StatusInternalServerError, "artifact not found"))
			return
		}
		_, _ = w.Write(kept) // as above
		return
	}
	q := url.Values{}
	for k, v := range r.URL.Query() {
		switch name := strings.TrimPrefix(k, "logOptions."); name {
		case "container", "follow", "timestamps", "tailLines":
			q[name] = v
		case "sinceTime.seconds":
			var n int64
			if _, err := fmt.Sscan(v[0], &n); err != nil {
				send(grpcError(http.StatusBadRequest, err.Error()))
				return
			}
			q.Set("sinceTime", metav1.Unix(n, 0).UTC().Format("2006-01-02T15:04:05Z"))
		default:
			send(grpcError(http.StatusBadRequest, "unknown parameter "+k))
			return
		}
	}
	// Where there is no log the stream is empty: the server only notes that for itself.
	// https://github.com/argoproj/argo-workflows/blob/v4.0.5/util/logs/workflow-logger.go
	lines := &entryWriter{ResponseWriter: w, pod: c.name, s: s, limit: s.cutAt(c.name)}
	if err := s.cluster.Log(lines, r, c.name, q); err != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		return
	}
	lines.last()
}

// entryWriter turns lines of a log into entries.
type entryWriter struct {
	http.ResponseWriter
	pod  string
	left []byte
	s    *Server
	// limit is how many bytes may still be written, -1 for all; at is how many were.
	limit, at int
}

// Unwrap is for http.ResponseController.
func (e *entryWriter) Unwrap() http.ResponseWriter { return e.ResponseWriter }

func (e *entryWriter) Write(p []byte) (int, error) {
	e.left = append(e.left, p...)
	for {
		i := bytes.IndexByte(e.left, '\n')
		if i < 0 {
			return len(p), nil
		}
		line := e.left[:i]
		e.left = bytes.Clone(e.left[i+1:])
		if err := e.entry(line); err != nil {
			return 0, err
		}
	}
}

// last writes what had no end, as a line like any.
func (e *entryWriter) last() {
	if len(e.left) > 0 {
		_ = e.entry(e.left) // a caller that has gone misses nothing that counts
	}
}

func (e *entryWriter) entry(line []byte) error {
	raw, err := json.Marshal(map[string]any{"result": map[string]string{"content": string(bytes.TrimSuffix(line, []byte("\r"))), "podName": e.pod}})
	if err != nil {
		return err
	}
	raw = append(raw, '\n')
	if e.limit >= 0 && e.at+len(raw) > e.limit {
		_, _ = e.ResponseWriter.Write(raw[:e.limit-e.at]) // it is about to be cut
		_ = http.NewResponseController(e.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	e.at += len(raw)
	e.s.reached(e.pod, e.at)
	_, err = e.ResponseWriter.Write(raw)
	return err
}

// cutAt is after how many bytes a stream that is opened now is cut: each gets further
// than those before.
func (s *Server) cutAt(name string) int {
	cut := s.cluster.LogCut()
	if cut <= 0 {
		return -1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.furthest[name] + cut*8
}

func (s *Server) reached(name string, at int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.furthest[name] = max(s.furthest[name], at)
}

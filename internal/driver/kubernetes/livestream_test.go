package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windlass-run/windlass/internal/pocket/fault"
)

// disturbed does to a stream what the plan says, and reports whether that was all.
func (s *apiServer) disturbed(w http.ResponseWriter, r *http.Request, action string) bool {
	e := s.serve.Plan.Next(action, nil)
	s.serve.Recorder.Add(fault.Call{Action: action, Status: http.StatusOK, Lost: e.Drop || e.Reset})
	if e.Drop || e.Reset {
		panic(http.ErrAbortHandler)
	}
	return e.Wait(r.Context()) != nil
}

// measures are those of the metrics API.
func (s *apiServer) measures(r *http.Request, p place) (int, any, error) {
	items := []any{}
	pods, err := s.list(r, place{resource: "pods", namespace: p.namespace})
	if s.unmeasured > 0 {
		s.unmeasured--
		pods = nil
	}
	for _, o := range pods {
		items = append(items, map[string]any{"metadata": map[string]any{"name": o.GetName()}, "timestamp": time.Now().Add(time.Second).UTC().Format(time.RFC3339),
			"containers": []any{map[string]any{"name": "app", "usage": map[string]any{"cpu": "1500000n", "memory": "2Mi"}}}})
	}
	return http.StatusOK, map[string]any{"metadata": map[string]any{}, "items": items}, err
}

// serveLog gives a pod's log, and when followed goes on until the pod is gone.
func (s *apiServer) serveLog(w http.ResponseWriter, r *http.Request, p place) {
	if s.disturbed(w, r, "pods.log") {
		return
	}
	since, _ := time.Parse(time.RFC3339, r.URL.Query().Get("sinceTime"))
	sent := 0
	for {
		s.mu.Lock()
		text, ok := s.logs[p.name]
		_, there := s.objects["pods"][p.namespace+"/"+p.name]
		changed := s.changed
		s.mu.Unlock()
		if sent == 0 && (!ok || !there) {
			reply := statusReply(apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, p.name))
			w.WriteHeader(reply.Status)
			_, _ = w.Write(reply.Body)
			return
		}
		for line := range strings.Lines(text[sent:]) {
			stamp, _, _ := strings.Cut(line, " ")
			if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil && !at.Before(since) {
				_, _ = io.WriteString(w, line)
			}
		}
		sent = len(text)
		if http.NewResponseController(w).Flush() != nil || r.URL.Query().Get("follow") != "true" || !there {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-s.stop:
			return
		}
	}
}

// env is what a pod's container sees: its variables, those by reference from their
// objects.
func (s *apiServer) env(pod *corev1.Pod) []string {
	out := []string{"PATH=" + os.Getenv("PATH")}
	for _, e := range pod.Spec.Containers[0].Env {
		v := strings.ReplaceAll(e.Value, "$$", "$")
		if f := e.ValueFrom; f != nil && f.ConfigMapKeyRef != nil {
			v = s.objects["configmaps"][pod.Namespace+"/"+f.ConfigMapKeyRef.Name].(*corev1.ConfigMap).Data[f.ConfigMapKeyRef.Key] //nolint:forcetypeassert // what is stored there
		} else if f != nil && f.SecretKeyRef != nil {
			v = string(s.objects["secrets"][pod.Namespace+"/"+f.SecretKeyRef.Name].(*corev1.Secret).Data[f.SecretKeyRef.Key]) //nolint:forcetypeassert // what is stored there
		}
		out = append(out, e.Name+"="+v)
	}
	return out
}

// serveExec runs a command as a process.
func (s *apiServer) serveExec(w http.ResponseWriter, r *http.Request, p place) {
	if s.disturbed(w, r, "pods.exec") {
		return
	}
	s.mu.Lock()
	o, ok := s.objects["pods"][p.namespace+"/"+p.name]
	if !ok {
		s.mu.Unlock()
		w.WriteHeader(http.StatusNotFound)
		return
	}
	env, silent := s.env(o.(*corev1.Pod)), s.silent //nolint:forcetypeassert // what is stored there
	s.mu.Unlock()
	up := websocket.Upgrader{Subprotocols: []string{"v5.channel.k8s.io"}}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return // it has answered
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	q := r.URL.Query()
	cmd := exec.CommandContext(ctx, q["command"][0], q["command"][1:]...) //nolint:gosec // the suite's own commands
	cmd.Env, cmd.WaitDelay = env, time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	in, feed := io.Pipe()
	defer in.Close()
	if q.Get("stdin") == "true" {
		cmd.Stdin = in
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer cancel()
		for {
			_, data, err := conn.ReadMessage()
			if err != nil {
				_ = feed.CloseWithError(err)
				return
			}
			switch {
			case data[0] == 0:
				_, _ = feed.Write(data[1:])
			case data[0] == 255 && data[1] == 0:
				_ = feed.Close()
			}
		}
	}()
	err = cmd.Run()
	for channel, text := range map[byte][]byte{1: out.Bytes(), 2: errs.Bytes()} {
		_ = conn.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, text...))
	}
	if !silent {
		st, _ := json.Marshal(endStatus(err)) //nolint:errchkjson // of the API's own types
		_ = conn.WriteMessage(websocket.BinaryMessage, append([]byte{3}, st...))
	}
	_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
	_ = conn.Close()
	<-read
}

// endStatus tells a command's end as a kubelet does.
func endStatus(err error) metav1.Status {
	exit := new(exec.ExitError)
	switch {
	case err == nil:
		return metav1.Status{Status: metav1.StatusSuccess}
	case errors.As(err, &exit):
		code := exit.ExitCode()
		text, _ := json.Marshal(code) //nolint:errchkjson // a number
		return metav1.Status{Status: metav1.StatusFailure, Reason: "NonZeroExitCode", Message: "command terminated with non-zero exit code",
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "ExitCode", Message: string(text)}}}}
	}
	return metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Message: err.Error()}
}

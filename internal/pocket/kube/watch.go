package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/windlass-run/windlass/internal/pocket/fault"
)

// stream serves a watch or a log, under the plan of faults.
func (s *Server) stream(w http.ResponseWriter, c call, action string) {
	ctx := c.request.Context()
	if disturbed(w, c.request, s.serve, action) {
		return
	}
	if c.verb == "log" {
		s.serveLog(ctx, w, c)
		return
	}
	s.serveWatch(ctx, w, c)
}

// disturbed records a stream and does to it what the plan says. It reports whether
// that was all.
func disturbed(w http.ResponseWriter, r *http.Request, serve fault.Server, action string) bool {
	effect := serve.Plan.Next(action, nil)
	serve.Recorder.Add(fault.Call{Action: action, At: time.Now(), Status: http.StatusOK, Lost: effect.Reset || effect.Drop})
	switch {
	case effect.Wait(r.Context()) != nil:
		return true
	case effect.Reset || effect.Drop:
		cut(w)
		return true
	case effect.Refuse != nil:
		f := effect.Refuse
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int((f.RetryAfter+time.Second-1)/time.Second)))
		}
		write(w, refusalOf(*f))
		return true
	}
	return false
}

// refusalOf words a refusal as the API does.
func refusalOf(f fault.Refusal) fault.Reply {
	return failed(&refusal{f.Status, metav1.StatusReason(f.Code), f.Message})
}

func cut(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // without it the end is a plain close, which does as well
		}
		_ = conn.Close() // it is to be broken
		return
	}
	panic(http.ErrAbortHandler)
}

func write(w http.ResponseWriter, r fault.Reply) {
	for name, values := range r.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body) // a caller that has gone misses nothing that counts
}

// gone is the answer to a place that is forgotten.
func gone() error {
	return refuse(http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
}

// serveWatch writes the changes behind a resourceVersion.
// https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
func (s *Server) serveWatch(ctx context.Context, w http.ResponseWriter, c call) {
	q := c.request.URL.Query()
	sel, err := labels.Parse(q.Get("labelSelector"))
	if err != nil {
		write(w, failed(refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "%s", err)))
		return
	}
	if c.elsewhere {
		sel = labels.Nothing()
	}
	at, err := strconv.ParseInt(q.Get("resourceVersion"), 10, 64)
	if err != nil {
		write(w, failed(refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "resourceVersion: %s", err)))
		return
	}
	s.mu.Lock()
	open, forgotten, byEvent := s.knobs.WatchFor, at < s.oldest, s.knobs.ForgetByEvent
	s.mu.Unlock()
	if forgotten && !byEvent {
		write(w, failed(gone()))
		return
	}
	var over <-chan time.Time
	if open > 0 {
		timer := time.NewTimer(open)
		defer timer.Stop()
		over = timer.C
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	for {
		text, next, changed := s.since(c.resource, sel, at)
		if forgotten {
			st, _ := json.Marshal(statusOf(gone().(*refusal))) //nolint:errchkjson,errorlint // it is of the API's own types, and made just here
			text = line("ERROR", st)
		}
		if _, err := w.Write(text); err != nil || forgotten {
			return
		}
		at = next
		if control.Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-over:
			return
		case <-ctx.Done():
			return
		case <-s.ctx.Done():
			return
		}
	}
}

func line(kind string, object json.RawMessage) []byte {
	return slices.Concat([]byte(`{"type":`), quote(kind), []byte(`,"object":`), object, []byte("}\n"))
}

// since are the events behind a version.
func (s *Server) since(resource string, sel labels.Selector, at int64) ([]byte, int64, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b bytes.Buffer
	for _, e := range s.history {
		if e.version > at && e.resource == resource && sel.Matches(e.labels) {
			b.Write(line(e.kind, e.raw))
		}
	}
	return b.Bytes(), s.version, s.changed
}

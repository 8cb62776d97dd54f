package digitalocean

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/digitalocean/godo"
	"github.com/gorilla/websocket"

	"github.com/windlass-run/windlass/internal/pocket/fault"
)

const (
	livePath    = "/logs/live"
	archivePath = "/logs/archive"
	// linkLife is how long the address of a log holds. The real time isn't
	// published.
	linkLife = time.Hour
	// patience is how long a live log waits for its job by default.
	patience = 3 * time.Minute
)

// link is what the address of a log stands for.
type link struct {
	outputs  []*output
	follow   bool
	tail     int // 0 or less for all
	patience time.Duration
	made     time.Time
}

// deploymentLogs answers for the logs of a deployment, of all components or one.
// A job's output is in both its deploy and its run log; an image has no build
// log; a scheduled job's output is its invocations'.
func (s *Server) deploymentLogs(c *call) (any, *Error) {
	var d *deployment
	a, e := s.find(c)
	if e != nil {
		return nil, e
	}
	if c.path("deployment_id") != "" {
		if _, d, e = s.findDeployment(c); e != nil {
			return nil, e
		}
	} else {
		for _, other := range a.Deployments {
			if other.View.Phase == godo.DeploymentPhase_Active {
				d = other
			}
		}
		if d == nil {
			return nil, refuse(ruleDeployment, "no active deployment")
		}
	}
	switch t := c.query.Get("type"); t {
	case "DEPLOY", "RUN":
	case "BUILD", "RUN_RESTARTED":
		return nil, refuse(ruleLogNone, "no %s logs are available for the deployment", t)
	default:
		return nil, refuse(ruleLogType, "%q is not a type of log", t)
	}
	name := c.path("component_name")
	if name == "" {
		name = c.query.Get("component_name")
	}
	var outputs []*output
	known := name == ""
	for _, job := range d.View.Spec.Jobs {
		if name == "" || job.Name == name {
			known = true
			if out := d.Outputs[job.Name]; out != nil {
				outputs = append(outputs, out)
			}
		}
	}
	if !known {
		return nil, refuse(ruleLogComponent, "component %q not found", name)
	}
	if d.ended() || len(outputs) == 0 {
		outputs = slices.DeleteFunc(outputs, func(o *output) bool { started, _ := o.state(0); return !started })
		if len(outputs) == 0 {
			return nil, refuse(ruleLogNone, "no logs are available for the deployment")
		}
	}
	return s.logs(c, outputs)
}

// invocationLogs answers for the log of a job invocation.
func (s *Server) invocationLogs(c *call) (any, *Error) {
	i, e := s.findInvocation(c)
	if e != nil {
		return nil, e
	}
	if of := c.query.Get("deployment_id"); of != "" && of != i.View.DeploymentID {
		return nil, refuse(ruleDeployment, "deployment not found")
	}
	if t := c.query.Get("type"); t != "JOB_INVOCATION" {
		return nil, refuse(ruleLogType, "%q is not a type of log", t)
	}
	if started, _ := i.Out.state(0); !started && i.ended() {
		return nil, refuse(ruleLogNone, "no logs are available for the job invocation")
	}
	return s.logs(c, []*output{i.Out})
}

// logs gives out the address of a log: a live one while output may still come,
// historic ones after.
func (s *Server) logs(c *call, outputs []*output) (any, *Error) {
	l := link{outputs: outputs, patience: patience, made: time.Now()}
	var err error
	if text := c.query.Get("follow"); text != "" {
		if l.follow, err = strconv.ParseBool(text); err != nil {
			return nil, refuse(ruleQuery, "follow is true or false")
		}
	}
	if text := c.query.Get("tail_lines"); text != "" { // godo and doctl send 0 and -1 for all
		if l.tail, err = strconv.Atoi(text); err != nil {
			return nil, refuse(ruleQuery, "tail_lines is a number")
		}
	}
	if text := c.query.Get("pod_connection_timeout"); text != "" {
		if l.patience, err = time.ParseDuration(text); err != nil || l.patience < 0 {
			return nil, refuse(ruleQuery, "pod_connection_timeout is a duration")
		}
	}
	archived := !slices.ContainsFunc(outputs, func(o *output) bool { _, archived := o.state(s.knobs.ArchiveDelay); return !archived })
	if now := time.Now(); now.After(s.sweep) {
		for token, old := range s.links {
			if now.Sub(old.made) > linkLife {
				delete(s.links, token)
			}
		}
		s.sweep = now.Add(time.Minute)
	}
	token := randomID()
	s.links[token] = l
	address := func(path string) string { return base(c.request) + path + "?" + url.Values{"token": {token}}.Encode() }
	if archived {
		return map[string]any{"historic_urls": []string{address(archivePath)}}, nil
	}
	return map[string]any{"live_url": address(livePath), "historic_urls": []string{}}, nil
}

// openLink finds what an address stands for, and holds the server open for it
// until done is called. Nil means that it refused.
func (s *Server) openLink(w http.ResponseWriter, r *http.Request) (l *link, knobs Knobs, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.links[r.URL.Query().Get("token")]
	if !ok || time.Since(found.made) > linkLife || s.closed {
		header := s.header(w)
		write(w, refuse(ruleLogURL, "The address of the log is not valid any more.").reply(header.Get(requestHeader), header))
		return nil, Knobs{}, nil
	}
	s.lives.Add(1)
	return &found, s.knobs, s.lives.Done
}

// serveArchive gives the whole log, or its last lines.
func (s *Server) serveArchive(w http.ResponseWriter, r *http.Request) {
	l, _, done := s.openLink(w, r)
	if l == nil {
		return
	}
	defer done()
	header := s.header(w)
	id := header.Get(requestHeader)
	header.Set("Content-Type", "text/plain; charset=utf-8")
	fault.Server{Plan: s.faults, Recorder: s.calls, Now: s.o.Now}.Serve(w, r, "log_archive", nil, func() fault.Reply {
		var body bytes.Buffer
		for _, text := range l.present() {
			body.WriteString(text)
			body.WriteByte('\n')
		}
		return fault.Reply{Status: http.StatusOK, Header: header, Body: body.Bytes()}
	}, func(f fault.Refusal) fault.Reply {
		return (&Error{Status: cmp.Or(f.Status, http.StatusInternalServerError), Message: f.Message}).reply(id, header)
	})
}

// present returns the lines that there are now.
func (l *link) present() []string {
	var out []string
	for _, o := range l.outputs {
		shown, _, _, _ := o.look(0)
		for _, line := range shown {
			out = append(out, line.text(o.Name))
		}
	}
	if l.tail > 0 && len(out) > l.tail {
		out = out[len(out)-l.tail:]
	}
	return out
}

// stream emits the lines of a live log.
func (l *link) stream(ctx context.Context, emit func(string) error) error {
	if !l.follow {
		for _, text := range l.present() {
			if err := emit(text); err != nil {
				return err
			}
		}
		return nil
	}
	// With a tail, only so many of the lines that are there come first.
	skip := 0
	if l.tail > 0 {
		whole := *l
		whole.tail = 0
		skip = max(0, len(whole.present())-l.tail)
	}
	for _, o := range l.outputs {
		shown, _, _, _ := o.look(0)
		from := min(skip, len(shown))
		skip -= from
		if err := o.follow(ctx, from, l.patience, emit); err != nil {
			return err
		}
	}
	return nil
}

// serveLive pushes a live log: by websocket as doctl reads it, else as lines of
// text.
func (s *Server) serveLive(w http.ResponseWriter, r *http.Request) {
	l, knobs, done := s.openLink(w, r)
	if l == nil {
		return
	}
	defer done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-s.end:
			cancel()
		case <-over:
		}
	}()
	if !s.listens(ctx, w) {
		return
	}
	if !websocket.IsWebSocketUpgrade(r) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusOK)
		flush := http.NewResponseController(w).Flush
		_ = flush()                                 // the caller learns at once that it listens
		_ = l.stream(ctx, func(text string) error { // a caller that has gone misses nothing
			_, err := w.Write([]byte(text + "\n"))
			_ = flush()
			return err
		})
		return
	}
	upgrader := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // it has answered
	}
	s.push(ctx, cancel, conn, l, knobs)
}

// listens puts the faults of live logs in force, whose action is log_live, and
// says whether the caller may listen. One that is to lose its connection does so
// by a panic that net/http knows.
func (s *Server) listens(ctx context.Context, w http.ResponseWriter) bool {
	effect := s.faults.Next("log_live", nil)
	made := fault.Call{Action: "log_live", At: s.o.Now(), Status: http.StatusOK}
	defer func() { s.calls.Add(made) }()
	if effect.Wait(ctx) != nil {
		made.Lost = true
		return false
	}
	if effect.Reset || effect.Drop {
		made.Lost, made.Status = true, 0
		panic(http.ErrAbortHandler)
	}
	if f := effect.Refuse; f != nil {
		header := s.header(w)
		reply := (&Error{Status: cmp.Or(f.Status, http.StatusInternalServerError), Message: f.Message}).reply(header.Get(requestHeader), header)
		made.Status, made.Reply = reply.Status, reply.Body
		write(w, reply)
		return false
	}
	return true
}

// closeWait bounds the writing of a last word to a websocket.
const closeWait = time.Second

// push writes a live log to a websocket.
func (s *Server) push(ctx context.Context, cancel func(), conn *websocket.Conn, l *link, knobs Knobs) {
	gone := make(chan struct{})
	go func() { // a caller that closes is seen by reading
		defer close(gone)
		defer cancel()
		for {
			if _, _, err := conn.ReadMessage(); err != nil {
				return
			}
		}
	}()
	sent := 0
	cut := false
	err := l.stream(ctx, func(text string) error {
		data, err := json.Marshal(map[string]string{"data": text + "\n"})
		if err != nil {
			return err
		}
		times := 1
		if knobs.LogTwice {
			times = 2
		}
		for range times {
			if knobs.LiveCut > 0 && sent >= knobs.LiveCut {
				cut = true
				return context.Canceled
			}
			if err := conn.WriteMessage(websocket.TextMessage, data); err != nil {
				return err
			}
			sent++
		}
		return nil
	})
	if err == nil && !cut {
		// An end is no failure: https://pkg.go.dev/github.com/gorilla/websocket
		_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(closeWait))
	}
	_ = conn.Close() // it ends the reader, too
	<-gone
}

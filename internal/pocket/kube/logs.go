package kube

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podLog is a container's log: one file for both streams, line by line.
type podLog struct {
	lines []logLine
	// size is the bytes of all lines ever, as they are served; made counts them.
	size, made int
	// furthest is how far any stream has come, in those bytes.
	furthest int
	// rotated: streams that were open before this many rotations are silent.
	rotated int
}

// logLine is an entry of the file: a line, or a part of a long one, with a stamp of its
// own.
type logLine struct {
	text []byte
	// begins: the entry before it has ended its line, so that it is served with its
	// stamp.
	begins bool
	// at is where it begins among the bytes of all lines, number which one it is.
	at, number int
	stamp      time.Time
}

// shown is an entry as it is served.
func (l logLine) shown(stamps bool) []byte {
	if !stamps || !l.begins {
		return l.text
	}
	return append([]byte(l.stamp.Format(stampForm)+" "), l.text...)
}

// maxLine is what containerd cuts a line into.
// https://github.com/containerd/containerd/blob/v1.6.20/docs/cri/config.md
const maxLine = 16 << 10

// stampForm is the kubelet's, always with nine digits.
const stampForm = "2006-01-02T15:04:05.000000000Z07:00"

func (s *Server) logOf(pod string) *podLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.logs[pod]; l != nil {
		return l
	}
	return &podLog{} // it was deleted
}

// add takes an entry: a line with its newline, or a part of one. A runtime stamps what
// it has read of each stream before it writes it into the file, so that a stamp may be
// older than the one before it. early is by how much this one is.
// https://github.com/containerd/containerd/blob/v1.6.20/pkg/cri/io/logger.go
func (s *Server) add(l *podLog, text []byte, early time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.knobs.NodeClock += s.knobs.NodeClockStep
	n := len(l.lines)
	line := logLine{text: text, begins: n == 0 || bytes.HasSuffix(l.lines[n-1].text, []byte("\n")), at: l.size, number: l.made, stamp: s.nodeNow().Add(-early)}
	l.lines = append(l.lines, line)
	l.made++
	l.size += len(line.shown(true))
	s.wake()
}

// nodeNow is what the node's clock shows.
func (s *Server) nodeNow() time.Time { return time.Now().Add(s.knobs.NodeClock).UTC() }

// Rotate drops all but the newest lines of a pod's log, as the kubelet does with a
// file that is full. Streams that are open fall silent.
// https://github.com/kubernetes/kubernetes/issues/115701
func (s *Server) Rotate(pod string, keep int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logs[pod]
	if l == nil {
		return false
	}
	if l.lines = l.lines[max(len(l.lines)-keep, 0):]; len(l.lines) > 0 {
		l.lines[0].begins = true // a kubelet takes a file's first entry for a line
	}
	l.rotated++
	s.wake()
	return true
}

// lineWriter cuts a stream into lines. Of one that ends with \r\n the \r is lost, as
// containerd loses it.
// https://github.com/containerd/containerd/blob/v1.6.20/pkg/cri/io/logger.go
type lineWriter struct {
	s   *Server
	log *podLog
	buf []byte
	// errs: it is stderr.
	errs bool
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.buf = append(w.buf, p...)
	for {
		i := bytes.IndexByte(w.buf, '\n')
		switch {
		case i > maxLine || i < 0 && len(w.buf) > maxLine:
			w.add(bytes.Clone(w.buf[:maxLine]))
			w.buf = bytes.Clone(w.buf[maxLine:])
		case i < 0:
			return len(p), nil
		default:
			w.add(append(bytes.TrimSuffix(w.buf[:i:i], []byte("\r")), '\n'))
			w.buf = bytes.Clone(w.buf[i+1:])
		}
	}
}

func (w *lineWriter) add(text []byte) {
	early := time.Duration(0)
	if w.errs {
		w.s.mu.Lock()
		early = w.s.knobs.StderrEarly
		w.s.mu.Unlock()
	}
	w.s.add(w.log, text, early)
}

// end writes what no newline has ended.
func (w *lineWriter) end() {
	if len(w.buf) > 0 {
		w.add(w.buf)
		w.buf = nil
	}
}

// logRead is one read of a log.
type logRead struct {
	follow  bool
	since   time.Time
	stamps  bool
	tail    int
	rotated int
	next    int
	begun   bool
}

// readOf reads a log's query.
// https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#get-read-log-of-the-specified-pod
func (s *Server) readOf(c call) (*logRead, error) {
	q := c.request.URL.Query()
	r := &logRead{follow: q.Get("follow") == "true", stamps: q.Get("timestamps") == "true", tail: -1}
	if t := q.Get("sinceTime"); t != "" {
		at, err := time.Parse(time.RFC3339, t)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "sinceTime: %s", err)
		}
		r.since = at.Truncate(time.Second) // as metav1.Time goes to the kubelet
	}
	if t := q.Get("tailLines"); t != "" {
		n, err := strconv.Atoi(t)
		if err != nil || n < 0 {
			return nil, invalid("tailLines: Invalid value: %q: must be greater than or equal to 0", t)
		}
		r.tail = n
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.get("pods", c.name)
	if !ok {
		return nil, absent("pods", c.name)
	}
	pod := o.(*corev1.Pod)
	name := pod.Spec.Containers[0].Name
	if want := q.Get("container"); want != "" && want != name {
		return nil, refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "container %s is not valid for pod %s", want, c.name)
	}
	if st := pod.Status.ContainerStatuses; len(st) == 0 || st[0].State.Waiting != nil {
		why := "ContainerCreating"
		if len(st) > 0 {
			why = st[0].State.Waiting.Reason
		}
		return nil, refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "container %q in pod %q is waiting to start: %s", name, c.name, why)
	}
	r.rotated = s.logs[c.name].rotated
	return r, nil
}

// more returns what is there of a log beyond what was read, and whether the end has
// come. An entry that is older than asked for is left out, also where it began a line
// whose rest is served.
// https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/cri-client/pkg/logs/logs.go cut is how many bytes may go before the stream is cut, -1 for all.
func (s *Server) more(pod string, r *logRead) (text []byte, from int, done bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logs[pod]
	if l == nil {
		return nil, 0, true, nil
	}
	if l.rotated != r.rotated {
		return nil, 0, false, s.changed // it follows a file that nobody writes
	}
	lines := l.lines
	if !r.begun && r.tail >= 0 {
		lines = lines[max(len(lines)-r.tail, 0):]
	}
	r.begun = true
	from = -1
	for _, line := range lines {
		if line.number < r.next || line.stamp.Before(r.since) {
			continue
		}
		if from < 0 {
			from = line.at
		}
		text = append(text, line.shown(r.stamps)...)
		r.next = line.number + 1
	}
	o, ok := s.get("pods", pod)
	done = !r.follow || !ok || o.(*corev1.Pod).Status.ContainerStatuses[0].State.Running == nil
	return text, max(from, 0), done, s.changed
}

// serveLog writes a log's stream.
func (s *Server) serveLog(ctx context.Context, w http.ResponseWriter, c call) {
	r, err := s.readOf(c)
	if err != nil {
		write(w, failed(err))
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	limit := -1
	if !c.uncut {
		limit = s.cutAt(c.name)
	}
	for {
		text, from, done, changed := s.more(c.name, r)
		if limit >= 0 && from+len(text) > limit {
			text = text[:max(limit-from, 0)]
			_, _ = w.Write(text) // the caller may have gone
			s.reached(c.name, limit)
			if s.odd() {
				return // a cut that looks like an end
			}
			_ = control.Flush() // it is about to be cut
			panic(http.ErrAbortHandler)
		}
		if _, err := w.Write(text); err != nil {
			return
		}
		s.reached(c.name, from+len(text))
		if done {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-s.ctx.Done():
			return
		}
	}
}

// cutAt is where a stream that is opened now is cut; -1 is nowhere.
func (s *Server) cutAt(pod string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logs[pod]
	if s.knobs.LogCut <= 0 || l == nil {
		return -1
	}
	return l.furthest + s.knobs.LogCut
}

func (s *Server) reached(pod string, at int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.logs[pod]; l != nil {
		l.furthest = max(l.furthest, at)
	}
}

// odd alternates.
func (s *Server) odd() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cuts++
	return s.cuts%2 == 1
}

// Lines is how many entries a pod's log has.
func (s *Server) Lines(pod string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.logs[pod]; l != nil {
		return len(l.lines)
	}
	return 0
}

// Write adds a line to a pod's log as its container would.
func (s *Server) Write(pod, text string) { s.add(s.logOf(pod), []byte(text+"\n"), 0) }

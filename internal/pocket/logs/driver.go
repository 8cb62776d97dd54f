package logs

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// maxEventBytes is how much of a line the awslogs driver puts into one event:
// CloudWatch's 256 KiB less the event's overhead. See
// https://github.com/moby/moby/blob/master/daemon/logger/awslogs/cloudwatchlogs.go
const maxEventBytes = 262_144 - overhead

// Driver is the awslogs log driver of one container. Lines end at \n, which is
// not kept; an empty line makes no event; a line that is too long is cut into
// several events; bytes that are no UTF-8 arrive as U+FFFD each.
type Driver struct {
	service *Service
	group   string
	stream  string

	mu      sync.Mutex
	writers []*lines
}

// OpenDriver makes the container's stream, and the group when create says so.
// It fails as CreateLogStream does.
func (s *Service) OpenDriver(groupName, streamName string, create bool) (*Driver, error) {
	if create {
		s.CreateGroup(groupName)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.groups[groupName]
	if !ok {
		return nil, noGroup()
	}
	g.open(streamName, s.now(), s.knobs)
	return &Driver{service: s, group: groupName, stream: streamName}, nil
}

// Writer returns a writer for one of the container's outputs. It is for one
// goroutine; the writers of a driver may be used at the same time.
func (d *Driver) Writer() io.Writer {
	w := &lines{driver: d}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writers = append(d.writers, w)
	return w
}

// Close writes what is left of unfinished lines. No writer is used any more.
func (d *Driver) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.writers {
		d.put(w.rest)
		w.rest = nil
	}
}

// put stores lines of a container, each as one event or several.
func (d *Driver) put(complete ...[]byte) {
	d.service.mu.Lock()
	defer d.service.mu.Unlock()
	g, ok := d.service.groups[d.group]
	if !ok {
		return // the group was deleted under the container: its output is lost
	}
	now := d.service.now()
	st := g.open(d.stream, now, d.service.knobs)
	for _, line := range complete {
		for len(line) > 0 {
			n, text := take(line)
			st.add(now, now, text, d.service.knobs)
			line = line[n:]
		}
	}
}

// take cuts the first event's worth off a line, and returns how many bytes it
// took. It never cuts inside a rune.
func take(line []byte) (n int, text string) {
	var b strings.Builder
	for n < len(line) {
		r, size := utf8.DecodeRune(line[n:])
		if b.Len()+utf8.RuneLen(r) > maxEventBytes {
			break
		}
		b.WriteRune(r)
		n += size
	}
	return n, b.String()
}

// lines cuts one output into lines.
type lines struct {
	driver *Driver
	rest   []byte
}

// Write takes output in any portions.
func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	var complete [][]byte
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			break
		}
		line := p[:i]
		if len(l.rest) > 0 {
			line = append(l.rest, line...)
			l.rest = nil
		}
		complete = append(complete, line)
		p = p[i+1:]
	}
	l.rest = append(l.rest, p...)
	for len(l.rest) >= maxEventBytes {
		// The driver's buffer is full: it sends what it has of the line.
		took, _ := take(l.rest)
		complete = append(complete, l.rest[:took:took])
		l.rest = append([]byte(nil), l.rest[took:]...)
	}
	if len(complete) > 0 {
		l.driver.put(complete...)
	}
	return n, nil
}

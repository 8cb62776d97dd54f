package digitalocean

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"time"
)

// maxLine bounds a line in bytes; a longer one goes on in the next.
const maxLine = 1 << 20

// line is one line of a job's output.
type line struct {
	At   time.Time
	Text string

	ready time.Time // by real time: when it is shown
}

// text is the line as logs show it: component, time, text. See doctl's flag
// --no-prefix, https://docs.digitalocean.com/reference/doctl/reference/apps/logs/
func (l line) text(component string) string {
	return component + " " + l.At.UTC().Format("2006-01-02T15:04:05.000000000Z") + " " + l.Text
}

// output is what a job wrote. Standard output and error come as one, in the
// order in which lines ended.
type output struct {
	Name  string
	Lines []line
	// Started says that the job began, so that there is a log.
	Started bool
	// Ended is when the last line was written, by real time; zero while more
	// may come.
	Ended time.Time

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
	writers []*lines
}

func newOutput(name string) *output { return &output{Name: name, changed: make(chan struct{})} }

// signal tells those who wait that something has changed. The lock is held.
func (o *output) signal() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// open begins the output, whose lines are shown after a delay.
func (o *output) open(delay time.Duration, now func() time.Time) (stdout, stderr io.Writer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Started = true
	o.writers = []*lines{{out: o, delay: delay, now: now}, {out: o, delay: delay, now: now}}
	o.signal()
	return o.writers[0], o.writers[1]
}

// close ends the output with what is left of unfinished lines.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.Ended.IsZero() {
		return
	}
	for _, w := range o.writers {
		if len(w.rest) > 0 {
			w.put(w.rest)
			w.rest = nil
		}
	}
	o.Ended = time.Now()
	o.signal()
}

// lines cuts one stream into lines. It is for one goroutine.
type lines struct {
	out   *output
	delay time.Duration
	now   func() time.Time
	rest  []byte
}

// Write takes output in any portions.
func (l *lines) Write(p []byte) (int, error) {
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			break
		}
		l.put(append(l.rest, p[:i]...))
		l.rest, p = nil, p[i+1:]
	}
	l.rest = append(l.rest, p...)
	for len(l.rest) > maxLine {
		l.put(l.rest[:maxLine])
		l.rest = append([]byte(nil), l.rest[maxLine:]...)
	}
	l.out.signal()
	return n, nil
}

// put stores a line. What is no UTF-8 is replaced: lines travel as JSON. The
// output's lock is held.
func (l *lines) put(text []byte) {
	l.out.Lines = append(l.out.Lines, line{At: l.now().UTC(), Text: strings.ToValidUTF8(string(text), "\uFFFD"), ready: time.Now().Add(l.delay)})
}

// look returns the lines that are shown from a place on, whether all have come,
// when the next is shown (zero for unknown), and what is closed at a change.
func (o *output) look(from int) (shown []line, all bool, next time.Time, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	to := from
	for to < len(o.Lines) && !now.Before(o.Lines[to].ready) {
		to++
	}
	if to < len(o.Lines) {
		next = o.Lines[to].ready
	}
	return o.Lines[from:to:to], !o.Ended.IsZero() && to == len(o.Lines), next, o.changed
}

// state tells whether the output began, and whether it is archived.
func (o *output) state(archiveDelay time.Duration) (started, archived bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	late := len(o.Lines) > 0 && now.Before(o.Lines[len(o.Lines)-1].ready)
	return o.Started, !o.Ended.IsZero() && now.Sub(o.Ended) >= archiveDelay && !late
}

// follow emits lines from a place on until all have come, context ends, or emit
// fails. When the job hasn't begun within the patience, it gives up.
func (o *output) follow(ctx context.Context, from int, patience time.Duration, emit func(string) error) error {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		shown, all, next, changed := o.look(from)
		for _, l := range shown {
			if err := emit(l.text(o.Name)); err != nil {
				return err
			}
		}
		from += len(shown)
		if all {
			return nil
		}
		if len(shown) > 0 {
			continue
		}
		waited := deadline.C
		if started, _ := o.state(0); started {
			waited = nil
		}
		due := time.NewTimer(soon(next))
		select {
		case <-changed:
		case <-due.C:
		case <-waited:
			due.Stop()
			return nil
		case <-ctx.Done():
			due.Stop()
			return ctx.Err()
		}
		due.Stop()
	}
}

// soon is how long to wait for a time; one that isn't known is far away.
func soon(next time.Time) time.Duration {
	if next.IsZero() {
		return time.Hour
	}
	return time.Until(next)
}

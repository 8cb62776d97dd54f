package azure

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// The documented sizes of logs:
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-resource-and-quota-limits
const (
	logBytes      = 4 << 20
	logSmallBytes = 16 << 10
	logSmallLines = 1000
)

// maxLine bounds a line in bytes; a longer one is kept in parts.
const maxLine = 1 << 20

// line is one line of output, or a part of one.
type line struct {
	At time.Time
	// Text has its newline, unless it is a part or the log ends without one.
	Text []byte

	ready time.Time // by real time: when it is shown
}

// output is what a container wrote, the last of it. Standard output and error
// come as one, in the order in which lines ended.
type output struct {
	Lines []line
	// Started says that the container began, so that there is a log.
	Started bool

	mu      sync.Mutex
	size    int // of Lines, in bytes
	writers []*lines
}

func newOutput() *output { return &output{} }

// open begins the output of a run, whose lines are shown after a delay.
func (o *output) open(delay time.Duration, now func() time.Time) (stdout, stderr io.Writer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Started = true
	o.writers = []*lines{{out: o, delay: delay, now: now}, {out: o, delay: delay, now: now}}
	return o.writers[0], o.writers[1]
}

// close ends the output of a run with what is left of unfinished lines.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range o.writers {
		if len(w.rest) > 0 {
			w.put(w.rest)
			w.rest = nil
		}
	}
	o.writers = nil
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
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest, '\n') + 1
		if i == 0 && len(l.rest) >= maxLine {
			i = maxLine
		}
		if i == 0 {
			break
		}
		l.put(l.rest[:i])
		l.rest = l.rest[i:]
	}
	l.rest = bytes.Clone(l.rest)
	return n, nil
}

// put stores a line, and forgets what is more than is ever shown. The output's
// lock is held.
func (l *lines) put(text []byte) {
	o := l.out
	o.Lines = append(o.Lines, line{At: l.now().UTC(), Text: bytes.Clone(text), ready: time.Now().Add(l.delay)})
	o.size += len(text)
	drop := 0
	for o.size-len(o.Lines[drop].Text) >= logBytes {
		o.size -= len(o.Lines[drop].Text)
		drop++
	}
	o.Lines = o.Lines[drop:]
}

// state tells whether there is a log.
func (o *output) state() (started bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Started
}

// text returns the end of a log: so many lines of it, or all for 0. Small is for
// groups that were stopped. What is no UTF-8 is replaced: logs travel as JSON.
func (o *output) text(tail int, stamps, small bool) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	shown := o.Lines
	for i, l := range shown {
		if time.Now().Before(l.ready) {
			shown = shown[:i]
			break
		}
	}
	limit := logBytes
	if small {
		limit = logSmallBytes
		shown = last(shown, logSmallLines)
	}
	if tail > 0 {
		shown = last(shown, tail)
	}
	var b strings.Builder
	begins := true
	for _, l := range shown {
		if begins && stamps {
			b.WriteString(l.At.Format("2006-01-02T15:04:05.000000000Z") + " ")
		}
		b.Write(l.Text)
		begins = bytes.HasSuffix(l.Text, []byte("\n"))
	}
	text := b.String()
	if len(text) > limit {
		text = text[len(text)-limit:]
		for range utf8.UTFMax - 1 { // a character that was cut
			if text != "" && !utf8.RuneStart(text[0]) {
				text = text[1:]
			}
		}
	}
	return string([]rune(text)) // each byte that is no UTF-8 becomes U+FFFD
}

// last returns the last lines, where parts count for the line that they make.
func last(list []line, n int) []line {
	for i := len(list) - 1; i > 0; i-- {
		if bytes.HasSuffix(list[i-1].Text, []byte("\n")) {
			if n--; n == 0 {
				return list[i:]
			}
		}
	}
	return list
}

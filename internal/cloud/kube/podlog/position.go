package podlog

import (
	"fmt"
	"strconv"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// position is a place in an attempt's output: a pod, and in its log the latest stamp
// of a line that was given, in whole or in part.
//
// The API resumes a log from a whole second. Stamps alone don't tell what it then
// gives again: a runtime stamps lines before it writes them, so that those of stdout
// and stderr of one moment may stand out of order. It is told by how many lines of the
// second, and of the one before it, were given.
// https://github.com/apache/airflow/issues/33498
type position struct {
	// uid is the pod's; empty is before any.
	uid string
	// launch is how many pods came before it.
	launch int
	// stamp is the latest. Before and count are how many lines of the second before
	// its own, and of its own, were given in whole; part how many bytes of the line
	// behind those.
	stamp  time.Time
	before int
	count  int
	part   int
	// kept: it is a place in what is kept of the output, so many bytes into it.
	kept  bool
	bytes int64
}

// The members of a cursor.
const (
	cursorPod    = "pod"
	cursorLaunch = "launch"
	cursorStamp  = "stamp"
	cursorBefore = "before"
	cursorCount  = "count"
	cursorPart   = "part"
	cursorBytes  = "bytes"
)

func (p position) cursor(kind string) *sdk.LogCursor {
	c := &sdk.LogCursor{V: sdk.CursorVersion, Kind: kind, Position: map[string]string{cursorPod: p.uid, cursorLaunch: strconv.Itoa(p.launch)}}
	if !p.stamp.IsZero() {
		c.Position[cursorStamp] = p.stamp.Format(time.RFC3339Nano)
		for key, n := range map[string]int{cursorBefore: p.before, cursorCount: p.count, cursorPart: p.part} {
			c.Position[key] = strconv.Itoa(n)
		}
	}
	if p.kept {
		c.Position[cursorBytes] = strconv.FormatInt(p.bytes, 10)
	}
	return c
}

func readPosition(kind string, c *sdk.LogCursor) (position, error) {
	var p position
	if c == nil {
		return p, nil
	}
	if c.Kind != kind || c.V > sdk.CursorVersion {
		return p, fmt.Errorf("a cursor of kind %q, version %d, isn't ours", c.Kind, c.V)
	}
	m := c.Position
	p.uid = m[cursorPod]
	for key, to := range map[string]*int{cursorLaunch: &p.launch, cursorBefore: &p.before, cursorCount: &p.count, cursorPart: &p.part} {
		if m[key] == "" {
			continue
		}
		n, err := strconv.Atoi(m[key])
		if err != nil || n < 0 {
			return p, fmt.Errorf("a cursor's %s is %q", key, m[key])
		}
		*to = n
	}
	if m[cursorBytes] != "" {
		n, err := strconv.ParseInt(m[cursorBytes], 10, 64)
		if err != nil || n < 0 {
			return p, fmt.Errorf("a cursor's %s is %q", cursorBytes, m[cursorBytes])
		}
		p.kept, p.bytes = true, n
	}
	if m[cursorStamp] != "" {
		var err error
		if p.stamp, err = time.Parse(time.RFC3339Nano, m[cursorStamp]); err != nil {
			return p, fmt.Errorf("a cursor's stamp: %w", err)
		}
	}
	return p, nil
}

// since is from when a log is to be read on; zero is its beginning.
func (p position) since() time.Time {
	if p.stamp.IsZero() {
		return p.stamp
	}
	return p.stamp.Truncate(time.Second).Add(-time.Second)
}

// advance is the position behind a piece of which fresh was new. A line that is older
// than since, from a clock that was set back, moves nothing: it isn't given again.
func (p position) advance(q piece, fresh []byte) position {
	if q.stamp.Before(p.since()) {
		return p
	}
	if q.stamp.After(p.stamp) {
		switch second := q.stamp.Truncate(time.Second); {
		case p.stamp.IsZero() || second.Sub(p.stamp.Truncate(time.Second)) > time.Second:
			p.before, p.count = 0, 0
		case second.After(p.stamp):
			p.before, p.count = p.count, 0
		}
		p.stamp = q.stamp
	}
	if !q.whole {
		p.part += len(fresh)
		return p
	}
	p.part = 0
	if q.stamp.Before(p.stamp.Truncate(time.Second)) {
		p.before++
	} else {
		p.count++
	}
	return p
}

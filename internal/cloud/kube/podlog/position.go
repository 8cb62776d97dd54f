package podlog

import (
	"fmt"
	"strconv"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// position is a place in an attempt's output: a pod, and in its log the stamp of
// the last line that was given, in whole or in part.
//
// The API resumes a log from a whole second. What it then gives again is told by
// stamp and count, as in public reports of lost and doubled lines.
// https://github.com/apache/airflow/issues/33498
type position struct {
	// uid is the pod's; empty is before any.
	uid string
	// launch is how many pods came before it.
	launch int
	// stamp is that of the last line, count how many lines of that stamp were
	// given in whole, part how many bytes of the one behind those.
	stamp time.Time
	count int
	part  int
	// kept: it is a place in what is kept of the output, so many bytes into it.
	kept  bool
	bytes int64
}

// The members of a cursor.
const (
	cursorPod    = "pod"
	cursorLaunch = "launch"
	cursorStamp  = "stamp"
	cursorCount  = "count"
	cursorPart   = "part"
	cursorBytes  = "bytes"
)

func (p position) cursor(kind string) *sdk.LogCursor {
	c := &sdk.LogCursor{V: sdk.CursorVersion, Kind: kind, Position: map[string]string{cursorPod: p.uid, cursorLaunch: strconv.Itoa(p.launch)}}
	if !p.stamp.IsZero() {
		c.Position[cursorStamp] = p.stamp.Format(time.RFC3339Nano)
		c.Position[cursorCount], c.Position[cursorPart] = strconv.Itoa(p.count), strconv.Itoa(p.part)
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
	for key, to := range map[string]*int{cursorLaunch: &p.launch, cursorCount: &p.count, cursorPart: &p.part} {
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

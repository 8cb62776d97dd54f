package logtail

import (
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"

	"github.com/windlass-run/windlass/sdk"
)

// position is a place in a log: the timestamp and the insert ID of the last
// entry that was given. Both together order entries as Cloud Logging does.
type position struct {
	at time.Time
	id string
}

// The members of a cursor.
const (
	posTime = "time"
	posID   = "id"
)

func positionOf(e *loggingpb.LogEntry) position {
	return position{e.GetTimestamp().AsTime(), e.GetInsertId()}
}

func (p position) compare(q position) int {
	if c := p.at.Compare(q.at); c != 0 {
		return c
	}
	return strings.Compare(p.id, q.id)
}

func readPosition(kind string, c *sdk.LogCursor) (position, error) {
	var p position
	if c == nil {
		return p, nil
	}
	if c.V > sdk.CursorVersion || c.Kind != kind {
		return p, fmt.Errorf("the cursor is of version %d and kind %q", c.V, c.Kind)
	}
	for key, v := range c.Position {
		switch key {
		case posTime:
			at, err := time.Parse(time.RFC3339Nano, v)
			if err != nil {
				return p, fmt.Errorf("the cursor's time is %q", v)
			}
			p.at = at.UTC()
		case posID:
			p.id = v
		default:
			return p, fmt.Errorf("the cursor has an unknown part %q", key)
		}
	}
	if p.at.IsZero() && p.id != "" {
		return p, fmt.Errorf("the cursor has an ID without a time")
	}
	return p, nil
}

func (p position) cursor(kind string) *sdk.LogCursor {
	c := &sdk.LogCursor{V: sdk.CursorVersion, Kind: kind, Position: map[string]string{}}
	if !p.at.IsZero() {
		c.Position[posTime], c.Position[posID] = p.at.UTC().Format(time.RFC3339Nano), p.id
	}
	return c
}

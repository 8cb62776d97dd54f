package logtail

import (
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/windlass-run/windlass/sdk"
)

// position is a place in a stream: CloudWatch's own token, and, for when that
// has expired, the time of the last event and how many events of that time were
// read. Events have no ID there, and many may share a millisecond.
type position struct {
	token        string
	millis, same int64
	// skip is how many events of that time are left out: it is set while the
	// place is found again by time.
	skip int64
}

// The members of a cursor.
const (
	posToken = "token"
	posTime  = "time"
	posSame  = "same"
)

func readPosition(kind string, c *sdk.LogCursor) (position, error) {
	var at position
	if c == nil {
		return at, nil
	}
	if c.V > sdk.CursorVersion || c.Kind != kind {
		return at, fmt.Errorf("the cursor is of version %d and kind %q", c.V, c.Kind)
	}
	for key, v := range c.Position {
		n, err := strconv.ParseInt(v, 10, 64)
		switch key {
		case posToken:
			at.token, err = v, nil
		case posTime:
			at.millis = n
		case posSame:
			at.same = n
		default:
			return at, fmt.Errorf("the cursor has an unknown part %q", key)
		}
		if err != nil || n < 0 && key != posToken {
			return at, fmt.Errorf("the cursor's part %s is %q", key, v)
		}
	}
	if at.token == "" {
		at.skip = at.same
	}
	return at, nil
}

func (at position) cursor(kind string) *sdk.LogCursor {
	c := &sdk.LogCursor{V: sdk.CursorVersion, Kind: kind, Position: map[string]string{}}
	if at.token != "" {
		c.Position[posToken] = at.token
	}
	if at.millis > 0 {
		c.Position[posTime], c.Position[posSame] = strconv.FormatInt(at.millis, 10), strconv.FormatInt(at.same, 10)
	}
	return c
}

// pass notes that an event was read. One that came late doesn't move the place
// back.
func (at *position) pass(millis int64) {
	switch {
	case millis == at.millis:
		at.same++
	case millis > at.millis:
		at.millis, at.same = millis, 1
	}
}

// unseen leaves out what was read before the place was lost.
func (at *position) unseen(events []types.OutputLogEvent) []types.OutputLogEvent {
	for at.skip > 0 && len(events) > 0 {
		t := events[0].Timestamp
		if t == nil || *t > at.millis {
			at.skip = 0
			break
		}
		if *t == at.millis {
			at.skip--
		}
		events = events[1:]
	}
	return events
}

package appplatform

import (
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// line is one line of a log.
type line struct {
	raw  string
	at   time.Time
	text string
}

// parseLine takes the platform's words off a line: COMPONENT TIME TEXT. A line
// without them stays whole and has no time.
// https://docs.digitalocean.com/reference/doctl/reference/apps/logs/
func parseLine(raw string) line {
	l := line{raw: raw, text: raw}
	rest, ok := strings.CutPrefix(raw, jobName+" ")
	if !ok {
		return l
	}
	stamp, text, _ := strings.Cut(rest, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return l
	}
	l.at, l.text = at.UTC(), text
	return l
}

// precise reports whether a line's time tells it from any other: a job writes no
// two lines within a microsecond that are alike.
func (l line) precise() bool { return !l.at.IsZero() && l.at.Nanosecond()%int(time.Millisecond) != 0 }

// position is a place in a log: behind so many lines, the last of which has the
// sum, and none of which is later than at.
type position struct {
	n    int64
	last uint64
	at   time.Time
}

const (
	keyLines = "lines"
	keyLast  = "last"
	keyAt    = "at"
)

func (p position) cursor() *sdk.LogCursor {
	m := map[string]string{keyLines: itoa(p.n), keyLast: strconv.FormatUint(p.last, 16)}
	if !p.at.IsZero() {
		m[keyAt] = itoa(p.at.UnixNano())
	}
	return &sdk.LogCursor{V: sdk.CursorVersion, Kind: Kind, Position: m}
}

// readCursor reads a place; nil is the beginning.
func readCursor(c *sdk.LogCursor) (position, error) {
	var p position
	if c == nil {
		return p, nil
	}
	if c.V > sdk.CursorVersion {
		return p, sdk.Errorf(sdk.FailedPrecondition, opLogs, "cursor of version %d, this program reads up to %d", c.V, sdk.CursorVersion)
	}
	bad := sdk.Errorf(sdk.InvalidArgument, opLogs, "the cursor is none of this kind of log")
	var err error
	if p.n, err = strconv.ParseInt(c.Position[keyLines], 10, 64); err != nil || p.n < 0 || c.Kind != Kind {
		return position{}, bad
	}
	if p.last, err = strconv.ParseUint(c.Position[keyLast], 16, 64); err != nil {
		return position{}, bad
	}
	if text := c.Position[keyAt]; text != "" {
		ns, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return position{}, bad
		}
		p.at = time.Unix(0, ns).UTC()
	}
	return p, nil
}

func sum(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // it never fails
	return h.Sum64()
}

// pass is one reading of a log from its beginning, live or archived, which finds
// what lies behind a place. Live logs may send a line twice.
type pass struct {
	from position
	n    int64
	prev string
	// moved: the log doesn't begin as it did before.
	moved bool
}

// behind reports whether a line is new. gap is true once, where the log is not the
// one that the place was in, so that lines may be missing or come again.
func (p *pass) behind(l line) (fresh, gap bool) {
	if p.n > 0 && l.raw == p.prev && l.precise() {
		return false, false
	}
	p.n, p.prev = p.n+1, l.raw
	switch {
	case p.moved:
	case p.n < p.from.n && !l.at.After(p.from.at):
		return false, false
	case p.n == p.from.n && sum(l.raw) == p.from.last:
		return false, false
	case p.n > p.from.n:
		return true, false
	default:
		p.moved, gap = true, true
	}
	return l.at.After(p.from.at), gap
}

// reached reports whether a reading has come as far as the place.
func (p *pass) reached() bool { return p.n >= p.from.n }

package docker

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// A log is read from a stamp on, and stamps are not unique, so a place in it is
// the last stamp of each stream and how many of its records with that stamp
// were given. Within a stream stamps only grow, unless the engine's clock was
// set back; between streams they don't: all pieces of a long line have the stamp
// of its first.

// slack is how far before the last stamp reading starts again: two streams'
// records are stamped before they are put in order.
const slack = int64(time.Second)

// place is where the reading of one stream stands.
type place struct {
	stamp int64
	// same is how many records with that stamp were given; total is all.
	same, total int64
	// open: the last record was a piece of a line that goes on.
	open bool
	// owed: a newline may be missing behind the last record (see tail.end).
	owed bool
}

// position is where the reading of a log stands.
type position struct {
	out, err place
	// stepped: a stream's stamps went back, so that only counting all records
	// finds the place again.
	stepped bool
}

func (p *position) of(s sdk.Stream) *place {
	if s == sdk.StreamStderr {
		return &p.err
	}
	return &p.out
}

// took moves the position over a record that was given.
func (p *position) took(r record) {
	l := p.of(r.stream)
	switch {
	case l.total > 0 && r.stamp == l.stamp:
		l.same++
	default:
		if l.total > 0 && r.stamp < l.stamp {
			p.stepped = true
		}
		l.stamp, l.same = r.stamp, 1
	}
	l.total++
	ended := len(r.data) > 0 && r.data[len(r.data)-1] == '\n'
	short := len(r.data) < pieceSize
	l.owed = l.open && !ended && short
	l.open = !ended && !short
}

// since is the stamp from which the log must be read to miss nothing: of a
// stream with an open line its own last, for the rest the newest of all.
// Zero is the start.
func (p *position) since() int64 {
	if p.stepped || p.out.total == 0 && p.err.total == 0 {
		return 0
	}
	newest := max(p.out.stamp, p.err.stamp)
	from := newest
	for _, l := range []place{p.out, p.err} {
		if l.total > 0 && l.open {
			from = min(from, l.stamp)
		}
	}
	return max(from-slack, 0)
}

// seek leaves out, of a log that is read again, what was given before.
type seek struct {
	to    position
	since int64
	seen  [2]int64
	done  [2]bool
}

func newSeek(to position) *seek {
	s := &seek{to: to, since: to.since()}
	s.done[0] = to.out.total == 0
	s.done[1] = to.err.total == 0
	return s
}

func streamIndex(s sdk.Stream) int {
	if s == sdk.StreamStderr {
		return 1
	}
	return 0
}

// pass reports whether a record is new. lost is set once where records that
// were given are no longer in the log, so that others may be missing as well.
func (s *seek) pass(r record) (fresh, lost bool) {
	i := streamIndex(r.stream)
	if s.done[i] {
		return true, false
	}
	l := s.to.of(r.stream)
	if s.to.stepped {
		s.seen[i]++
		s.done[i] = s.seen[i] >= l.total
		return false, false
	}
	switch {
	case r.stamp < l.stamp:
		return false, false
	case r.stamp == l.stamp:
		s.seen[i]++
		if s.seen[i] <= l.same {
			return false, false
		}
	}
	s.done[i] = true
	return true, s.missed(i)
}

// missed reports whether a stream's last records should have come again and
// didn't.
func (s *seek) missed(i int) bool {
	l := s.to.out
	if i == 1 {
		l = s.to.err
	}
	if l.total == 0 || l.stamp < s.since {
		return false
	}
	if s.to.stepped {
		return s.seen[i] < l.total
	}
	return s.seen[i] < l.same
}

// lostAtEnd reports whether a log that was read to its end lacks what was given.
func (s *seek) lostAtEnd() bool {
	return !s.done[0] && s.missed(0) || !s.done[1] && s.missed(1)
}

// settle stops a position from expecting what is gone for good.
func (s *seek) settle(p *position) {
	for i, l := range []*place{&p.out, &p.err} {
		if s.done[i] || !s.missed(i) {
			continue
		}
		if p.stepped {
			l.total = s.seen[i]
		}
		l.same = min(s.seen[i], l.total)
	}
}

// The keys of a cursor's position.
const (
	keyOut     = "stdout"
	keyErr     = "stderr"
	keyStepped = "stepped"
)

func (p *position) cursor() *sdk.LogCursor {
	c := &sdk.LogCursor{V: sdk.CursorVersion, Kind: Kind, Position: map[string]string{}}
	if p.out.total > 0 {
		c.Position[keyOut] = p.out.String()
	}
	if p.err.total > 0 {
		c.Position[keyErr] = p.err.String()
	}
	if p.stepped {
		c.Position[keyStepped] = "true"
	}
	return c
}

// String returns the place as it stands in a cursor.
func (l place) String() string {
	flags := ""
	if l.open {
		flags += "o"
	}
	if l.owed {
		flags += "n"
	}
	return fmt.Sprintf("%d %d %d %s", l.stamp, l.same, l.total, flags)
}

func parsePlace(s string) (place, error) {
	var l place
	parts := strings.Split(s, " ")
	if len(parts) != 4 {
		return l, fmt.Errorf("%q is no place in a log", s)
	}
	for i, into := range []*int64{&l.stamp, &l.same, &l.total} {
		n, err := strconv.ParseInt(parts[i], 10, 64)
		if err != nil || n < 0 {
			return l, fmt.Errorf("%q is no place in a log", s)
		}
		*into = n
	}
	for _, c := range parts[3] {
		switch c {
		case 'o':
			l.open = true
		case 'n':
			l.owed = true
		default:
			return l, fmt.Errorf("%q is no place in a log", s)
		}
	}
	if l.same > l.total {
		return l, fmt.Errorf("%q is no place in a log", s)
	}
	return l, nil
}

func parseCursor(c *sdk.LogCursor) (position, error) {
	var p position
	if c == nil {
		return p, nil
	}
	if c.V > sdk.CursorVersion {
		return p, sdk.Errorf(sdk.FailedPrecondition, opLogs, "the cursor is of version %d, this program reads up to %d", c.V, sdk.CursorVersion)
	}
	if c.Kind != Kind {
		return p, sdk.Errorf(sdk.InvalidArgument, opLogs, "the cursor is of the kind %q", c.Kind)
	}
	for k, v := range c.Position {
		var err error
		switch k {
		case keyOut:
			p.out, err = parsePlace(v)
		case keyErr:
			p.err, err = parsePlace(v)
		case keyStepped:
			p.stepped = v == "true"
		default:
			err = fmt.Errorf("unknown member %q", k)
		}
		if err != nil {
			return p, &sdk.Error{Code: sdk.InvalidArgument, Op: opLogs, Field: "cursor", Err: err}
		}
	}
	return p, nil
}

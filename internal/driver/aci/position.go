package aci

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// line is one line of a log as Azure shows it, with its stamp and newline.
type line struct {
	at  time.Time
	raw string // stamp, space, data
	// data is what the job wrote.
	data string
}

// mark tells one line from others: stamps have nanoseconds.
func (l line) mark() string {
	sum := sha256.Sum256([]byte(l.raw))
	return hex.EncodeToString(sum[:6])
}

// whole reports whether the line has its end.
func (l line) whole() bool { return strings.HasSuffix(l.raw, "\n") }

// parseLog cuts a log into lines. cut says that it begins in the middle of a line,
// which is left out.
func parseLog(text string) (lines []line, cut bool) {
	for raw := range strings.Lines(text) {
		stamp, data, ok := strings.Cut(raw, " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		switch {
		case ok && err == nil:
			lines = append(lines, line{at: at, raw: raw, data: data})
		case len(lines) == 0:
			cut = true
		default:
			// No stamp: it goes on with the line before.
			last := &lines[len(lines)-1]
			last.raw, last.data = last.raw+raw, last.data+raw
		}
	}
	return lines, cut
}

// tracks is how many of the last lines a position knows: equal lines with equal
// stamps aren't taken for one another.
const tracks = 8

// position is a place in a log: behind count lines from its beginning, -1 where
// that isn't known, of which the last have these marks. launch counts the logs
// that began anew.
type position struct {
	count  int
	marks  []string
	last   time.Time
	launch int
}

// begun reports whether anything stands before the position.
func (p position) begun() bool { return len(p.marks) > 0 }

// after returns the position behind some lines.
func (p position) after(lines []line) position {
	if len(lines) == 0 {
		return p
	}
	if p.count >= 0 {
		p.count += len(lines)
	}
	marks := slices.Clone(p.marks)
	for _, l := range lines[max(0, len(lines)-tracks):] {
		marks = append(marks, l.mark())
	}
	p.marks, p.last = marks[max(0, len(marks)-tracks):], lines[len(lines)-1].at
	return p
}

// find returns the index of the first line behind the position. whole says that
// the lines are the log from its beginning. ok is false where the place isn't
// among the lines.
func (p position) find(lines []line, whole bool) (next int, ok bool) {
	if !p.begun() {
		return 0, whole
	}
	last := p.marks[len(p.marks)-1]
	if whole && p.count > 0 && p.count <= len(lines) && lines[p.count-1].mark() == last {
		return p.count, true
	}
	for i := len(lines) - 1; i >= 0; i-- {
		if !lines[i].at.Equal(p.last) || lines[i].mark() != last {
			continue
		}
		same := true
		for j := 1; j < len(p.marks) && i-j >= 0 && same; j++ {
			same = lines[i-j].mark() == p.marks[len(p.marks)-1-j]
		}
		if same {
			return i + 1, true
		}
	}
	return 0, false
}

// cursor writes a position.
func (p position) cursor() *sdk.LogCursor {
	m := map[string]string{"count": strconv.Itoa(p.count), "launch": strconv.Itoa(p.launch)}
	if p.begun() {
		m["marks"], m["last"] = strings.Join(p.marks, ","), p.last.UTC().Format(time.RFC3339Nano)
	}
	return &sdk.LogCursor{V: sdk.CursorVersion, Kind: Kind, Position: m}
}

// positionOf reads a cursor; nil is the beginning.
func positionOf(c *sdk.LogCursor) (position, error) {
	if c == nil {
		return position{}, nil
	}
	if c.V > sdk.CursorVersion {
		return position{}, &sdk.Error{Code: sdk.FailedPrecondition, Remedy: "use a newer windlass", Err: fmt.Errorf("cursor of version %d, this program reads up to %d", c.V, sdk.CursorVersion)}
	}
	bad := func() (position, error) {
		return position{}, &sdk.Error{Code: sdk.InvalidArgument, Err: fmt.Errorf("the cursor is none of a log of %s", Kind)}
	}
	if c.Kind != Kind {
		return bad()
	}
	var p position
	var err1, err2, err3 error
	p.count, err1 = strconv.Atoi(c.Position["count"])
	p.launch, err2 = strconv.Atoi(c.Position["launch"])
	if s := c.Position["marks"]; s != "" {
		p.marks = strings.Split(s, ",")
		p.last, err3 = time.Parse(time.RFC3339Nano, c.Position["last"])
	}
	if err1 != nil || err2 != nil || err3 != nil || p.count < -1 || p.launch < 0 || len(p.marks) > tracks || p.count > 0 && !p.begun() {
		return bad()
	}
	return p, nil
}

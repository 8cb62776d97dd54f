package joblog

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/windlass-run/windlass/sdk"
)

// Position is a place in the log of one attempt: reading from it gives every
// later byte once, also after another holder has captured the output again.
// Its text form is opaque and may be kept for as long as the log. The zero
// Position is the start.
type Position struct {
	attempt int
	gaps    int64
	n       int
	few     [3]point
	many    []point
}

// point is a mark without what only the store needs.
type point struct {
	stream      uint8
	launch      uint32
	units, ends int64
}

func positionAt(attempt int, s *state) Position {
	p := Position{attempt: attempt, gaps: s.Gaps, n: len(s.Marks)}
	to := p.few[:]
	if p.n > len(to) {
		p.many = make([]point, p.n)
		to = p.many
	}
	for i := range s.Marks {
		m := &s.Marks[i]
		to[i] = point{stream: m.Stream, launch: m.Launch, units: m.Units, ends: m.Ends}
	}
	return p
}

func (p *Position) points() []point {
	if p.many != nil {
		return p.many
	}
	return p.few[:p.n]
}

// state returns the place; what a Position doesn't carry is zero.
func (p *Position) state() state {
	s := newState()
	s.Gaps = p.gaps
	for _, x := range p.points() {
		*s.mark(x.stream, x.launch) = mark{Stream: x.stream, Launch: x.launch, Units: x.units, Ends: x.ends, Line: x.units}
	}
	return s
}

// IsZero reports whether p is the start of a log.
func (p Position) IsZero() bool { return p.n == 0 && p.gaps == 0 }

// Attempt returns the attempt whose log p belongs to; 0 for the zero Position.
func (p Position) Attempt() int { return p.attempt }

const positionVersion = 1

// String returns the text form; the zero Position's is empty.
func (p Position) String() string {
	if p.IsZero() && p.attempt == 0 {
		return ""
	}
	b := make([]byte, 0, 64)
	b = append(b, positionVersion)
	b = binary.AppendUvarint(b, uint64(p.attempt))
	b = binary.AppendUvarint(b, uint64(p.gaps))
	for _, x := range p.points() {
		b = append(b, x.stream)
		b = binary.AppendUvarint(b, uint64(x.launch))
		b = binary.AppendUvarint(b, uint64(x.units))
		b = binary.AppendUvarint(b, uint64(x.ends))
	}
	b = binary.LittleEndian.AppendUint16(b, uint16(crc32.Checksum(b, castagnoli)))
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParsePosition reads the text form; anything else is InvalidArgument, and a
// position of a newer version FailedPrecondition.
func ParsePosition(text string) (Position, error) {
	if text == "" {
		return Position{}, nil
	}
	bad := func(why string) (Position, error) {
		return Position{}, &sdk.Error{Code: sdk.InvalidArgument, Op: "parse log position",
			Remedy: "give it as it was printed", Err: fmt.Errorf("%.80q: %s", text, why)}
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 5 {
		return bad("not a position")
	}
	body := b[:len(b)-2]
	if binary.LittleEndian.Uint16(b[len(b)-2:]) != uint16(crc32.Checksum(body, castagnoli)) {
		return bad("its checksum is wrong")
	}
	if body[0] != positionVersion {
		return Position{}, &sdk.Error{Code: sdk.FailedPrecondition, Op: "parse log position", Remedy: "use a newer windlass",
			Err: fmt.Errorf("version %d, this program reads %d", body[0], positionVersion)}
	}
	rest := body[1:]
	number := func(limit uint64) uint64 {
		v, n := binary.Uvarint(rest)
		if n <= 0 || v > limit {
			rest, err = nil, fmt.Errorf("a number is out of range")
			return 0
		}
		rest = rest[n:]
		return v
	}
	const most = 1<<62 - 1
	p := Position{attempt: int(number(1<<31 - 1)), gaps: int64(number(most))}
	s := newState()
	s.Gaps = p.gaps
	for len(rest) > 0 && err == nil {
		m := mark{Stream: rest[0]}
		rest = rest[1:]
		m.Launch = uint32(number(1<<32 - 1))
		m.Units = int64(number(most))
		m.Ends = int64(number(most))
		s.Marks = append(s.Marks, m)
	}
	if err != nil || !s.valid() {
		return bad("it makes no sense")
	}
	return positionAt(p.attempt, &s), nil
}

// MarshalText implements encoding.TextMarshaler.
func (p Position) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Position) UnmarshalText(b []byte) error {
	v, err := ParsePosition(string(b))
	if err != nil {
		return err
	}
	*p = v
	return nil
}

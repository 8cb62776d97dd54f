package joblog

import (
	"bytes"
	"slices"
)

// mark is how far one stream of one launch has come.
type mark struct {
	Stream uint8  `json:"s"`
	Launch uint32 `json:"l,omitempty"`
	// Units is the number of bytes and of stripped newlines before the place.
	Units int64 `json:"u"`
	// Ends is the number of stripped newlines among them.
	Ends int64 `json:"e,omitempty"`
	// Line is the unit at which the line starts that the place is in.
	Line int64 `json:"n"`
}

func (m *mark) valid() bool {
	return int(m.Stream) < len(streams) && m.Ends >= 0 && m.Units >= m.Ends && m.Line >= 0 && m.Line <= m.Units
}

// data is the number of bytes, without stripped newlines.
func (m *mark) data() int64 { return m.Units - m.Ends }

func compareKeys(a, b *mark) int {
	if a.Stream != b.Stream {
		return int(a.Stream) - int(b.Stream)
	}
	switch {
	case a.Launch < b.Launch:
		return -1
	case a.Launch > b.Launch:
		return 1
	}
	return 0
}

// state is a place in a log and what is known of the log before it.
type state struct {
	// Marks are sorted by stream and launch; a missing one is at zero.
	Marks []mark `json:"marks,omitempty"`
	// Gaps counts the gaps that the backend told of.
	Gaps int64 `json:"gaps,omitempty"`
	// Lost counts the bytes that didn't fit on the disk.
	Lost int64 `json:"lost,omitempty"`
	// Missed, in the place of a log's end, is what gaps told of that didn't fit on
	// the disk before it, in bytes; -1 is unknown.
	Missed int64 `json:"missed,omitempty"`
	// Newest is the greatest time of any entry.
	Newest stamp `json:"newest"`
	// Untimed: some entries came before any time was known.
	Untimed bool `json:"untimed,omitempty"`

	hint int
}

func newState() state { return state{Newest: unknownTime} }

func (s *state) valid() bool {
	for i := range s.Marks {
		if !s.Marks[i].valid() || (i > 0 && compareKeys(&s.Marks[i-1], &s.Marks[i]) >= 0) {
			return false
		}
	}
	return s.Gaps >= 0 && s.Lost >= 0
}

// set makes s a copy of t that shares nothing with it.
func (s *state) set(t *state) {
	marks := append(s.Marks[:0], t.Marks...)
	*s = *t
	s.Marks = marks
}

func (s *state) clone() state {
	var c state
	c.set(s)
	return c
}

func (s *state) find(stream uint8, launch uint32) (int, bool) {
	if h := s.hint; h < len(s.Marks) && s.Marks[h].Stream == stream && s.Marks[h].Launch == launch {
		return h, true
	}
	key := mark{Stream: stream, Launch: launch}
	i, ok := slices.BinarySearchFunc(s.Marks, &key, func(m mark, k *mark) int { return compareKeys(&m, k) })
	if ok {
		s.hint = i
	}
	return i, ok
}

// mark returns the mark of a stream, made at zero if need be. It is good until
// the next call.
func (s *state) mark(stream uint8, launch uint32) *mark {
	i, ok := s.find(stream, launch)
	if !ok {
		s.Marks = slices.Insert(s.Marks, i, mark{Stream: stream, Launch: launch})
		s.hint = i
	}
	return &s.Marks[i]
}

// get returns the mark of a stream by value.
func (s *state) get(m *mark) mark {
	if i, ok := s.find(m.Stream, m.Launch); ok {
		return s.Marks[i]
	}
	return mark{Stream: m.Stream, Launch: m.Launch}
}

// entry moves s behind an entry.
func (s *state) entry(f *frame) *mark {
	m := s.mark(f.stream, f.launch)
	if i := bytes.LastIndexByte(f.data, '\n'); i >= 0 {
		m.Line = m.Units + int64(i) + 1
	}
	m.Units += int64(len(f.data))
	if f.stripped() {
		m.Units++
		m.Ends++
		m.Line = m.Units
	}
	if s.Newest.before(f.at) {
		s.Newest = f.at
	} else if !s.Newest.known() {
		s.Untimed = true
	}
	return m
}

// jump moves s behind a loss and returns the number of bytes lost.
func (s *state) jump(b *lossBody) int64 {
	var lost int64
	for i := range b.End {
		to := &b.End[i]
		m := s.mark(to.Stream, to.Launch)
		if to.Units > m.Units {
			lost += max(to.data()-m.data(), 0)
			*m = *to
		}
	}
	s.Gaps = max(s.Gaps, b.Gaps)
	s.Lost += lost
	return lost
}

// advance moves s behind a frame of any kind.
func (s *state) advance(f *frame) error {
	switch f.kind {
	case kindEntry:
		s.entry(f)
	case kindGap:
		s.Gaps++
	case kindLoss:
		b, err := f.loss()
		if err != nil {
			return err
		}
		s.jump(&b)
	}
	return nil
}

// holds reports whether s is at t or behind it in every stream.
func (s *state) holds(t *state) bool {
	return s.Gaps >= t.Gaps && s.holdsBytes(t)
}

func (s *state) holdsBytes(t *state) bool {
	for i := range t.Marks {
		m := s.get(&t.Marks[i])
		if m.Units < t.Marks[i].Units {
			return false
		}
	}
	return true
}

func (s *state) equals(t *state) bool { return s.holds(t) && t.holds(s) }

// addMissed adds what a gap tells of; unknown and anything are unknown.
func addMissed(a, b int64) int64 {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}

// missing counts the bytes of the streams in mask that lie between s and t.
func (s *state) missing(t *state, mask streamMask) int64 {
	var n int64
	for i := range t.Marks {
		to := &t.Marks[i]
		if from := s.get(to); mask.has(to.Stream) && to.Units > from.Units {
			n += max(to.data()-from.data(), 0)
		}
	}
	return n
}

// lacks reports whether t knows of anything in mask that s doesn't: bytes,
// empty lines, or gaps.
func (s *state) lacks(t *state, mask streamMask) bool {
	for i := range t.Marks {
		if m := s.get(&t.Marks[i]); mask.has(t.Marks[i].Stream) && m.Units < t.Marks[i].Units {
			return true
		}
	}
	return t.Gaps > s.Gaps
}

// raise moves s to t in every stream in which it is before t.
func (s *state) raise(t *state) {
	for i := range t.Marks {
		s.raiseMark(&t.Marks[i])
	}
	s.Gaps = max(s.Gaps, t.Gaps)
	s.Lost = max(s.Lost, t.Lost)
	if s.Newest.before(t.Newest) {
		s.Newest = t.Newest
	}
}

func (s *state) raiseMark(to *mark) {
	if m := s.mark(to.Stream, to.Launch); m.Units < to.Units {
		*m = *to
	}
}

// streamMask is a set of streams.
type streamMask uint8

const allStreams streamMask = 1<<len(streams) - 1

func (m streamMask) has(stream uint8) bool { return m&(1<<stream) != 0 }

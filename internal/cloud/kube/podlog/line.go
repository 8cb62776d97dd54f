package podlog

import (
	"bytes"
	"time"
)

// maxPiece is the most of a line that is held back: a longer one comes in pieces.
const maxPiece = 64 << 10

// maxStamp is longer than any stamp.
const maxStamp = 64

// piece is a part of a line of a log.
type piece struct {
	stamp time.Time
	data  []byte
	// whole: it ends the line.
	whole bool
}

// splitter takes a log's bytes as they come and gives its lines without their
// stamps. A line that isn't whole yet is held back, up to maxPiece.
type splitter struct {
	buf   []byte
	stamp time.Time
	// inside: the stamp of the line in buf was read.
	inside bool
}

// write takes bytes and gives what they complete. ok is false where a line has no
// stamp: then it is no line of the job's, but a word of the kubelet.
func (s *splitter) write(data []byte, give func(piece) bool) (more, ok bool) {
	s.buf = append(s.buf, data...)
	for {
		if !s.inside {
			i := bytes.IndexByte(s.buf, ' ')
			if i < 0 {
				if j := bytes.IndexByte(s.buf, '\n'); j < 0 && len(s.buf) < maxStamp {
					return true, true
				}
				return true, false
			}
			t, err := time.Parse(time.RFC3339Nano, string(s.buf[:i]))
			if err != nil {
				return true, false
			}
			s.stamp, s.inside, s.buf = t, true, s.buf[i+1:]
		}
		i := bytes.IndexByte(s.buf, '\n')
		switch {
		case i >= 0:
			p := piece{stamp: s.stamp, data: s.buf[:i], whole: true}
			s.buf, s.inside = s.buf[i+1:], false
			if !give(p) {
				return false, true
			}
		case len(s.buf) >= maxPiece:
			p := piece{stamp: s.stamp, data: s.buf}
			s.buf = nil
			if !give(p) {
				return false, true
			}
		default:
			return true, true
		}
	}
}

// rest is what is held back of a line that was never ended.
func (s *splitter) rest() (piece, bool) {
	return piece{stamp: s.stamp, data: s.buf}, s.inside && len(s.buf) > 0
}

// sieve leaves out what was given before a log was opened again.
type sieve struct {
	from position
	// seen counts whole lines that were given before, part bytes of the one that was
	// given in part; past is behind that.
	seen, part int
	past       bool
	// there is the place behind the lines that were still there.
	there position
	// met: the place where it resumes was there. Else what lies between is lost.
	met bool
}

func newSieve(from position) *sieve {
	return &sieve{from: from, there: position{uid: from.uid, launch: from.launch}, met: from.stamp.IsZero()}
}

// pass returns the part of a piece that is new. gap: lines before it are lost.
func (s *sieve) pass(p piece) (fresh []byte, isNew, gap bool) {
	given, later := s.from.before+s.from.count, p.stamp.After(s.from.stamp)
	switch {
	case s.seen < given && later:
		// What was given is no longer there.
		s.seen, s.past = given, true
	case s.seen < given:
		if p.whole {
			s.seen++
			s.there = s.there.advance(p, nil)
		}
		s.met = s.seen == given && s.from.part == 0 || s.met
		return nil, false, false
	case s.from.part > 0 && !s.past && later:
		s.past = true
	case s.from.part > 0 && !s.past:
		s.met = true
		skip := min(max(s.from.part-s.part, 0), len(p.data))
		s.part += len(p.data)
		s.past = p.whole
		return p.data[skip:], p.whole || skip < len(p.data), false
	}
	gap = !s.met
	s.met = true
	return p.data, true, gap
}

package podlog

import (
	"bytes"
	"strings"
	"time"
)

// maxPiece is the most of a line that is held back: a longer one comes in pieces.
const maxPiece = 64 << 10

// maxStamp is longer than any stamp.
const maxStamp = 64

// maxWords bounds what is kept of words that are no line of a log.
const maxWords = 200

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
	// resumed: the log was opened at a later time than its beginning. Then the first
	// line may be the rest of one that began before, whose parts have stamps of their
	// own in the file and whose beginning alone is served with one: it was given, with
	// the line. strayed is what of it is kept, should nothing with a stamp follow.
	resumed, stray bool
	strayed        []byte
}

// write takes bytes and gives what they complete. ok is false where a line has no
// stamp: then it is no line of the job's, but a word of the kubelet.
func (s *splitter) write(data []byte, give func(piece) bool) (more, ok bool) {
	s.buf = append(s.buf, data...)
	for {
		if !s.inside && !s.stray {
			switch stamp, n, known := cutStamp(s.buf); {
			case known && n > 0:
				s.stamp, s.inside, s.resumed, s.strayed, s.buf = stamp, true, false, nil, s.buf[n:]
			case !known:
				return true, true
			case !s.resumed:
				return true, false
			default:
				s.stray = true
			}
		}
		if s.stray {
			if !s.skip() {
				return true, true
			}
			continue
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

// cutStamp reads the stamp that a line begins with, and how many bytes it and the blank
// behind it have; none where there is no stamp. known is false where it takes more of
// the line to tell.
func cutStamp(line []byte) (stamp time.Time, n int, known bool) {
	i := bytes.IndexByte(line, ' ')
	if i < 0 {
		return stamp, 0, bytes.IndexByte(line, '\n') >= 0 || len(line) >= maxStamp
	}
	stamp, err := time.Parse(time.RFC3339Nano, string(line[:i]))
	if err != nil {
		return time.Time{}, 0, true
	}
	return stamp, i + 1, true
}

// skip drops the rest of a line that began before. It reports whether its end was
// there.
func (s *splitter) skip() bool {
	i := bytes.IndexByte(s.buf, '\n')
	drop := s.buf
	if i >= 0 {
		drop = s.buf[:i+1]
	}
	s.strayed = append(s.strayed, drop[:min(len(drop), maxWords-len(s.strayed))]...)
	s.buf = s.buf[len(drop):]
	s.stray, s.resumed = i < 0, i < 0
	return i >= 0
}

// words are what came in place of a log, where all that came has no stamp.
func (s *splitter) words() string {
	text := s.strayed
	if !s.inside && len(text) == 0 {
		text = s.buf
	}
	return strings.Join(strings.Fields(string(text[:min(len(text), maxWords)])), " ")
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

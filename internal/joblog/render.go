package joblog

import (
	"bytes"

	"github.com/windlass-run/windlass/sdk"
)

// TimeLayout is how a Renderer writes times: RFC 3339 in UTC with nine digits
// behind the second, so that times line up and sort.
const TimeLayout = "2006-01-02T15:04:05.000000000Z07:00"

// Renderer turns chunks into what a person sees. Bytes pass as they are, valid
// UTF-8 or not; a newline is added only where the backend took one off. With
// Timestamps each line starts with its time and a space, a line that comes in
// several chunks once; "-" stands for a time that is unknown. One Renderer
// serves all streams of one attempt; it is not safe for concurrent use.
type Renderer struct {
	Timestamps bool

	open map[streamKey]bool // streams that are within a line
}

type streamKey struct {
	stream sdk.Stream
	launch int
}

// Append appends a chunk to dst as it is shown.
func (r *Renderer) Append(dst []byte, c *sdk.LogChunk) []byte {
	stripped := c.LineEnd == sdk.LineEndStripped
	if !r.Timestamps {
		dst = append(dst, c.Data...)
		if stripped {
			dst = append(dst, '\n')
		}
		return dst
	}
	if r.open == nil {
		r.open = map[streamKey]bool{}
	}
	key := streamKey{c.Stream, c.Launch}
	within := r.open[key]
	for data := c.Data; len(data) > 0; {
		if !within {
			dst = appendTime(dst, c)
		}
		i := bytes.IndexByte(data, '\n') + 1
		within = i == 0
		if within {
			i = len(data)
		}
		dst = append(dst, data[:i]...)
		data = data[i:]
	}
	if stripped {
		if !within {
			dst = appendTime(dst, c)
		}
		dst = append(dst, '\n')
		within = false
	}
	r.open[key] = within
	return dst
}

func appendTime(dst []byte, c *sdk.LogChunk) []byte {
	if c.Time.IsZero() {
		return append(dst, "- "...)
	}
	return append(c.Time.UTC().AppendFormat(dst, TimeLayout), ' ')
}

// LineSplitter joins the chunks of each stream to lines of any length.
// It is not safe for concurrent use.
type LineSplitter struct {
	// Max is the most bytes of one Line; longer lines come in parts. 0 is
	// DefaultMaxLine.
	Max int

	part map[streamKey]*Line
	keys []streamKey
}

// DefaultMaxLine is the default of LineSplitter.Max.
const DefaultMaxLine = 1 << 20

// Line is a line of output, or a part of one.
type Line struct {
	sdk.LogChunk
	// Continued says that more of the same line follows: this is the line's
	// beginning or middle, cut at LineSplitter.Max.
	Continued bool
	// Partial says that the log stops here without a newline.
	Partial bool
}

// Add gives each line that a chunk completes to emit, without its newline, with
// the time at which it began and LineEnd stripped. Data is good until emit
// returns. It stops early and returns false when emit does.
func (s *LineSplitter) Add(c *sdk.LogChunk, emit func(Line) bool) bool {
	key := streamKey{c.Stream, c.Launch}
	p := s.part[key]
	data := c.Data
	for {
		i := bytes.IndexByte(data, '\n')
		if i < 0 {
			break
		}
		if !s.end(p, c, data[:i], emit) {
			return false
		}
		data = data[i+1:]
	}
	if c.LineEnd == sdk.LineEndStripped {
		return s.end(p, c, data, emit)
	}
	if len(data) == 0 {
		return true
	}
	if p == nil {
		if s.part == nil {
			s.part = map[streamKey]*Line{}
		}
		p = &Line{}
		s.part[key] = p
		s.keys = append(s.keys, key)
	}
	if len(p.Data) == 0 && !p.Continued {
		p.LogChunk = sdk.LogChunk{Time: c.Time, Stream: c.Stream, Launch: c.Launch, Data: p.Data, LineEnd: sdk.LineEndStripped}
	}
	p.Data = append(p.Data, data...)
	return s.cut(p, emit)
}

func (s *LineSplitter) max() int {
	if s.Max > 0 {
		return s.Max
	}
	return DefaultMaxLine
}

// cut emits what of a line is too long to be held.
func (s *LineSplitter) cut(p *Line, emit func(Line) bool) bool {
	most := s.max()
	done := 0
	for len(p.Data)-done > most {
		l := Line{LogChunk: p.LogChunk, Continued: true}
		l.Data, l.LineEnd = p.Data[done:done+most], sdk.LineEndKept
		done += most
		p.Continued = true
		if !emit(l) {
			return false
		}
	}
	p.Data = p.Data[:copy(p.Data, p.Data[done:])]
	return true
}

// end emits a line that ends with data.
func (s *LineSplitter) end(p *Line, c *sdk.LogChunk, data []byte, emit func(Line) bool) bool {
	if p == nil || (len(p.Data) == 0 && !p.Continued) {
		l := Line{LogChunk: *c}
		l.Data, l.LineEnd = data, sdk.LineEndStripped
		if len(data) <= s.max() {
			return emit(l)
		}
		l.Data = append([]byte(nil), data...)
		if !s.cut(&l, emit) {
			return false
		}
		l.Continued = false
		return emit(l)
	}
	p.Data = append(p.Data, data...)
	if !s.cut(p, emit) {
		return false
	}
	l := Line{LogChunk: p.LogChunk}
	p.Data, p.Continued = p.Data[:0], false
	return emit(l)
}

// End emits what is left of lines that have no newline, at the end of a log or
// before a gap.
func (s *LineSplitter) End(emit func(Line) bool) bool {
	for _, key := range s.keys {
		p := s.part[key]
		if len(p.Data) == 0 && !p.Continued {
			continue
		}
		l := Line{LogChunk: p.LogChunk, Partial: true}
		l.LineEnd = sdk.LineEndKept
		p.Data, p.Continued = p.Data[:0], false
		if !emit(l) {
			return false
		}
	}
	return true
}

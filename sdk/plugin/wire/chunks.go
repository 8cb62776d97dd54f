package wire

import (
	"iter"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
)

const (
	// itemSize is what an item of a log counts for besides its output, in bytes.
	itemSize = 32
	// shareSize is from how many bytes on output has chunks of its own, and is not copied.
	shareSize = 16 << 10
	// chunksAtOnce is for how many pieces memory is taken at once: a message that says it
	// has millions of them, all empty, takes no more.
	chunksAtOnce = 256
)

// chunks puts entries together that are of one stream and follow each other. Each line
// as a message of its own costs several times what its bytes do.
type chunks struct {
	last *pb.LogChunks // takes more
}

// end has the next entry begin anew.
func (l *chunks) end() { l.last = nil }

// add puts an entry behind those before it, if it may and they go together; else it
// returns it as the first of new ones, which perhaps share its bytes. It takes nothing
// when something is wrong.
func (l *chunks) add(c *coder, e *sdk.LogChunk, may bool) (fresh *pb.LogChunks, shares bool) {
	at := c.nanos("entry.time", e.Time)
	launch := c.int32("entry.launch", e.Launch)
	joins := may && l.last != nil && len(e.Data) < shareSize && len(l.last.Data)+len(e.Data) <= MaxLogData &&
		l.last.Stream == string(e.Stream) && l.last.LineEnd == string(e.LineEnd) && l.last.Launch == launch
	if !joins {
		c.line("entry.stream", string(e.Stream))
		c.line("entry.line_end", string(e.LineEnd))
	}
	if c.err != nil {
		return nil, false
	}
	if joins {
		l.push(e.Data, at)
		return nil, false
	}
	fresh = &pb.LogChunks{Stream: string(e.Stream), LineEnd: string(e.LineEnd), Launch: launch}
	l.last = fresh
	if len(e.Data) < shareSize {
		l.push(e.Data, at)
		return fresh, false
	}
	l.push(nil, at)
	fresh.Data, fresh.Sizes[0] = e.Data, uint32(len(e.Data)) //nolint:gosec // at most MaxLogData
	l.end()
	return fresh, true
}

func (l *chunks) push(data []byte, at int64) {
	m := l.last
	if at != 0 && m.Times == nil {
		m.Times = make([]int64, len(m.Sizes), len(m.Sizes)+1) // those before it have none
	}
	if m.Times != nil {
		m.Times = append(doubled(m.Times, 1), at)
	}
	m.Data = append(doubled(m.Data, len(data)), data...)
	m.Sizes = append(doubled(m.Sizes, 1), uint32(len(data))) //nolint:gosec // at most MaxLogData
}

// doubled has room for n more. Where it is made there will be more: append itself would
// take a quarter more at a time.
func doubled[T any](list []T, n int) []T {
	if cap(list)-len(list) < n && len(list) > 0 {
		return slices.Grow(list, max(n, len(list)))
	}
	return list
}

// nanos is 0 for a time that is unknown.
func (c *coder) nanos(field string, t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	n := t.UnixNano()
	if !time.Unix(0, n).Equal(t) {
		c.fail(field, "the time is outside of the years 1678 to 2262")
	}
	return n
}

// unlogChunks gives the pieces, and says which is the last; none where something is wrong.
func (c *coder) unlogChunks(m *pb.LogChunks) iter.Seq2[*sdk.LogChunk, bool] {
	return func(yield func(*sdk.LogChunk, bool) bool) {
		c.nothingElse("entries", m)
		sizes, times, data := m.GetSizes(), m.GetTimes(), m.GetData()
		c.pieces(sizes, times, len(data))
		e := sdk.LogChunk{Launch: c.count("entries.launch", m.GetLaunch()),
			Stream:  word(m.GetStream(), sdk.StreamCombined, sdk.StreamStdout, sdk.StreamStderr, sdk.StreamSystem),
			LineEnd: word(m.GetLineEnd(), sdk.LineEndKept, sdk.LineEndStripped)}
		if c.err != nil {
			return
		}
		var room []sdk.LogChunk
		for n, size := range sizes {
			if len(room) == 0 {
				room = make([]sdk.LogChunk, min(len(sizes)-n, chunksAtOnce))
			}
			piece := &room[0]
			room = room[1:]
			*piece = e
			piece.Data, data = data[:size:size], data[size:]
			if len(times) > 0 && times[n] != 0 {
				piece.Time = time.Unix(0, times[n]).UTC()
			}
			if !yield(piece, n == len(sizes)-1) {
				return
			}
		}
	}
}

// pieces refuses columns that don't fit together.
func (c *coder) pieces(sizes []uint32, times []int64, data int) {
	sum := 0
	for _, n := range sizes {
		if sum += int(n); sum > math.MaxInt32 {
			break
		}
	}
	switch {
	case len(sizes) == 0:
		c.fail("entries.sizes", "there are no pieces")
	case sum != data:
		c.fail("entries.sizes", "the pieces have other than the %d bytes of data", data)
	case len(times) != 0 && len(times) != len(sizes):
		c.fail("entries.times", "%d stamps for %d pieces", len(times), len(sizes))
	}
}

// nothingElse refuses a part of a log with a field that this program doesn't know: it may
// be output, or say that some is missing.
func (c *coder) nothingElse(field string, m proto.Message) {
	if hasUnknown(m.ProtoReflect()) {
		c.fail(field, "has a field that this program doesn't know: use the same version of Windlass on both sides")
	}
}

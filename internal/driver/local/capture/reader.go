package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// maxFrame bounds what a header may claim.
const maxFrame = HeaderSize + 1<<20

// Reader reads frames, also while a Writer appends.
type Reader struct {
	f     io.ReaderAt
	table *crc32.Table
	buf   []byte
	// pos is where buf[0] stands in the file, at how much of buf is used.
	pos int64
	at  int
}

// NewReader returns a reader from an offset on, which is zero or a Reader's
// Offset.
func NewReader(f io.ReaderAt, offset int64) *Reader {
	return &Reader{f: f, table: castagnoli(), pos: offset}
}

// Offset is the place behind the last frame that Next returned.
func (r *Reader) Offset() int64 { return r.pos + int64(r.at) }

// Buffered reports whether Next returns another frame without reading.
func (r *Reader) Buffered() bool {
	_, ok := r.whole()
	return ok
}

// Next returns the next frame. It is io.EOF when there is no whole one: the
// writer may still be at it, and Next can be called again. A final reader knows
// that nobody writes any more: what is torn or damaged comes as a gap then.
func (r *Reader) Next(final bool) (Frame, error) {
	frame, ok := r.whole()
	if !ok {
		if err := r.fill(); err != nil {
			return Frame{}, err
		}
		if frame, ok = r.whole(); !ok {
			if len(r.buf) == 0 || !final {
				return Frame{}, io.EOF
			}
			return r.skip()
		}
	}
	k, s := kind(frame[4]), streamOf(frame[5])
	t := time.Unix(0, int64(binary.LittleEndian.Uint64(frame[12:])))
	r.at += len(frame)
	if k == kindGap {
		return Frame{Stream: s, Time: t, Gap: getGap(frame[HeaderSize:])}, nil
	}
	return Frame{Stream: s, Time: t, Data: frame[HeaderSize:]}, nil
}

// whole returns the frame at the front of the buffer if it is all there and
// sound.
func (r *Reader) whole() ([]byte, bool) {
	b := r.buf[r.at:]
	n, ok := size(b)
	if !ok || len(b) < n {
		return nil, false
	}
	if binary.LittleEndian.Uint32(b[20:]) != checksum(b[:n], r.table) {
		return nil, false
	}
	return b[:n:n], true
}

// size returns the size of the frame that a header claims, if it is a header.
func size(b []byte) (int, bool) {
	if len(b) < HeaderSize || string(b[:4]) != magic {
		return 0, false
	}
	n := int64(binary.LittleEndian.Uint32(b[8:])) + HeaderSize
	switch k := kind(b[4]); {
	case n > maxFrame, k != kindOutput && k != kindGap, k == kindGap && n != HeaderSize+gapSize:
		return 0, false
	}
	return int(n), true
}

// fill reads on from the first unused byte. What was read of a torn frame is
// read again, since its writer may have taken it back.
func (r *Reader) fill() error {
	r.pos += int64(r.at)
	r.at = 0
	if r.buf == nil {
		r.buf = make([]byte, 0, 64<<10)
	}
	for {
		n, err := r.f.ReadAt(r.buf[:cap(r.buf)], r.pos)
		r.buf = r.buf[:n]
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n < cap(r.buf) || cap(r.buf) >= maxFrame {
			return nil
		}
		if want, ok := size(r.buf); ok && want <= n {
			return nil
		}
		r.buf = make([]byte, 0, maxFrame)
	}
}

// skip passes over what is no frame, to the next sound one or to the end.
func (r *Reader) skip() (Frame, error) {
	gap := Frame{Stream: sdk.StreamCombined, Gap: &Gap{Bytes: -1, Why: WhyDamaged}}
	for r.at = 1; ; {
		i := bytes.Index(r.buf[min(r.at, len(r.buf)):], []byte(magic))
		if i >= 0 {
			r.at += i
			if r.at > 0 {
				// What is behind it may not be in the buffer yet.
				if err := r.fill(); err != nil {
					return Frame{}, err
				}
			}
			if _, ok := r.whole(); ok {
				return gap, nil
			}
			r.at = 1
			continue
		}
		r.at = max(len(r.buf)-len(magic)+1, 1)
		if len(r.buf) < cap(r.buf) {
			r.at = len(r.buf)
			return gap, nil
		}
		if err := r.fill(); err != nil {
			return Frame{}, err
		}
		if len(r.buf) == 0 {
			return gap, nil
		}
		r.at = 0
	}
}

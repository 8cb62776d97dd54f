package docker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// The engine's log stream is a row of frames, each with a header of eight bytes
// (the stream, three zeros, the length) and one record: a stamp, a space, and
// the bytes of one line or of a part of one.
// https://docs.docker.com/reference/api/engine/version/v1.41/#tag/Container/operation/ContainerAttach

const (
	frameHeader = 8
	frameOut    = 1
	frameErr    = 2
	frameSystem = 3
	// maxFrame bounds a record: the engine's are 16 KiB and a stamp.
	maxFrame = 16 << 20
	// maxStamp is the length within which a stamp must end.
	maxStamp = 40
	// pieceSize is where the engine cuts lines: a piece of this size without a
	// newline is continued by the next.
	pieceSize = 16 << 10

	readBuffer = 64 << 10
)

// record is one entry of a log as the engine keeps it. Its data is valid until
// the next one is read, and the byte before it is free to be written.
type record struct {
	stream sdk.Stream
	stamp  int64 // nanoseconds since 1970
	data   []byte
	// room is data with one byte in front.
	room []byte
}

// errUnreadable is wrapped by errors that are no break of the connection: the
// engine can't read the log, or what it sends has another form.
var errUnreadable = errors.New("unreadable log")

// frames reads records.
type frames struct {
	r    *bufio.Reader
	head [frameHeader]byte
	buf  []byte
}

func newFrames(r io.Reader) *frames { return &frames{r: bufio.NewReaderSize(r, readBuffer)} }

// drained reports whether the next record is not here yet.
func (f *frames) drained() bool { return f.r.Buffered() == 0 }

// next returns the next record. The end of the stream between two records is
// io.EOF, within one io.ErrUnexpectedEOF.
func (f *frames) next() (record, error) {
	for {
		h := &f.head
		if _, err := io.ReadFull(f.r, h[:]); err != nil {
			return record{}, err
		}
		size := binary.BigEndian.Uint32(h[4:])
		if h[1] != 0 || h[2] != 0 || h[3] != 0 || size > maxFrame {
			return record{}, fmt.Errorf("%w: header % x", errUnreadable, h[:])
		}
		if cap(f.buf) < int(size) {
			f.buf = make([]byte, size, max(int(size), pieceSize+maxStamp))
		}
		buf := f.buf[:size]
		if _, err := io.ReadFull(f.r, buf); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return record{}, err
		}
		switch h[0] {
		case frameOut:
			return parseRecord(sdk.StreamStdout, buf)
		case frameErr:
			return parseRecord(sdk.StreamStderr, buf)
		case frameSystem:
			return record{}, fmt.Errorf("%w: the engine says: %s", errUnreadable, bytes.TrimSpace(buf))
		default:
			return record{}, fmt.Errorf("%w: stream %d", errUnreadable, h[0])
		}
	}
}

func parseRecord(stream sdk.Stream, buf []byte) (record, error) {
	i := bytes.IndexByte(buf[:min(len(buf), maxStamp)], ' ')
	if i < 0 {
		return record{}, fmt.Errorf("%w: a record has no stamp", errUnreadable)
	}
	stamp, ok := parseStamp(buf[:i])
	if !ok {
		return record{}, fmt.Errorf("%w: stamp %q", errUnreadable, buf[:i])
	}
	return record{stream: stream, stamp: stamp, data: buf[i+1:], room: buf[i:]}, nil
}

// stampForm is how the engine writes stamps: with all nine digits, in UTC.
const stampForm = "2006-01-02T15:04:05.000000000Z"

// parseStamp returns a stamp's nanoseconds since 1970. The engine's own form is
// read without the cost of the general one: there is a stamp on every line.
func parseStamp(b []byte) (int64, bool) {
	if len(b) == len(stampForm) {
		ok := true
		num := func(from, to int) int {
			n := 0
			for _, c := range b[from:to] {
				ok = ok && c >= '0' && c <= '9'
				n = n*10 + int(c-'0')
			}
			return n
		}
		for _, i := range []int{4, 7, 10, 13, 16, 19, 29} {
			ok = ok && b[i] == stampForm[i]
		}
		year, month, day := num(0, 4), num(5, 7), num(8, 10)
		hour, minute, second, ns := num(11, 13), num(14, 16), num(17, 19), num(20, 29)
		if ok && year >= 1970 && year < 2262 && month >= 1 && month <= 12 && day >= 1 && day <= 31 && hour < 24 && minute < 60 && second < 60 {
			return time.Date(year, time.Month(month), day, hour, minute, second, ns, time.UTC).UnixNano(), true
		}
	}
	t, err := time.Parse(time.RFC3339Nano, string(b))
	return t.UnixNano(), err == nil
}

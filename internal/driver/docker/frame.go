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
	r   *bufio.Reader
	buf []byte
}

func newFrames(r io.Reader) *frames { return &frames{r: bufio.NewReaderSize(r, readBuffer)} }

// drained reports whether the next record is not here yet.
func (f *frames) drained() bool { return f.r.Buffered() == 0 }

// next returns the next record. The end of the stream between two records is
// io.EOF, within one io.ErrUnexpectedEOF.
func (f *frames) next() (record, error) {
	for {
		var h [frameHeader]byte
		if _, err := io.ReadFull(f.r, h[:]); err != nil {
			return record{}, err
		}
		size := binary.BigEndian.Uint32(h[4:])
		if h[1] != 0 || h[2] != 0 || h[3] != 0 || size > maxFrame {
			return record{}, fmt.Errorf("%w: header % x", errUnreadable, h)
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
	t, err := time.Parse(time.RFC3339Nano, string(buf[:i]))
	if err != nil {
		return record{}, fmt.Errorf("%w: stamp %q", errUnreadable, buf[:i])
	}
	return record{stream: stream, stamp: t.UnixNano(), data: buf[i+1:], room: buf[i:]}, nil
}

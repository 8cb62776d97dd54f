package compose

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
// (the stream, three zeros, the length) and one record: a stamp, a space, and the
// bytes of a line or of a part of one. The output of a terminal has no headers.
// https://docs.docker.com/reference/api/engine/version/v1.41/#tag/Container/operation/ContainerAttach

const (
	frameHeader = 8
	// maxFrame bounds a record: the engine's are 16 KiB and a stamp.
	maxFrame = 16 << 20
	// maxStamp is the length within which a stamp must end.
	maxStamp = 40
)

// record is one entry of a log; its data is the caller's.
type record struct {
	stream sdk.Stream
	stamp  time.Time
	data   []byte
}

// errForm is a log that isn't as the engine's documentation says.
var errForm = errors.New("unreadable log")

// readRecord returns the next record. The end between two is io.EOF, within one
// io.ErrUnexpectedEOF.
func readRecord(r *bufio.Reader, terminal bool) (record, error) {
	if terminal {
		line, err := r.ReadBytes('\n')
		if len(line) == 0 {
			return record{}, err
		}
		return stamped(sdk.StreamCombined, line)
	}
	var h [frameHeader]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return record{}, err
	}
	size := binary.BigEndian.Uint32(h[4:])
	if h[1] != 0 || h[2] != 0 || h[3] != 0 || size > maxFrame {
		return record{}, fmt.Errorf("%w: header % x", errForm, h[:])
	}
	buf := make([]byte, size)
	if _, err := io.ReadFull(r, buf); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return record{}, err
	}
	switch h[0] {
	case 1:
		return stamped(sdk.StreamStdout, buf)
	case 2:
		return stamped(sdk.StreamStderr, buf)
	case 3:
		return record{}, fmt.Errorf("%w: the engine says: %s", errForm, bytes.TrimSpace(buf))
	}
	return record{}, fmt.Errorf("%w: stream %d", errForm, h[0])
}

func stamped(stream sdk.Stream, buf []byte) (record, error) {
	i := bytes.IndexByte(buf[:min(len(buf), maxStamp)], ' ')
	if i < 0 {
		return record{}, fmt.Errorf("%w: a record has no stamp", errForm)
	}
	at, err := time.Parse(time.RFC3339Nano, string(buf[:i]))
	if err != nil {
		return record{}, fmt.Errorf("%w: stamp %q", errForm, buf[:i])
	}
	return record{stream, at, buf[i+1:]}, nil
}

// position is where the reading of a container's log stands: the newest stamp, and
// how many records with it were given.
type position struct {
	stamp time.Time
	same  int
}

func (p *position) took(r record) {
	switch {
	case r.stamp.After(p.stamp):
		*p = position{r.stamp, 1}
	case r.stamp.Equal(p.stamp):
		p.same++
	}
}

// skipper leaves out, of a log that is read from a position on, what was given
// before.
type skipper struct {
	to   position
	seen int
}

func (s *skipper) skip(r record) bool {
	if r.stamp.Before(s.to.stamp) {
		return true
	}
	if r.stamp.Equal(s.to.stamp) && s.seen < s.to.same {
		s.seen++
		return true
	}
	return false
}

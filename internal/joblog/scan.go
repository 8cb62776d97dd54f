package joblog

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
)

// scanner reads the frames of one segment, also while it is being written.
type scanner struct {
	file  File
	epoch uint64
	// off is where the next frame starts.
	off int64
	// limit is where the segment ends, -1 for where the file does.
	limit int64
	// buf[pos:] are bytes that were read from off on.
	buf []byte
	pos int
	// full says that the last read found as much as it asked for.
	full bool
}

const (
	minScan = 32 << 10
	maxScan = 256 << 10
)

func (s *Store) scan(dir string, h *header, limit int64) (*scanner, error) {
	f, packed, err := s.openSegment(dir, h.ID)
	if err != nil {
		return nil, err
	}
	if packed {
		if f, err = unpack(f, h.size); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, h.ID.packedName()), err)
		}
	}
	return &scanner{file: f, epoch: h.ID.Epoch, off: h.size, limit: limit}, nil
}

func (c *scanner) close() error { return c.file.Close() }

// next reads the next frame, whose data is good until the call after. It is
// frameShort at the end of what is there, and frameBad when no frame starts
// here; either way a later call looks at the file anew, for a writer may have
// gone on or may have taken back a frame that it wrote in part.
func (c *scanner) next(f *frame) (frameStatus, error) {
	for {
		n, status := parseFrame(c.buf[c.pos:], c.epoch, f)
		if status == frameOK && c.limit >= 0 && c.off+int64(n) > c.limit {
			status, n = frameShort, 0
		}
		if status == frameOK {
			c.pos += n
			c.off += int64(n)
			return frameOK, nil
		}
		if status == frameShort && n > 0 {
			more, err := c.fill(n)
			if err != nil {
				return frameShort, err
			}
			if more {
				continue
			}
		}
		c.buf, c.pos = c.buf[:0], 0
		return status, nil
	}
}

// fill reads on until the buffer holds need bytes from off, and reports
// whether it does.
func (c *scanner) fill(need int) (bool, error) {
	have := copy(c.buf[:cap(c.buf)], c.buf[c.pos:])
	c.buf, c.pos = c.buf[:have], 0
	want := max(need, minScan)
	if c.full {
		want = max(want, min(2*cap(c.buf), maxScan))
	}
	if cap(c.buf) < want {
		c.buf = append(make([]byte, 0, want), c.buf...)
	}
	room := c.buf[have:cap(c.buf)]
	if c.limit >= 0 {
		room = room[:max(0, min(int64(len(room)), c.limit-c.off-int64(have)))]
	}
	if len(room) == 0 {
		return false, nil
	}
	n, err := c.file.ReadAt(room, c.off+int64(have))
	c.buf = c.buf[:have+n]
	c.full = n == len(room)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return have+n >= need, nil
}

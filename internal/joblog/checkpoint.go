package joblog

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/windlass-run/windlass/sdk"
)

// checkpoint joins the driver's cursor with the place that it stands for, and
// ends a log.
type checkpoint struct {
	Term term   `json:"term"`
	Seq  uint64 `json:"seq"`
	// Cursor is the driver's, canonically encoded; empty is the start.
	Cursor json.RawMessage `json:"cursor,omitempty"`
	// At is the place right behind the cursor.
	At state `json:"at"`
	// Truncated says that the cap has dropped something.
	Truncated bool `json:"truncated,omitempty"`
	// Verdict is set once the log has ended.
	Verdict sdk.Verdict `json:"verdict,omitempty"`
	// End is the place of the end, and Last the segment that it lies in.
	End  *state `json:"end,omitempty"`
	Last *link  `json:"last,omitempty"`
}

func (c *checkpoint) final() bool { return c != nil && c.Verdict != "" }

// A term's checkpoint file has two slots that are written in turn, so that a
// torn one leaves the other.
const (
	slotMagic = "wlmark1\n"
	slotHead  = len(slotMagic) + 8
	// slotSize bounds a checkpoint. The file is sparse.
	slotSize = 256 << 10
	slots    = 2
	// slotBlock is what is written at once at least, so that the room for a
	// checkpoint is there before the disk is full.
	slotBlock = 4 << 10
)

func (c *checkpoint) encode() ([]byte, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode checkpoint: %w", err)
	}
	n := slotHead + len(body)
	if n > slotSize {
		return nil, fmt.Errorf("encode checkpoint: cursor and place take %d bytes, %d is the most", n, slotSize)
	}
	b := make([]byte, (n+slotBlock-1)/slotBlock*slotBlock)
	copy(b, slotMagic)
	binary.LittleEndian.PutUint32(b[len(slotMagic)+4:], uint32(len(body)))
	copy(b[slotHead:], body)
	binary.LittleEndian.PutUint32(b[len(slotMagic):], crc32.Checksum(b[len(slotMagic)+4:n], castagnoli))
	return b, nil
}

// decodeCheckpoint returns nil for anything that is not a whole checkpoint of
// the term.
func decodeCheckpoint(b []byte, t term) *checkpoint {
	if len(b) < slotHead || string(b[:len(slotMagic)]) != slotMagic {
		return nil
	}
	length := binary.LittleEndian.Uint32(b[len(slotMagic)+4:])
	if uint64(length) > uint64(len(b)-slotHead) {
		return nil
	}
	n := slotHead + int(length)
	if binary.LittleEndian.Uint32(b[len(slotMagic):]) != crc32.Checksum(b[len(slotMagic)+4:n], castagnoli) {
		return nil
	}
	var c checkpoint
	if json.Unmarshal(b[slotHead:n], &c) != nil || c.Term != t || !c.At.valid() {
		return nil
	}
	if c.final() && (c.End == nil || !c.End.valid()) {
		return nil
	}
	return &c
}

// readCheckpoint returns a term's newest checkpoint, nil when there is none.
func (s *Store) readCheckpoint(dir string, t term) (*checkpoint, error) {
	f, err := s.fs.OpenFile(filepath.Join(dir, t.name()), os.O_RDONLY, 0)
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var best *checkpoint
	buf := make([]byte, slotBlock)
	for i := range int64(slots) {
		b, err := readSlot(f, i*slotSize, buf)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if c := decodeCheckpoint(b, t); c != nil && (best == nil || c.Seq > best.Seq) {
			best = c
		}
	}
	return best, f.Close()
}

func readSlot(f File, off int64, buf []byte) ([]byte, error) {
	n, err := f.ReadAt(buf, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	b := buf[:n]
	if n < slotHead {
		return b, nil
	}
	whole := int64(slotHead) + int64(binary.LittleEndian.Uint32(b[len(slotMagic)+4:]))
	if whole <= int64(n) || whole > slotSize {
		return b, nil
	}
	b = make([]byte, whole)
	n, err = f.ReadAt(b, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b[:n], nil
}

// newest returns the checkpoint that counts: that of the highest term that has
// a whole one.
func (s *Store) newest(dir string, claims []term) (*checkpoint, error) {
	for i := len(claims) - 1; i >= 0; i-- {
		c, err := s.readCheckpoint(dir, claims[i])
		if c != nil || err != nil {
			return c, err
		}
	}
	return nil, nil
}

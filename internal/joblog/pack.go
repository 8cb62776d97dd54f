package joblog

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/windlass-run/windlass/sdk"
)

const (
	// packSuffix follows the name of a segment whose frames are compressed: its header
	// as it was, and behind it one zstd frame (RFC 8878).
	packSuffix = ".zst"
	// packTemp ends the name of one that isn't whole yet.
	packTemp = ".tmp"
	// packedMark is the file that says that what isn't packed in its folder isn't worth
	// it, so that nobody tries again.
	packedMark = "packed"
	// maxPacked bounds the segments that are packed, and what unpacking one may take.
	// It is a multiple of DefaultSegmentBytes.
	maxPacked = 64 << 20
	// packBlock is what a file takes at least, and in multiples of what.
	packBlock = 4 << 10
)

func (id segID) packedName() string { return id.name() + packSuffix }

// openSegment opens a segment in the form that is there. The packed one is there
// before the other goes, so in this order one of them is found.
func (s *Store) openSegment(dir string, id segID) (f File, packed bool, err error) {
	f, err = s.fs.OpenFile(filepath.Join(dir, id.name()), os.O_RDONLY, 0)
	if isMissing(err) {
		f, err = s.fs.OpenFile(filepath.Join(dir, id.packedName()), os.O_RDONLY, 0)
		packed = true
	}
	return f, packed, err
}

// unpack reads a packed segment whose header takes head bytes, and closes it. Of one
// that is damaged it has what comes before that: the frames behind are missing, as
// they are in a plain segment that was cut.
func unpack(f File, head int64) (File, error) {
	in, err := io.ReadAll(io.NewSectionReader(f, head, 2*maxPacked))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(bytes.NewReader(in), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPacked))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	data, _ := io.ReadAll(io.LimitReader(dec, maxPacked))
	return &unpacked{head: head, data: data}, nil
}

// unpacked is an open segment that was packed. Its header is not in it.
type unpacked struct {
	head int64
	data []byte
}

var _ File = (*unpacked)(nil)

func (u *unpacked) ReadAt(p []byte, off int64) (int, error) {
	if off < u.head {
		return 0, fmt.Errorf("read at %d of a packed segment whose frames start at %d", off, u.head)
	}
	if off -= u.head; off >= int64(len(u.data)) {
		return 0, io.EOF
	}
	n := copy(p, u.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

var errPacked = errors.New("a packed segment doesn't change any more")

func (u *unpacked) WriteAt([]byte, int64) (int, error) { return 0, errPacked }
func (u *unpacked) Truncate(int64) error               { return errPacked }
func (u *unpacked) Sync() error                        { return nil }
func (u *unpacked) Close() error                       { return nil }

// Packed is what Pack did to segments, in bytes.
type Packed struct {
	// Before is what the segments that were packed took, After what they take now.
	Before, After int64
}

func (p *Packed) add(q Packed) {
	p.Before += q.Before
	p.After += q.After
}

// Pack compresses the segments of a run's logs that have ended; those that haven't
// stay as they are, and so does what isn't worth it. Readers may read and follow at
// the same time, and places stay good: bytes and frames are the same. A crash leaves
// a segment in its old form, its new one or both, which is as good. A program from
// before this can't read what is packed: see the ledger's schema 2.
func (s *Store) Pack(ctx context.Context, run sdk.ID) (Packed, error) {
	const op = "pack logs"
	var total Packed
	attempts, err := s.Attempts(run)
	if sdk.CodeOf(err) == sdk.NotFound {
		return total, nil
	}
	if err != nil {
		return total, err
	}
	for _, n := range attempts {
		p, err := s.packAttempt(ctx, s.attemptDir(Key{Run: run, Attempt: n}))
		total.add(p)
		if err != nil && !isMissing(err) { // somebody removed it meanwhile
			if ctx.Err() != nil {
				return total, fmt.Errorf("%s: %w", op, context.Cause(ctx))
			}
			return total, diskError(op, err)
		}
	}
	return total, nil
}

func (s *Store) packAttempt(ctx context.Context, dir string) (total Packed, err error) {
	worth, err := s.worthPacking(dir)
	if err != nil || !worth {
		return total, err
	}
	d, err := s.look(dir, headers{})
	if err != nil {
		return total, err
	}
	c, err := s.newest(dir, d.claims)
	if err != nil || !c.final() {
		return total, err
	}
	all := true
	for i, h := range d.chain {
		if ctx.Err() != nil {
			return total, context.Cause(ctx)
		}
		p, done, err := s.packSegment(dir, h, d.limit(i, c))
		total.add(p)
		if err != nil {
			return total, err
		}
		all = all && done
	}
	if !all {
		f, err := s.fs.OpenFile(filepath.Join(dir, packedMark), os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return total, err
		}
		return total, f.Close()
	}
	return total, nil
}

// worthPacking reports whether a folder has a segment that may become smaller, and
// removes what a packing left that was killed.
func (s *Store) worthPacking(dir string) (bool, error) {
	entries, err := s.fs.ReadDir(dir)
	if err != nil {
		return false, err
	}
	worth := false
	for _, e := range entries {
		switch name := e.Name(); {
		case name == packedMark:
			return false, nil
		case strings.HasSuffix(name, packTemp):
			_ = s.fs.Remove(filepath.Join(dir, name)) // it counts for nothing
		case strings.HasSuffix(name, segSuffix):
			info, err := e.Info()
			if err != nil {
				return false, err
			}
			worth = worth || info.Size() > packBlock
		}
	}
	return worth, nil
}

// packSegment packs the first limit bytes of a segment, -1 for all. It reports
// whether it is packed now; else it stays as it is, for that takes no more room.
func (s *Store) packSegment(dir string, h *header, limit int64) (p Packed, done bool, err error) {
	plain, temp := filepath.Join(dir, h.ID.name()), filepath.Join(dir, h.ID.packedName()+"."+rand.Text()+packTemp)
	f, err := s.fs.OpenFile(plain, os.O_RDONLY, 0)
	if isMissing(err) {
		return p, true, nil // it was packed before
	}
	if err != nil {
		return p, false, err
	}
	if limit < 0 {
		limit = maxPacked + 1
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, min(limit, maxPacked+1)))
	if err = errors.Join(err, f.Close()); err != nil {
		return p, false, err
	}
	if len(b) > maxPacked || int64(len(b)) < h.size {
		return p, false, nil
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return p, false, err
	}
	out := enc.EncodeAll(b[h.size:], bytes.Clone(b[:h.size]))
	if blocks(len(out)) >= blocks(len(b)) {
		return p, false, nil
	}
	if err := s.writeNew(temp, out); err != nil {
		return p, false, errors.Join(err, s.removeIfThere(temp))
	}
	if err := s.fs.Rename(temp, filepath.Join(dir, h.ID.packedName())); err != nil {
		return p, false, errors.Join(err, s.removeIfThere(temp))
	}
	if err := s.fs.SyncDir(dir); err != nil {
		return p, false, err
	}
	return Packed{Before: int64(len(b)), After: int64(len(out))}, true, s.removeIfThere(plain)
}

func blocks(n int) int { return (n + packBlock - 1) / packBlock }

// writeNew makes a file and what it holds durable.
func (s *Store) writeNew(name string, b []byte) error {
	f, err := s.fs.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := f.WriteAt(b, 0)
	if err == nil && n < len(b) {
		err = errShortWrite
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (s *Store) removeIfThere(name string) error {
	if err := s.fs.Remove(name); err != nil && !isMissing(err) {
		return err
	}
	return nil
}

package joblog

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Sync makes what was appended durable, and then the newest cursor, which
// Cursor returns from then on. It costs nothing when nothing has changed. Its
// error is the disk's (ErrIDDisk; ResourceExhausted when it is full), after
// which the writer goes on and Sync may be tried again, or one of Append's.
func (w *Writer) Sync() error {
	w.syncMu.Lock()
	defer w.syncMu.Unlock()
	const op = "sync log"
	w.mu.Lock()
	if err := w.usable(op); err != nil {
		w.mu.Unlock()
		return err
	}
	now := time.Now()
	err := w.fence(now, true)
	if err == nil {
		err = diskError(op, w.write(now))
	}
	if w.err != nil {
		err = w.err
	}
	if err != nil {
		w.mu.Unlock()
		return err
	}
	p, err := w.plan()
	w.mu.Unlock()
	if err != nil {
		return diskError(op, err)
	}
	c, err := w.checkpoint(p)
	if err != nil {
		w.done(p, err)
		return sdk.Errorf(sdk.InvalidArgument, op, "%s: the driver's cursor: %w", w.k, err)
	}
	if p.idle() {
		w.done(p, nil)
		return nil
	}
	err = w.files(p)
	if err == nil && p.cursorNo != p.savedNo {
		err = w.commit(c)
	}
	w.done(p, err)
	return w.failure(op, err)
}

// failure classes what kept something from the disk. A file that is gone was taken
// by another holder, or with the whole log, more often than not.
func (w *Writer) failure(op string, err error) error {
	if isMissing(err) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if err := w.fence(time.Now(), true); err != nil {
			return err
		}
	}
	return diskError(op, err)
}

// plan is what one sync has to do.
type plan struct {
	dirty    []segID
	seg      *segment
	size     int64
	dir      bool
	cursor   *sdk.LogCursor
	at       state
	base     checkpoint
	cursorNo int64
	savedNo  int64
}

// plan takes what is unsynced; done gives it back after a failure.
func (w *Writer) plan() (*plan, error) {
	if w.rewrite {
		if err := w.repeat(); err != nil {
			return nil, err
		}
		w.rewrite = false
	}
	p := &plan{dirty: w.dirty, dir: w.dirDirty, at: w.cursorAt.clone(), base: w.durable, cursorNo: w.cursorNo, savedNo: w.savedNo}
	p.base.Truncated = w.truncated
	if w.cursor != nil {
		p.cursor = copyCursor(nil, w.cursor)
	}
	w.dirty, w.dirDirty = nil, false
	if w.seg != nil && w.seg.synced < w.seg.size {
		p.seg, p.size = w.seg, w.seg.size
		p.seg.pinned = true
	}
	return p, nil
}

// idle reports whether there is nothing to make durable.
func (p *plan) idle() bool {
	return len(p.dirty) == 0 && p.seg == nil && p.cursorNo == p.savedNo
}

func (w *Writer) checkpoint(p *plan) (*checkpoint, error) {
	c := p.base
	c.Seq++
	c.At = p.at
	if p.cursor != nil {
		b, err := p.cursor.Encode()
		if err != nil {
			return nil, err
		}
		c.Cursor = json.RawMessage(b)
	}
	return &c, nil
}

// files makes the segments and their names durable.
func (w *Writer) files(p *plan) (err error) {
	var files []File
	for _, id := range p.dirty {
		f, oerr := w.s.fs.OpenFile(filepath.Join(w.dir, id.name()), os.O_RDWR, 0)
		if isMissing(oerr) {
			continue // the cap dropped it
		}
		if oerr != nil {
			return oerr
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		files = append(files, f)
	}
	if p.seg != nil {
		files = append(files, p.seg.file)
	}
	var dirs []string
	if p.dir {
		dirs = append(dirs, w.dir)
	}
	if w.parents {
		dirs = append(dirs, filepath.Dir(w.dir), w.s.dir)
	}
	if len(files)+len(dirs) == 0 {
		return nil
	}
	if err := syncAll(w.s.fs, files, dirs); err != nil {
		return err
	}
	w.parents = false
	return nil
}

// commit makes a checkpoint durable, and then removes those of older terms.
func (w *Writer) commit(c *checkpoint) error {
	slot := w.slot
	if err := w.writeMark(c); err != nil {
		return err
	}
	if err := syncAll(w.s.fs, []File{w.mark}, nil); err != nil {
		w.slot = slot
		return err
	}
	w.mu.Lock()
	w.durable = *c
	w.mu.Unlock()
	if !w.swept {
		w.swept = true
		w.sweep()
	}
	return nil
}

// sweep removes the checkpoint files of older terms: ours says all they said.
func (w *Writer) sweep() {
	entries, err := w.s.fs.ReadDir(w.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if t, ok := parseClaim(e.Name()); ok && t.compare(w.term) < 0 {
			_ = w.s.fs.Remove(filepath.Join(w.dir, e.Name())) // it counts no more
		}
	}
}

func (w *Writer) done(p *plan, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.seg != nil {
		p.seg.pinned = false
		if p.seg.orphan {
			_ = p.seg.file.Close() // synced already, or dirty and opened again
		}
	}
	if err != nil {
		w.dirty = append(p.dirty, w.dirty...)
		w.dirDirty = w.dirDirty || p.dir
		// The kernel may have forgotten what it couldn't write: a second
		// fsync that succeeds proves nothing.
		w.rewrite = true
		return
	}
	if p.idle() {
		w.dirDirty = w.dirDirty || p.dir
	}
	w.savedNo = p.cursorNo
	if p.seg != nil {
		p.seg.synced = p.size
	}
}

// repeat writes again what an fsync failed to make durable, so that the next
// one means it. What can't be read back any more is left as it is: readers
// see the damage and tell it as a gap.
func (w *Writer) repeat() error {
	ids := slices.Clone(w.dirty)
	if w.seg != nil {
		ids = append(ids, w.seg.id)
		w.seg.synced = 0
	}
	for _, id := range ids {
		i := slices.IndexFunc(w.segs, func(e extent) bool { return e.id == id })
		if i < 0 {
			continue
		}
		f, err := w.s.fs.OpenFile(filepath.Join(w.dir, id.name()), os.O_RDWR, 0)
		if isMissing(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := errors.Join(rewrite(f, w.segs[i].size), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func rewrite(f File, size int64) error {
	buf := make([]byte, maxScan)
	for off := int64(0); off < size; {
		n, err := f.ReadAt(buf[:min(size-off, maxScan)], off)
		if n == 0 {
			return err
		}
		if m, err := f.WriteAt(buf[:n], off); err != nil {
			return err
		} else if m < n {
			return errShortWrite
		}
		off += int64(n)
	}
	return nil
}

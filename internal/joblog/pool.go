package joblog

import (
	"container/list"
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

// pool bounds how many files the writers of a store keep open: thousands of logs
// may wait for output, each with a segment and a checkpoint file. Those that were
// used longest ago are closed, and opened again by name when they are needed. What
// they hold that isn't synced stays the kernel's to write, as with a segment that is
// full.
type pool struct {
	fs    FS
	limit int

	mu   sync.Mutex
	open int
	idle *list.List // of *held, the one used last in front
	// reopened counts files that were opened again; for tests.
	reopened int
}

func newPool(system FS, limit int) *pool { return &pool{fs: system, limit: limit, idle: list.New()} }

// held is a File that is open only while it is used, or is among those used last.
type held struct {
	p    *pool
	name string

	opening sync.Mutex // at most one goroutine opens it

	// The pool's mutex guards these.
	file   File // nil while it is closed
	users  int
	at     *list.Element // while nobody uses it
	closed bool
}

var _ File = (*held)(nil)

// openFile opens a file as FS.OpenFile does.
func (p *pool) openFile(name string, flag int, perm fs.FileMode) (*held, error) {
	f, err := p.openNow(name, flag, perm)
	if err != nil {
		return nil, err
	}
	h := &held{p: p, name: name, file: f}
	p.mu.Lock()
	p.open++
	h.at = p.idle.PushFront(h)
	p.mu.Unlock()
	return h, nil
}

// openNow makes room and opens a file. Where the process has no descriptor left, it
// lets go of what it can, and tries once more.
func (p *pool) openNow(name string, flag int, perm fs.FileMode) (File, error) {
	p.shrink(p.limit - 1)
	f, err := p.fs.OpenFile(name, flag, perm)
	if isExhausted(err) && p.shrink(p.limit/2) > 0 {
		f, err = p.fs.OpenFile(name, flag, perm)
	}
	return f, err
}

// shrink closes idle files, oldest first, until at most n are open, and returns how
// many it closed.
func (p *pool) shrink(n int) int {
	p.mu.Lock()
	var out []File
	for p.open > n && p.idle.Len() > 0 {
		h := p.idle.Remove(p.idle.Back()).(*held)
		out = append(out, h.file)
		h.file, h.at = nil, nil
		p.open--
	}
	p.mu.Unlock()
	for _, f := range out {
		_ = f.Close() // Sync opens it again, and reports what the disk says
	}
	return len(out)
}

// use gives the file to be used until done is called.
func (h *held) use() (f File, done func(), err error) {
	if f, err := h.take(); f != nil || err != nil {
		return f, h.release, err
	}
	h.opening.Lock()
	defer h.opening.Unlock()
	if f, err := h.take(); f != nil || err != nil {
		return f, h.release, err // somebody else has opened it
	}
	if f, err = h.p.openNow(h.name, os.O_RDWR, 0); err != nil {
		return nil, nil, err
	}
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	h.p.open++
	h.p.reopened++
	h.file, h.users = f, 1
	return f, h.release, nil
}

// take returns the file where it is open.
func (h *held) take() (File, error) {
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	if h.closed {
		return nil, os.ErrClosed
	}
	if h.file == nil {
		return nil, nil
	}
	h.users++
	if h.at != nil {
		h.p.idle.Remove(h.at)
		h.at = nil
	}
	return h.file, nil
}

func (h *held) release() {
	h.p.mu.Lock()
	var over File
	if h.users--; h.users == 0 {
		if h.closed {
			over, h.file = h.file, nil
			h.p.open--
		} else {
			h.at = h.p.idle.PushFront(h)
		}
	}
	full := h.p.open > h.p.limit
	h.p.mu.Unlock()
	if over != nil {
		_ = over.Close() // as with shrink
	}
	if full {
		h.p.shrink(h.p.limit)
	}
}

// ReadAt implements io.ReaderAt.
func (h *held) ReadAt(b []byte, off int64) (int, error) {
	f, done, err := h.use()
	if err != nil {
		return 0, err
	}
	defer done()
	return f.ReadAt(b, off)
}

// WriteAt implements io.WriterAt.
func (h *held) WriteAt(b []byte, off int64) (int, error) {
	f, done, err := h.use()
	if err != nil {
		return 0, err
	}
	defer done()
	return f.WriteAt(b, off)
}

// Truncate implements File.
func (h *held) Truncate(size int64) error {
	f, done, err := h.use()
	if err != nil {
		return err
	}
	defer done()
	return f.Truncate(size)
}

// Sync implements File.
func (h *held) Sync() error {
	f, done, err := h.use()
	if err != nil {
		return err
	}
	defer done()
	return f.Sync()
}

// Close implements File. One that is in use is closed after that.
func (h *held) Close() error {
	h.p.mu.Lock()
	var over File
	if !h.closed {
		h.closed = true
		if h.at != nil {
			h.p.idle.Remove(h.at)
			over, h.file, h.at = h.file, nil, nil
			h.p.open--
		}
	}
	h.p.mu.Unlock()
	if over == nil {
		return nil
	}
	return over.Close()
}

// isExhausted reports whether the process, or the machine, has no descriptor left.
func isExhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

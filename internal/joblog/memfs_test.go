package joblog

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
)

// memFS is a file system in memory that forgets, when the power fails, what
// was not synced, and that fails on demand.
type memFS struct {
	mu    sync.Mutex
	files map[string]*inode // what programs see
	kept  map[string]*inode // names that a power failure leaves
	dirs  map[string]bool
	// room is how many bytes may still be written; negative is no limit.
	room int64
	// onWrite may shorten a write and make it fail.
	onWrite func(name string, n int) (int, error)
	onSync  func(name string) error
	onTrunc func(name string) error
	syncs   map[string]int
}

type inode struct {
	data []byte
	// durable is what was synced, log the writes since.
	durable []byte
	log     []memWrite
}

type memWrite struct {
	off  int64
	data []byte
}

func newMemFS() *memFS {
	return &memFS{files: map[string]*inode{}, kept: map[string]*inode{}, dirs: map[string]bool{}, room: -1, syncs: map[string]int{}}
}

var (
	_ FS   = (*memFS)(nil)
	_ File = (*memFile)(nil)
)

func (m *memFS) OpenFile(name string, flag int, _ fs.FileMode) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.files[name]
	switch {
	case n == nil && flag&os.O_CREATE == 0:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case n == nil && !m.dirs[filepath.Dir(name)]:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case n == nil:
		n = &inode{}
		m.files[name] = n
	case flag&os.O_EXCL != 0:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrExist}
	}
	if flag&os.O_TRUNC != 0 {
		n.data, n.durable, n.log = nil, nil, nil
	}
	return &memFile{fs: m, name: name, n: n}, nil
}

func (m *memFS) MkdirAll(name string, _ fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for d := name; !m.dirs[d]; d = filepath.Dir(d) {
		m.dirs[d] = true
	}
	return nil
}

func (m *memFS) ReadDir(name string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.dirs[name] {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	var out []fs.DirEntry
	for f, n := range m.files {
		if filepath.Dir(f) == name {
			out = append(out, memInfo{name: filepath.Base(f), size: int64(len(n.data))})
		}
	}
	for d := range m.dirs {
		if d != name && filepath.Dir(d) == name {
			out = append(out, memInfo{name: filepath.Base(d), dir: true})
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name() < out[j].Name() })
	return out, nil
}

func (m *memFS) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.files[name]; n != nil {
		return memInfo{name: filepath.Base(name), size: int64(len(n.data))}, nil
	}
	if m.dirs[name] {
		return memInfo{name: filepath.Base(name), dir: true}, nil
	}
	return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
}

func (m *memFS) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.files[from]
	if n == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	m.files[to] = n
	delete(m.files, from)
	delete(m.kept, from)
	return nil
}

func (m *memFS) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files[name] == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	delete(m.files, name)
	delete(m.kept, name)
	return nil
}

func (m *memFS) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for f := range m.files {
		if strings.HasPrefix(f, name+"/") || f == name {
			delete(m.files, f)
			delete(m.kept, f)
		}
	}
	for d := range m.dirs {
		if strings.HasPrefix(d, name+"/") || d == name {
			delete(m.dirs, d)
		}
	}
	return nil
}

func (m *memFS) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.syncs["dir"]++
	for f, n := range m.files {
		if filepath.Dir(f) == name {
			m.kept[f] = n
		}
	}
	return nil
}

// powerLoss returns what a disk holds after a power failure: what was synced,
// and of the rest what chance (a number below n) lets it have.
func (m *memFS) powerLoss(chance func(n int) int) *memFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := newMemFS()
	for d := range m.dirs {
		out.dirs[d] = true
	}
	names := make([]string, 0, len(m.files))
	for f := range m.files {
		names = append(names, f)
	}
	sort.Strings(names)
	for _, f := range names {
		if m.kept[f] == nil && chance(2) == 0 {
			continue
		}
		n := m.files[f]
		b := append([]byte(nil), n.durable...)
		for _, w := range n.log {
			part := w.data
			switch chance(3) {
			case 0:
				continue // never reached the disk
			case 1:
				part = part[:chance(len(part)+1)]
			}
			if end := int(w.off) + len(part); end > len(b) {
				b = append(b, make([]byte, end-len(b))...)
			}
			copy(b[w.off:], part)
		}
		c := &inode{data: b, durable: append([]byte(nil), b...)}
		out.files[f], out.kept[f] = c, c
	}
	return out
}

// clone returns a copy of all that is there.
func (m *memFS) clone() *memFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := newMemFS()
	for d := range m.dirs {
		out.dirs[d] = true
	}
	for f, n := range m.files {
		out.files[f] = &inode{data: append([]byte(nil), n.data...)}
	}
	return out
}

func (m *memFS) setRoom(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.room = n
}

// size is the sum of the sizes of the files with a suffix.
func (m *memFS) size(suffix string) (total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for f, n := range m.files {
		if strings.HasSuffix(f, suffix) {
			total += int64(len(n.data))
		}
	}
	return total
}

func (m *memFS) names(suffix string) (out []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for f := range m.files {
		if strings.HasSuffix(f, suffix) {
			out = append(out, f)
		}
	}
	sort.Strings(out)
	return out
}

// forget lets go of what is only needed for a power failure.
func (m *memFS) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.files {
		n.log = nil
	}
}

func (m *memFS) countSyncs() (total int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.syncs {
		total += n
	}
	return total
}

type memFile struct {
	fs   *memFS
	name string
	n    *inode
}

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if off >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.n.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n, err := len(b), error(nil)
	if f.fs.onWrite != nil {
		n, err = f.fs.onWrite(f.name, len(b))
	}
	// Only what makes the file longer needs room.
	if grows := off + int64(n) - int64(len(f.n.data)); f.fs.room >= 0 && grows > 0 {
		if grows > f.fs.room {
			n = int(max(0, int64(n)-(grows-f.fs.room)))
			grows, err = f.fs.room, syscall.ENOSPC
		}
		f.fs.room -= grows
	}
	if end := int(off) + n; n > 0 && end > len(f.n.data) {
		f.n.data = append(f.n.data, make([]byte, end-len(f.n.data))...)
	}
	copy(f.n.data[min(int(off), len(f.n.data)):], b[:n])
	if n > 0 {
		f.n.log = append(f.n.log, memWrite{off: off, data: append([]byte(nil), b[:n]...)})
	}
	return n, err
}

func (f *memFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.onTrunc != nil {
		if err := f.fs.onTrunc(f.name); err != nil {
			return err
		}
	}
	if size < int64(len(f.n.data)) {
		f.n.data = f.n.data[:size]
	}
	return nil
}

func (f *memFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.syncs[filepath.Ext(f.name)]++
	if f.fs.onSync != nil {
		if err := f.fs.onSync(f.name); err != nil {
			f.n.log = nil // the kernel forgets what it couldn't write
			return err
		}
	}
	f.n.durable = append([]byte(nil), f.n.data...)
	f.n.log = nil
	return nil
}

func (f *memFile) Close() error { return nil }

type memInfo struct {
	name string
	size int64
	dir  bool
}

func (i memInfo) Name() string { return i.name }
func (i memInfo) Size() int64  { return i.size }
func (i memInfo) IsDir() bool  { return i.dir }
func (i memInfo) Type() fs.FileMode {
	if i.dir {
		return fs.ModeDir
	}
	return 0
}
func (i memInfo) Mode() fs.FileMode          { return i.Type() | 0o600 }
func (i memInfo) ModTime() time.Time         { return time.Time{} }
func (i memInfo) Sys() any                   { return nil }
func (i memInfo) Info() (fs.FileInfo, error) { return i, nil }

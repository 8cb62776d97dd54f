package joblog

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// FS is what the store needs of a file system. Tests bring their own, to see
// full disks, short writes and torn tails. Names are paths of the host.
type FS interface {
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	MkdirAll(name string, perm fs.FileMode) error
	ReadDir(name string) ([]fs.DirEntry, error)
	Stat(name string) (fs.FileInfo, error)
	// Rename replaces what has the new name.
	Rename(from, to string) error
	Remove(name string) error
	RemoveAll(name string) error
	// SyncDir makes the names in a folder durable, where the system needs it.
	SyncDir(name string) error
}

// File is an open file of an FS. ReadAt and WriteAt follow io.ReaderAt and
// io.WriterAt and may run at the same time.
type File interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	Close() error
}

// OS returns the host's file system. Syncs that come at the same time are made
// together, with one sync of the file system that dir is on where the host has
// that.
func OS(dir string) FS { return osFS{&syncGroup{whole: wholeSync(dir)}} }

type osFS struct{ group *syncGroup }

var (
	_ FS   = osFS{}
	_ File = osFile{}
)

// osFile is a file whose syncs are grouped.
type osFile struct {
	*os.File
	group *syncGroup
}

func (f osFile) Sync() error { return f.group.do(f.File.Sync) }

func (o osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return osFile{f, o.group}, nil
}

// MkdirAll tries the folder itself first: that of a new log is missing, and all
// above it but one are there.
func (osFS) MkdirAll(name string, perm fs.FileMode) error {
	err := os.Mkdir(name, perm)
	if errors.Is(err, fs.ErrNotExist) && os.Mkdir(filepath.Dir(name), perm) == nil {
		err = os.Mkdir(name, perm)
	}
	if err == nil {
		return nil
	}
	return os.MkdirAll(name, perm) // it is there, or more is missing
}
func (osFS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }
func (osFS) Stat(name string) (fs.FileInfo, error)      { return os.Stat(name) }
func (osFS) Rename(from, to string) error               { return os.Rename(from, to) }
func (osFS) Remove(name string) error                   { return os.Remove(name) }
func (osFS) RemoveAll(name string) error                { return os.RemoveAll(name) }
func (o osFS) SyncDir(name string) error {
	return o.group.do(func() error { return syncDir(name) })
}

// syncAll makes files and the names in folders durable, in this order, as one
// sync for the group.
func (o osFS) syncAll(files []File, dirs []string) error {
	return o.group.do(func() error {
		for _, f := range files {
			if err := syncOne(f); err != nil {
				return err
			}
		}
		for _, dir := range dirs {
			if err := syncDir(dir); err != nil {
				return err
			}
		}
		return nil
	})
}

// syncOne makes a file durable, outside of any group. One that is only held is open
// no longer than that: thousands may wait for their sync.
func syncOne(f File) error {
	if h, ok := f.(*held); ok {
		inner, done, err := h.use()
		if err != nil {
			return err
		}
		defer done()
		f = inner
	}
	if of, ok := f.(osFile); ok {
		return of.File.Sync()
	}
	return f.Sync()
}

// syncAll makes files and the names in folders durable: together where the file
// system can, else one after the other.
func syncAll(system FS, files []File, dirs []string) error {
	if o, ok := system.(interface {
		syncAll(files []File, dirs []string) error
	}); ok {
		return o.syncAll(files, dirs)
	}
	for _, f := range files {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	for _, dir := range dirs {
		if err := system.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// isFull reports whether err says that there is no room.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

package docker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/windlass-run/windlass/sdk"
)

// A container reads its input over a connection that one process holds. When
// that process is killed the engine ends the input there, and the job sees an
// end like any other. Where the input was spooled, and so promised whole, that
// must not pass for a run on all of it: while a process feeds such an input it
// holds a lock on a file of the attempt's folder, and removes the file when the
// input was delivered or the job read no more. A file without its lock says that
// the feeding was cut off. On an engine of another machine there is no such file.

const feedFile = "feeding"

// feed is the lock of who feeds an attempt. The nil feed does nothing.
type feed struct{ lock *flock.Flock }

func (p *provider) feedPath(attempt sdk.ID) string {
	return filepath.Join(p.files.path(attempt), feedFile)
}

// feeding notes that this process feeds the attempt's spooled input.
func (s *send) feeding() (*feed, error) {
	if s.launch.Stdin != sdk.StdinSpooled || s.p.files == nil {
		return nil, nil
	}
	if err := s.p.files.prepare(s.note()); err != nil {
		return nil, err
	}
	f := &feed{flock.New(s.p.feedPath(s.launch.AttemptID), flock.SetPermissions(0o600))}
	if ok, err := f.lock.TryLock(); err != nil || !ok {
		return nil, errors.Join(err, f.lock.Close())
	}
	return f, nil
}

// done says that the input was delivered, or that the job reads no more of it.
func (f *feed) done() {
	if f != nil {
		_ = os.Remove(f.lock.Path())
		_ = f.lock.Close()
	}
}

// leave gives the lock up and lets the file tell that the input was cut off.
func (f *feed) leave() {
	if f != nil {
		_ = f.lock.Close()
	}
}

// cutOff reports whether the process that fed the attempt was gone before its
// input was delivered.
func (p *provider) cutOff(attempt sdk.ID) bool {
	if p.files == nil {
		return false
	}
	path := p.feedPath(attempt)
	if _, err := os.Lstat(path); err != nil {
		return false
	}
	f := flock.New(path, flock.SetFlag(os.O_RDWR))
	ok, err := f.TryLock()
	if err != nil || !ok {
		return false
	}
	// It may have been delivered just now.
	_, err = os.Lstat(path)
	_ = f.Close()
	return !errors.Is(err, fs.ErrNotExist)
}

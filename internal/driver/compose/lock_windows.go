package compose

import (
	"os/exec"

	"github.com/gofrs/flock"
)

// lock keeps others from changing a service while this process lives.
type lock struct{ f *flock.Flock }

// tryLock returns nil when somebody else has the lock.
func tryLock(path string) (*lock, error) {
	f := flock.New(path, flock.SetPermissions(0o600))
	ok, err := f.TryLock()
	if err != nil || !ok {
		_ = f.Close()
		return nil, err
	}
	return &lock{f}, nil
}

// share does nothing: a child can't inherit a lock here.
func (l *lock) share(*exec.Cmd) {}

// release gives the lock up.
func (l *lock) release() { _ = l.f.Close() }

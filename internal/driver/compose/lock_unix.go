//go:build unix

package compose

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// lock keeps others from changing a service. It belongs to the open file, which
// the Compose that carries a change out inherits: while that lives the lock is
// held, also when this process was killed.
type lock struct{ f *os.File }

// tryLock returns nil when somebody else has the lock. The file stays: to remove
// it while another process opens it would let two have it.
func tryLock(path string) (*lock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return &lock{f}, nil
		case errors.Is(err, syscall.EINTR):
		default:
			_ = f.Close()
			if errors.Is(err, syscall.EWOULDBLOCK) {
				err = nil
			}
			return nil, err
		}
	}
}

// share lets a child hold the lock too.
func (l *lock) share(cmd *exec.Cmd) { cmd.ExtraFiles = append(cmd.ExtraFiles, l.f) }

// release gives up this process's part.
func (l *lock) release() { _ = l.f.Close() }

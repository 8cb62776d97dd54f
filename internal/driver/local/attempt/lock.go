//go:build linux || darwin

package attempt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked says that somebody else holds the attempt.
var ErrLocked = errors.New("the attempt is held by another process")

// Lock takes the attempt's lock without waiting: ErrLocked when it is held,
// ErrNone when the folder is gone. The lock belongs to the open file: a process
// that inherits it keeps it when this one ends.
func (f Folder) Lock() (*os.File, error) {
	for {
		h, err := os.OpenFile(f.Path(LockFile), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock attempt: %w", err)
		}
		err = flock(h, unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrLocked
		}
		if err != nil {
			_ = h.Close()
			return nil, fmt.Errorf("lock attempt: %w", err)
		}
		// The folder may have been removed, and made anew, in between.
		same, err := isSame(h, f.Path(LockFile))
		if err == nil && same {
			return h, nil
		}
		_ = h.Close()
		if err != nil {
			return nil, fmt.Errorf("lock attempt: %w", err)
		}
	}
}

// Held reports whether somebody holds the lock. It takes nothing away from
// anybody: whoever wants the lock at the same moment tries again.
func (f Folder) Held() (bool, error) {
	h, err := os.Open(f.Path(LockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at lock: %w", err)
	}
	defer func() { _ = h.Close() }()
	err = flock(h, unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at lock: %w", err)
	}
	return false, nil
}

func flock(h *os.File, how int) error {
	for {
		err := unix.Flock(int(h.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func isSame(h *os.File, path string) (bool, error) {
	a, err := h.Stat()
	if err != nil {
		return false, err
	}
	b, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(a, b), nil
}

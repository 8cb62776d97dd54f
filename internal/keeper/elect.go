package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gofrs/flock"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/sdk"
)

// place is a won election. The lock elects and the lease rules: the lock's file
// is touched while its keeper lives, so a keeper that is stopped for longer than
// a lease can be put out of its place by another, which takes the file away. It
// finds that out when it goes on, and leaves.
type place struct {
	dir   string
	home  fs.FileInfo // the folder itself
	path  string
	lock  *flock.Flock
	clock sdk.Clock
}

var (
	errDeposed = errors.New("another keeper took the place of this one, which was stopped for longer than its lease")
	errNoDir   = errors.New("the state folder is gone")
)

// elect tries to become the keeper of a state directory; nil when another is.
func elect(ctx context.Context, stateDir string, clock sdk.Clock) (*place, error) {
	p := &place{dir: stateDir, path: lockPath(stateDir), clock: clock}
	var err error
	if p.home, err = os.Stat(stateDir); err != nil {
		return nil, fmt.Errorf("elect keeper: %w", err)
	}
	// Each round is lost to another that took the file away meanwhile.
	for range 5 {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		p.lock = flock.New(p.path, flock.SetPermissions(0o600))
		ok, err := p.lock.TryLock()
		if err != nil {
			return nil, fmt.Errorf("elect keeper: %w", err)
		}
		if ok {
			if p.ours() {
				return p, p.beat()
			}
			_ = p.lock.Close()
			continue
		}
		if held, err := p.held(); err != nil || held {
			return nil, err
		}
	}
	return nil, nil
}

// held reports whether the lock's present holder is in its lease. The file of
// one that isn't is taken away.
func (p *place) held() (bool, error) {
	fi, err := os.Stat(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("elect keeper: %w", err)
	}
	if !p.clock.Now().After(fi.ModTime().Add(control.LeaseTime)) {
		return true, nil
	}
	old := p.path + ".lapsed"
	if err := os.Rename(p.path, old); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return false, fmt.Errorf("elect keeper: replace one that is stopped: %w", err)
	}
	if moved, err := os.Stat(old); err == nil && !os.SameFile(fi, moved) {
		// It was the fresh file of another that was quicker.
		return true, os.Rename(old, p.path)
	}
	return false, os.Remove(old)
}

// ours reports whether the lock's name still leads to the file that is locked.
func (p *place) ours() bool {
	mine, err := p.lock.Stat()
	if err != nil {
		return false
	}
	fi, err := os.Stat(p.path)
	return err == nil && os.SameFile(mine, fi)
}

// check returns why this keeper must leave, or nil.
func (p *place) check() error {
	fi, err := os.Stat(p.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(fi, p.home):
		return errNoDir
	case p.ours():
		return nil
	}
	return errDeposed
}

// beat renews the lease.
func (p *place) beat() error {
	now := p.clock.Now()
	if err := os.Chtimes(p.path, time.Time{}, now); err != nil {
		return fmt.Errorf("keeper's lease: %w", err)
	}
	return nil
}

func (p *place) leave() error { return p.lock.Close() }

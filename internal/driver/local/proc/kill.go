//go:build linux || darwin

package proc

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// Finder returns the processes that belong to what is to be ended.
type Finder func() ([]Identity, error)

// SignalAll sends signals, in their order, once to each process that find
// returns, and looks again until no new one turns up, at most a few times. It
// returns how many there were; errors for processes that ended meanwhile are
// none.
func SignalAll(find Finder, sigs ...syscall.Signal) (int, error) {
	done := map[Identity]bool{}
	var errs []error
	for range 4 {
		list, err := find()
		if err != nil {
			return len(done), err
		}
		fresh := 0
		for _, id := range list {
			if done[id] {
				continue
			}
			done[id], fresh = true, fresh+1
			for _, sig := range sigs {
				if err := id.Signal(sig); err != nil && !errors.Is(err, ErrGone) {
					errs = append(errs, err)
				}
			}
		}
		if fresh == 0 {
			break
		}
	}
	return len(done), errors.Join(errs...)
}

// KillAll ends every process that find returns, however fast they multiply:
// all are stopped before any is killed. It makes one pass and doesn't wait for
// the end; the caller looks and calls again.
func KillAll(find Finder) (int, error) {
	stopped := map[Identity]bool{}
	for range 50 {
		list, err := find()
		if err != nil {
			return 0, err
		}
		fresh := 0
		for _, id := range list {
			if !stopped[id] {
				stopped[id], fresh = true, fresh+1
				_ = id.Signal(syscall.SIGSTOP) // the KILL below reports
			}
		}
		if fresh == 0 {
			break
		}
	}
	var errs []error
	for id := range stopped {
		if err := id.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, ErrGone) {
			errs = append(errs, err)
		}
	}
	return len(stopped), errors.Join(errs...)
}

// KillUntilGone kills until find returns nothing, or ctx ends. The error names
// what could not be killed.
func KillUntilGone(ctx context.Context, find Finder) (int, error) {
	killed := 0
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		n, killErr := KillAll(find)
		killed += n
		list, err := find()
		if err != nil {
			return killed, err
		}
		if len(list) == 0 {
			return killed, nil
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return killed, errors.Join(context.Cause(ctx), killErr)
		}
	}
}

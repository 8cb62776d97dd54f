//go:build linux || darwin

package sqlite

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// turn is a place in the line of processes that want to write. SQLite lets them
// poll for its lock, and among a hundred of them some never find it free; in
// this line the system wakes them. It is a courtesy: SQLite's own lock decides,
// so that nothing is lost where the line can't be joined. The writer's
// goroutine alone calls its methods.
type turn struct {
	f    *os.File // nil is no line
	held bool
	wait *turnWait // one that has not come to its end; nil is none
}

// turnWait is a wait for the lock, which nothing can end but the lock.
type turnWait struct {
	got chan struct{} // closed with the lock

	mu sync.Mutex
	// wanted: somebody waits. What comes when nobody does is given back.
	wanted, over bool
	held         bool
}

// openTurn joins the line of a file. One that can't be made, as on a full disk,
// is no line.
func openTurn(path string) *turn {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return &turn{}
	}
	return &turn{f: f}
}

// take waits for the turn, for at most limit or until gone is closed.
func (t *turn) take(gone <-chan struct{}, limit time.Duration) {
	if t.f == nil || t.held {
		return
	}
	if t.wait == nil || !t.wait.want() {
		t.wait = nil
		err := lockFile(t.f, unix.LOCK_EX|unix.LOCK_NB)
		t.held = err == nil
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return
		}
		t.wait = &turnWait{got: make(chan struct{}), wanted: true}
		go t.wait.run(t.f)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-t.wait.got:
	case <-gone:
	case <-timer.C:
	}
	if held, over := t.wait.leave(); over {
		t.held, t.wait = held, nil
	}
}

// give lets the next process have its turn.
func (t *turn) give() {
	if t.held {
		t.held = false
		_ = lockFile(t.f, unix.LOCK_UN)
	}
}

// close leaves the line.
func (t *turn) close() {
	t.give()
	switch {
	case t.f == nil:
	case t.wait == nil:
		_ = t.f.Close()
	default:
		// The file is needed until the wait has come to its end.
		go func(w *turnWait, f *os.File) {
			<-w.got
			_ = f.Close()
		}(t.wait, t.f)
	}
	t.f = nil
}

func (w *turnWait) run(f *os.File) {
	defer close(w.got)
	err := lockFile(f, unix.LOCK_EX)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over, w.held = true, err == nil && w.wanted
	if err == nil && !w.wanted {
		_ = lockFile(f, unix.LOCK_UN)
	}
}

// want goes on with a wait that was left; false when it has come to its end.
func (w *turnWait) want() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = true
	return !w.over
}

// leave ends the waiting.
func (w *turnWait) leave() (held, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = false
	return w.held, w.over
}

func lockFile(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

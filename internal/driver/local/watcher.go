//go:build linux || darwin

package local

import (
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// watcher tells when something changes in a folder. All callers share one
// connection to the kernel, which has few. Where there is none to be had, or a
// folder can't be watched, the caller's own looking from time to time does.
type watcher struct {
	mu     sync.Mutex
	kernel *fsnotify.Watcher
	failed bool
	closed bool
	dirs   map[string]map[chan struct{}]bool
	done   sync.WaitGroup
}

func newWatcher() *watcher { return &watcher{dirs: map[string]map[chan struct{}]bool{}} }

const (
	// lookWatched is how often a watched folder is looked at all the same,
	// lookUnwatched how often one that can't be watched.
	lookWatched   = 500 * time.Millisecond
	lookUnwatched = 20 * time.Millisecond
)

// watch returns a channel that gets a value after changes in dir, and how often
// to look besides.
func (w *watcher) watch(dir string) (changes <-chan struct{}, every time.Duration, stop func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.open() {
		return c, lookUnwatched, func() {}
	}
	if w.dirs[dir] == nil {
		if err := w.kernel.Add(dir); err != nil {
			return c, lookUnwatched, func() {}
		}
		w.dirs[dir] = map[chan struct{}]bool{}
	}
	w.dirs[dir][c] = true
	return c, lookWatched, func() { w.forget(dir, c) }
}

func (w *watcher) open() bool {
	if w.kernel != nil || w.failed || w.closed {
		return w.kernel != nil && !w.closed
	}
	k, err := fsnotify.NewWatcher()
	if err != nil {
		w.failed = true
		return false
	}
	w.kernel = k
	w.done.Go(func() { w.run(k) })
	return true
}

func (w *watcher) forget(dir string, c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.dirs[dir], c)
	if len(w.dirs[dir]) == 0 && w.dirs[dir] != nil {
		delete(w.dirs, dir)
		if !w.closed {
			_ = w.kernel.Remove(dir) // it may be gone
		}
	}
}

func (w *watcher) run(k *fsnotify.Watcher) {
	for {
		select {
		case ev, ok := <-k.Events:
			if !ok {
				return
			}
			w.tell(filepath.Dir(ev.Name))
			w.tell(ev.Name)
		case _, ok := <-k.Errors:
			if !ok {
				return
			}
			w.tellAll() // events were lost
		}
	}
}

func (w *watcher) tell(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.dirs[dir] {
		poke(c)
	}
}

func (w *watcher) tellAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, cs := range w.dirs {
		for c := range cs {
			poke(c)
		}
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (w *watcher) close() error {
	w.mu.Lock()
	k := w.kernel
	again := w.closed
	w.closed = true
	w.mu.Unlock()
	if k == nil || again {
		return nil
	}
	err := k.Close()
	w.done.Wait()
	return err
}

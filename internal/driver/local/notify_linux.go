package local

import (
	"encoding/binary"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// watcher tells when files change. All callers share one connection to the
// kernel, which has few. Where there is none to be had, or a file can't be
// watched, the caller's own looking from time to time does.
type watcher struct {
	mu     sync.Mutex
	events *os.File
	fd     int
	failed bool
	closed bool
	// heard has, by the kernel's number of a watch, who wants to know.
	heard map[int32]map[chan struct{}]bool
	done  sync.WaitGroup
}

func newWatcher() *watcher { return &watcher{heard: map[int32]map[chan struct{}]bool{}} }

// notifier is one caller's: C gets a value after changes.
type notifier struct {
	w *watcher
	c chan struct{}
	// watched: the folder tells of changes, so that looking can be rare.
	watched bool
}

func (w *watcher) notifier() *notifier { return &notifier{w: w, c: make(chan struct{}, 1)} }

const (
	// lookWatched is how often a watched folder is looked at all the same,
	// lookUnwatched how often one that can't be watched.
	lookWatched   = 500 * time.Millisecond
	lookUnwatched = 20 * time.Millisecond
)

func (n *notifier) every() time.Duration {
	if n.watched {
		return lookWatched
	}
	return lookUnwatched
}

// names tells of every name that comes or goes in a folder.
func (n *notifier) names(dir string) {
	n.watched = n.w.add(dir, unix.IN_MOVED_TO|unix.IN_CREATE|unix.IN_DELETE|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF, n.c)
}

// next tells of the next change of a file, once: a file that grows all the time
// makes no stream of events. It reports whether the file can be watched.
func (n *notifier) next(file string) bool {
	return n.w.add(file, unix.IN_MODIFY|unix.IN_ONESHOT, n.c)
}

// close forgets the caller.
func (n *notifier) close() {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	for wd, cs := range n.w.heard {
		delete(cs, n.c)
		if len(cs) == 0 {
			delete(n.w.heard, wd)
			if !n.w.closed {
				_, _ = unix.InotifyRmWatch(n.w.fd, uint32(wd)) // it may be gone
			}
		}
	}
}

func (w *watcher) add(path string, mask uint32, c chan struct{}) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.open() {
		return false
	}
	wd, err := unix.InotifyAddWatch(w.fd, path, mask)
	if err != nil {
		return false
	}
	cs := w.heard[int32(wd)]
	if cs == nil {
		cs = map[chan struct{}]bool{}
		w.heard[int32(wd)] = cs
	}
	cs[c] = true
	return true
}

func (w *watcher) open() bool {
	if w.closed || w.failed {
		return false
	}
	if w.events != nil {
		return true
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		w.failed = true
		return false
	}
	w.fd, w.events = fd, os.NewFile(uintptr(fd), "inotify")
	events := w.events
	w.done.Go(func() { w.run(events) })
	return true
}

func (w *watcher) run(events *os.File) {
	buf := make([]byte, 16<<10)
	for {
		n, err := events.Read(buf)
		if err != nil {
			return // closed
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd := int32(binary.NativeEndian.Uint32(b))
			mask := binary.NativeEndian.Uint32(b[4:])
			w.tell(wd, mask)
			b = b[min(unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(b[12:])), len(b)):]
		}
	}
}

func (w *watcher) tell(wd int32, mask uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if mask&unix.IN_Q_OVERFLOW != 0 {
		for _, cs := range w.heard {
			pokeAll(cs)
		}
		return
	}
	pokeAll(w.heard[wd])
	if mask&unix.IN_IGNORED != 0 {
		delete(w.heard, wd)
	}
}

func pokeAll(cs map[chan struct{}]bool) {
	for c := range cs {
		poke(c)
	}
}

func (w *watcher) close() error {
	w.mu.Lock()
	events := w.events
	again := w.closed
	w.closed = true
	w.mu.Unlock()
	if events == nil || again {
		return nil
	}
	err := events.Close()
	w.done.Wait()
	return err
}

package joblog

import "sync"

// syncGroup lets many concurrent syncs share the disk's. While one is under
// way the others wait; what has gathered by its end is made durable by one sync
// of the whole file system, where the host has that, instead of one each.
// Hundreds of short logs that end at the same time cost a few syncs so.
type syncGroup struct {
	// whole makes everything durable that was written before it was called; nil
	// where the host can't.
	whole func() error

	mu    sync.Mutex
	busy  int
	queue []waiting
	// asked counts what came, merged what one sync of everything served; for
	// tests.
	asked, merged int64
}

type waiting struct {
	direct func() error
	done   chan error
}

const (
	// directSyncs is how many run at once before others have to wait.
	directSyncs = 2
	// wholeFrom is how many must have gathered for one sync of everything.
	wholeFrom = 4
)

// do makes what direct makes durable.
func (g *syncGroup) do(direct func() error) error {
	g.mu.Lock()
	g.asked++
	if g.busy < directSyncs || g.whole == nil {
		g.busy++
		g.mu.Unlock()
		err := direct()
		g.leave()
		return err
	}
	w := waiting{direct, make(chan error, 1)}
	g.queue = append(g.queue, w)
	g.mu.Unlock()
	return <-w.done
}

func (g *syncGroup) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy--
	if len(g.queue) == 0 {
		return
	}
	batch := g.queue
	g.queue = nil
	g.busy++
	go g.run(batch)
}

func (g *syncGroup) run(batch []waiting) {
	defer g.leave()
	if len(batch) >= wholeFrom {
		if g.whole() == nil {
			g.mu.Lock()
			g.merged += int64(len(batch))
			g.mu.Unlock()
			for _, w := range batch {
				w.done <- nil
			}
			return
		}
		// The error may be another file's: each learns of its own.
	}
	for _, w := range batch {
		w.done <- w.direct()
	}
}

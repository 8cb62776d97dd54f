package control

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/sdk"
)

// syncEvery is how long captured output may stay undurable.
const syncEvery = time.Second

// keepUp appends to a writer, and makes what was appended durable soon after,
// also when nothing more comes. What readers see is the writer's own care. While nothing
// is to be made durable it has no goroutine: of thousands of jobs most are silent.
type keepUp struct {
	c *capture
	w *joblog.Writer
	// begin syncs until there is nothing to be made durable, or free is called.
	begin func()
	free  context.CancelFunc
	wg    sync.WaitGroup

	mu sync.Mutex
	// unsynced: something was appended since the last sync began; busy: a goroutine
	// is at it.
	unsynced, busy bool
	lastItem       time.Time
	// lastLook is the last look that found nothing; looked is told of each.
	lastLook time.Time
	looked   chan struct{}
}

func newKeepUp(ctx context.Context, c *capture, w *joblog.Writer) *keepUp {
	ctx, free := context.WithCancel(context.WithoutCancel(ctx))
	k := &keepUp{c: c, w: w, looked: make(chan struct{}, 1), free: free}
	k.begin = func() { k.loop(ctx) }
	return k
}

// stop ends the syncing in the background. Nothing may be appended any more.
func (k *keepUp) stop() {
	k.free()
	k.wg.Wait()
}

func (k *keepUp) last(since time.Time) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lastItem.After(since) {
		return k.lastItem
	}
	return since
}

// look notes a look that found nothing.
func (k *keepUp) look() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lastLook = k.c.r.e.clock.Now()
	select {
	case k.looked <- struct{}{}:
	default:
	}
}

// silence returns for how long looks have found nothing: from the last item, or
// from start where none came since, to the last look. It is negative where
// there was no look after that.
func (k *keepUp) silence(start time.Time) time.Duration {
	since := k.last(start)
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lastLook.Sub(since)
}

func (k *keepUp) append(it sdk.LogItem) error {
	if it == (sdk.LogItem{}) {
		k.look()
		return nil
	}
	if err := k.w.Append(it); err != nil {
		return err
	}
	now := k.c.r.e.clock.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if it.Entry != nil || it.Gap != nil {
		k.lastItem = now
	}
	k.unsynced = true
	if !k.busy {
		k.busy = true
		k.wg.Go(k.begin)
	}
	return nil
}

func (k *keepUp) loop(ctx context.Context) {
	for k.c.r.e.clock.Sleep(ctx, syncEvery) == nil {
		if k.sync() && k.rest() {
			return
		}
	}
}

// rest reports whether nothing came since the last sync began.
func (k *keepUp) rest() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy = k.unsynced
	return !k.busy
}

// sync makes durable what was appended, and reports whether it did. Nothing
// waits for it but its own loop: output that comes meanwhile is taken.
func (k *keepUp) sync() bool {
	k.mu.Lock()
	k.unsynced = false
	k.mu.Unlock()
	err := k.w.Sync()
	if err == nil {
		return true
	}
	k.c.notSaved(err)
	return false
}

// notSaved tells the user, once for an attempt, that the disk doesn't take its
// output. That another holder has taken over shows elsewhere.
func (c *capture) notSaved(err error) {
	e := c.r.e
	var disk *sdk.Error
	if !errors.As(err, &disk) || disk.ID != joblog.ErrIDDisk {
		e.log.Debug("log not synced", "run", c.r.id, "err", err)
		return
	}
	c.unsaved.Do(func() {
		e.warn(c.r.id, "run %s: its output can't be saved at the moment, the job goes on: %v", c.r.id.Short(), err)
	})
}

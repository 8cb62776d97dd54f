package sqlite

import (
	"path/filepath"
	"sync"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
)

// headFile keeps the head file close behind the ledger. It is written by a
// goroutine of its own that lives for one write, because it syncs.
type headFile struct {
	s     *Store
	mu    sync.Mutex
	want  ledger.Head
	wrote int64
	// timer is set while a write is due.
	timer  *time.Timer
	closed bool
	busy   sync.WaitGroup
}

func (h *headFile) path() string { return filepath.Join(h.s.dir, ledger.HeadFile) }

// advance notes that the ledger has come to head, which is durable.
func (h *headFile) advance(head ledger.Head) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.want = head
	if h.timer != nil || h.closed {
		return
	}
	h.busy.Add(1)
	h.timer = time.AfterFunc(h.s.opts.HeadInterval, func() {
		defer h.busy.Done()
		h.mu.Lock()
		h.timer = nil
		h.mu.Unlock()
		if err := h.write(); err != nil {
			h.s.opts.Logger.Warn("ledger: the head file was not written", "path", h.path(), "error", err)
		}
	})
}

// write brings the file up to what is wanted. A file that another process
// brought further stays as it is.
func (h *headFile) write() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.want.LedgerID == "" || h.want.Count <= h.wrote {
		return nil
	}
	if now, err := ledger.ReadHead(h.path()); err == nil && now != nil && now.LedgerID == h.want.LedgerID && now.Count >= h.want.Count {
		h.wrote = h.want.Count
		return nil
	}
	if err := ledger.WriteHead(h.path(), h.want); err != nil {
		return err
	}
	h.wrote = h.want.Count
	return nil
}

func (h *headFile) close() error {
	h.mu.Lock()
	h.closed = true
	if h.timer != nil && h.timer.Stop() {
		h.timer = nil
		h.busy.Done()
	}
	h.mu.Unlock()
	h.busy.Wait()
	return h.write()
}

package sqlite

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
)

// headFile keeps the head file close behind the ledger. It is written by a
// goroutine of its own that lives for one write, because it syncs.
type headFile struct {
	s *Store
	// writing is held while the file is written; mu never, since commits wait
	// for it.
	writing sync.Mutex
	mu      sync.Mutex
	want    ledger.Head
	wrote   int64
	// timer is set while a write is due.
	timer  *time.Timer
	closed bool
	busy   sync.WaitGroup
}

func (h *headFile) path() string { return filepath.Join(h.s.dir, ledger.HeadFile) }

// begin makes the head file of a ledger that has no event yet, unless one is
// there. So a ledger with events and no head file is one whose head was taken.
func (h *headFile) begin(head ledger.Head) {
	if err := ledger.NewHead(h.path(), head); err != nil {
		h.s.opts.Logger.Warn("ledger: the head file was not written", "path", h.path(), "error", err)
	}
}

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
		h.write()
	})
}

// write brings the file up to what is wanted. A file that another process
// brought further stays as it is. A failure is logged and no more: a ledger
// that is ahead of its head file is sound.
func (h *headFile) write() {
	h.mu.Lock()
	want, wrote := h.want, h.wrote
	h.mu.Unlock()
	h.writing.Lock()
	defer h.writing.Unlock()
	if want.LedgerID == "" || want.Count <= wrote {
		return
	}
	if wrote == 0 {
		h.s.removeStale()
	}
	now, err := ledger.ReadHead(h.path())
	if err != nil || now == nil || now.LedgerID != want.LedgerID || now.Count < want.Count {
		err = ledger.WriteHead(h.path(), want)
	}
	if err != nil {
		h.s.opts.Logger.Warn("ledger: the head file was not written", "path", h.path(), "error", err)
		return
	}
	h.mu.Lock()
	h.wrote = max(h.wrote, want.Count)
	h.mu.Unlock()
}

// staleAfter is the age at which a temporary file is one that a killed process
// left.
const staleAfter = time.Hour

// removeStale removes temporary files of processes that were killed.
func (s *Store) removeStale() {
	for _, name := range []string{dbFile + ".new.*", ledger.HeadFile + ".*", ballastFile + ".*"} {
		paths, err := filepath.Glob(filepath.Join(globEscape(s.dir), name))
		if err != nil {
			continue // the pattern is bad for all directories or none
		}
		for _, path := range paths {
			if st, err := os.Lstat(path); err == nil && st.Mode().IsRegular() && time.Since(st.ModTime()) > staleAfter {
				if err := os.Remove(path); err != nil {
					s.opts.Logger.Debug("ledger: a stale file stays", "path", path, "error", err)
				}
			}
		}
	}
}

func globEscape(dir string) string {
	if runtime.GOOS == "windows" {
		return dir // there is no escape, nor the need but for [
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

func (h *headFile) close() {
	h.mu.Lock()
	h.closed = true
	if h.timer != nil && h.timer.Stop() {
		h.timer = nil
		h.busy.Done()
	}
	h.mu.Unlock()
	h.busy.Wait()
	h.write()
}

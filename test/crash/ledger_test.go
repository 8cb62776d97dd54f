//go:build unix

package crash

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// rows lists all runs, the newest first. It reads the ledger as a command does
// that only looks, without the cost of a process.
func (h *host) rows() []ledger.Run {
	h.t.Helper()
	if _, err := os.Stat(filepath.Join(h.state(), "ledger.db")); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	store, err := sqlite.Open(h.t.Context(), h.state(), sqlite.Options{Reading: true})
	if err != nil {
		h.t.Fatalf("open the ledger: %v", err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			h.t.Errorf("close the ledger: %v", err)
		}
	}()
	var out []ledger.Run
	for run, err := range store.Runs(h.t.Context(), ledger.RunFilter{}) {
		if err != nil {
			h.t.Fatalf("list runs: %v", err)
		}
		out = append(out, run)
	}
	return out
}

// sees waits until a run's row is as wanted, and returns it.
func (h *host) sees(id sdk.ID, what string, ok func(ledger.Run) bool) ledger.Run {
	h.t.Helper()
	var last ledger.Run
	testwait.Until(h.t, patience, what, func() bool {
		for _, run := range h.rows() {
			if run.ID == id {
				last = run
				return ok(run)
			}
		}
		return false
	})
	return last
}

// finished waits until nothing is left to do for a run.
func (h *host) finished(id sdk.ID) ledger.Run {
	h.t.Helper()
	return h.sees(id, "end of the run's record", func(run ledger.Run) bool { return !run.FinishedAt.IsZero() })
}

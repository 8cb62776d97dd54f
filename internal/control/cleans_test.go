package control_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// slowCleaner cleans nothing before it is let go, and counts what it is asked at once.
type slowCleaner struct {
	sdk.JobCleaner
	free chan struct{}

	mu        sync.Mutex
	now, most int
}

func (c *slowCleaner) CleanupJob(ctx context.Context, r sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
	c.mu.Lock()
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now--
	}()
	select {
	case <-c.free:
	case <-ctx.Done():
		return sdk.CleanupJobResult{}, ctx.Err()
	}
	return c.JobCleaner.CleanupJob(ctx, r)
}

// TestCleansTakeTurns: of many jobs that end together a few are cleaned at once; the
// rest wait outside of their calls' time-out, so that a slow budget fails none.
func TestCleansTakeTurns(t *testing.T) {
	const runs, atOnce = 40, 16
	slow := &slowCleaner{free: make(chan struct{})}
	w := newWorld(t, func(w *world) {
		// A call that is given up frees its turn a moment before its cleaner knows.
		w.back.CallTimeout = time.Minute
		w.wrap = func(p sdk.Provider) sdk.Provider {
			slow.JobCleaner, _ = sdk.Of(p, sdk.Cleaner())
			d, err := sdk.Decorate(p, map[string]any{sdk.Cleaner().String(): slow})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
	})
	e := w.engine()
	var ids []sdk.ID
	for range runs {
		ids = append(ids, w.submit(e, request(spec("true"))))
	}
	for _, id := range ids {
		w.row(id, "its drain", func(ledger.Run) bool {
			a := w.attempts(id)
			return len(a) == 1 && a[0].Phase == ledger.PhaseDrained
		})
	}
	w.until("places to be taken", func() bool {
		slow.mu.Lock()
		defer slow.mu.Unlock()
		return slow.now >= atOnce
	})
	close(slow.free)
	for _, id := range ids {
		w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
		if a := w.attempts(id); a[0].Phase != ledger.PhaseCleaned || a[0].CleanupErr != "" {
			t.Errorf("phase %s, clean-up: %q", a[0].Phase, a[0].CleanupErr)
		}
	}
	slow.mu.Lock()
	defer slow.mu.Unlock()
	if slow.most != atOnce {
		t.Errorf("%d clean-ups ran at once", slow.most)
	}
}

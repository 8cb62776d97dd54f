package control_test

import (
	"context"
	"sync"
	"testing"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// slowBatch answers no batch before it is let go, and counts those asked at once.
type slowBatch struct {
	sdk.JobBatcher
	free chan struct{}

	mu        sync.Mutex
	now, most int
	largest   int
}

func (b *slowBatch) JobStatuses(ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	b.mu.Lock()
	b.now++
	b.most, b.largest = max(b.most, b.now), max(b.largest, len(r.Handles))
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.now--
	}()
	select {
	case <-b.free:
	case <-ctx.Done():
		return sdk.JobStatusesResult{}, ctx.Err()
	}
	return b.JobBatcher.JobStatuses(ctx, r)
}

// TestBatchesFillWhileABackendIsSlow: what falls due while a batch is asked for
// comes along in the next one; there aren't ever more calls with ever fewer jobs,
// which make a slow backend slower.
func TestBatchesFillWhileABackendIsSlow(t *testing.T) {
	const runs = 24
	slow := &slowBatch{free: make(chan struct{})}
	w := newWorld(t, func(w *world) {
		w.wrap = func(p sdk.Provider) sdk.Provider {
			b, _ := sdk.Of(p, sdk.Batcher())
			slow.JobBatcher = b
			d, err := sdk.Decorate(p, map[string]any{sdk.Batcher().String(): slow})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
	})
	e := w.engine()
	var ids []sdk.ID
	for range runs {
		id := w.submit(e, request(spec("true")))
		w.row(id, "a handle", func(ledger.Run) bool {
			a := w.attempts(id)
			return len(a) == 1 && len(a[0].Handle) > 0
		})
		ids = append(ids, id)
	}
	close(slow.free)
	for _, id := range ids {
		w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
	}
	slow.mu.Lock()
	defer slow.mu.Unlock()
	if slow.most > 2 || slow.largest < runs/2 {
		t.Errorf("%d batches at once, the largest of %d jobs", slow.most, slow.largest)
	}
}

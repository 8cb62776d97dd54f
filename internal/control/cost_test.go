package control_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// countedStore counts what a run asks of the ledger.
type countedStore struct {
	ledger.Store
	writes, rows, events atomic.Int64
}

func (s *countedStore) Write(ctx context.Context, w ledger.Write) error {
	s.writes.Add(1)
	return s.Store.Write(ctx, w)
}

func (s *countedStore) Run(ctx context.Context, id sdk.ID) (ledger.Run, error) {
	s.rows.Add(1)
	return s.Store.Run(ctx, id)
}

func (s *countedStore) Attempts(ctx context.Context, id sdk.ID) ([]ledger.Attempt, error) {
	s.rows.Add(1)
	return s.Store.Attempts(ctx, id)
}

func (s *countedStore) Events(ctx context.Context, f ledger.EventFilter) iter.Seq2[ledger.Event, error] {
	if !f.Run.IsZero() {
		s.events.Add(1)
	}
	return s.Store.Events(ctx, f)
}

// TestRunIsCheap: a short run costs four writes of the ledger (its launch, its
// handle, its end, its clean-up) and reads nothing back. What would be a fifth
// is an end of the log that is late, a sixth a sight of it running.
func TestRunIsCheap(t *testing.T) {
	w := newWorld(t)
	var s *countedStore
	w.count = func(inner ledger.Store) ledger.Store {
		s = &countedStore{Store: inner}
		return s
	}
	e := w.engine()
	id := w.submit(e, request(spec("echo", "hello")))
	known := w.wait(e, id, control.MilestoneFinished)
	w.expect(known, sdk.StateSucceeded, sdk.ReasonCompleted)
	if n := s.writes.Load(); n < 4 || n > 6 {
		t.Errorf("%d writes", n)
	}
	if s.rows.Load()+s.events.Load() > 0 {
		t.Errorf("read %d rows and %d times its events", s.rows.Load(), s.events.Load())
	}
	// What the engine knows without reading is what the ledger has.
	stored, err := w.store.Run(w.ctx(), id)
	if d := cmp.Diff(stored, known); d != "" || err != nil {
		t.Errorf("known otherwise than stored, %v:\n%s", err, d)
	}
	w.sound(id)
}

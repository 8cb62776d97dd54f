package ledgertest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// soon is how long a change may take to be seen before a test fails.
const soon = 20 * time.Second

func await(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	timer := time.NewTimer(soon)
	defer timer.Stop()
	select {
	case <-c:
	case <-timer.C:
		t.Fatalf("no change was seen within %s: %s", soon, what)
	}
}

func testChanged(t *testing.T, h Harness) {
	s, other := h.open(t), h.open(t)
	ids := newIDs()
	holder := ids.NewID()
	sc := NewScript(ids, holder, nil)
	steps := []struct {
		name string
		do   func(s ledger.Store) error
	}{
		{"write", func(s ledger.Store) error { return s.Write(context.Background(), sc.Writes[0]) }},
		{"second write", func(s ledger.Store) error { return s.Write(context.Background(), sc.Writes[1]) }},
		{"claim", func(s ledger.Store) error { _, err := s.Claim(context.Background(), sc.Run, holder, 1); return err }},
		{"holder", func(s ledger.Store) error { return s.PutHolder(context.Background(), ledger.Holder{ID: holder}) }},
	}
	for i, step := range steps {
		mine, theirs := s.Changed(), other.Changed()
		also := s.Changed()
		writer := []ledger.Store{s, other}[i%2]
		if err := step.do(writer); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		await(t, mine, step.name)
		await(t, also, step.name)
		await(t, theirs, step.name+" in another handle")
	}
	// A channel that nobody waits on misses nothing afterwards.
	for range 3 {
		mustWrite(t, s, ledger.Write{Run: sc.Run, Events: []ledger.NewEvent{note("x")}})
	}
	c := other.Changed()
	mustWrite(t, s, ledger.Write{Run: sc.Run, Events: []ledger.NewEvent{note("x")}})
	await(t, c, "after a pause")
}

// testConcurrent mixes everything at once, in two handles.
func testConcurrent(t *testing.T, h Harness) {
	lives, workers := 12, 12
	if testing.Short() {
		lives = 3
	}
	a, b := h.open(t), h.open(t)
	ids := newIDs()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg, readers sync.WaitGroup
	for i := range workers {
		s := []ledger.Store{a, b}[i%2]
		wg.Go(func() {
			holder := ids.NewID()
			if err := s.PutHolder(ctx, ledger.Holder{ID: holder, Kind: "command"}); err != nil {
				t.Error(err)
			}
			for range lives {
				sc := NewScript(ids, holder, func(q *ledger.Requested) { q.Provider = fmt.Sprint("p", i%3) })
				for _, w := range sc.Writes {
					if err := s.Write(ctx, w); err != nil {
						t.Errorf("write: %v", err)
						return
					}
				}
				if r, err := s.Run(ctx, sc.Run); err != nil || r.Open() || r.Events != sc.Events() {
					t.Errorf("run: %+v, %v", r, err)
				}
			}
			if err := s.RemoveHolder(ctx, holder); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range 3 {
		s := []ledger.Store{a, b}[i%2]
		readers.Go(func() {
			for ctx.Err() == nil {
				changed := s.Changed()
				for r, err := range s.Runs(ctx, ledger.RunFilter{Open: i == 0}) {
					if err != nil || r.ID.IsZero() {
						if ctx.Err() == nil {
							t.Errorf("runs: %v", err)
						}
						break
					}
				}
				if _, err := s.CountOpen(ctx, "p1"); err != nil && ctx.Err() == nil {
					t.Errorf("count: %v", err)
				}
				select {
				case <-changed:
				case <-ctx.Done():
				}
			}
		})
	}
	wg.Wait()
	cancel()
	readers.Wait()
	rep := sound(t, a)
	if want := int64(lives*workers) * NewScript(ids, sdk.ID{}, nil).Events(); rep.Events != want || rep.Runs != int64(lives*workers) {
		t.Errorf("%d events of %d runs, want %d", rep.Events, rep.Runs, want)
	}
	if open := runs(t, a, ledger.RunFilter{Open: true}); len(open) != 0 {
		t.Errorf("%d runs are open", len(open))
	}
}

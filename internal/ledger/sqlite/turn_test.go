//go:build linux || darwin

package sqlite_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// TestWritersQueue: of many processes that write at once each has its turn, and
// none polls for the database's lock, which some of a hundred never found free.
func TestWritersQueue(t *testing.T) {
	dir, _ := written(t, 1)
	const handles, runs = 24, 4
	ids := sdk.NewIDSource(sdk.SystemClock())
	stores := make([]*sqlite.Store, handles)
	for i := range stores {
		stores[i] = open(t, dir, sqlite.Options{})
	}
	var wg sync.WaitGroup
	for _, s := range stores {
		wg.Go(func() {
			for range runs {
				for _, w := range life(ids, ids.NewID()) {
					if err := s.Write(context.Background(), w); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	for i, s := range stores {
		if n := sqlite.Refused(s); n != 0 {
			t.Errorf("handle %d found the database locked %d times", i, n)
		}
	}
}

// TestTurnThatNobodyWaitsFor: a turn that comes after its call has given up
// goes to the next.
func TestTurnThatNobodyWaitsFor(t *testing.T) {
	dir := t.TempDir()
	first, late, next := sqlite.OpenTurn(dir), sqlite.OpenTurn(dir), sqlite.OpenTurn(dir)
	defer first.Close()
	defer late.Close()
	defer next.Close()
	if !first.Take(0) {
		t.Fatal("a free turn was not had")
	}
	for range 2 {
		if late.Take(time.Millisecond) {
			t.Fatal("two have the turn")
		}
	}
	first.Give()
	testwait.Until(t, patience, "turn", func() bool { return next.Take(10 * time.Millisecond) })
	next.Give()
	testwait.Until(t, patience, "turn of the late one", func() bool { return late.Take(10 * time.Millisecond) })
}

// TestStoppedWriterOutOfTurn: who has the turn and doesn't write, as a stopped
// process, keeps nobody from writing.
func TestStoppedWriterOutOfTurn(t *testing.T) {
	dir, _ := written(t, 1)
	stopped := sqlite.OpenTurn(dir)
	defer stopped.Close()
	if !stopped.Take(0) {
		t.Fatal("a free turn was not had")
	}
	s := open(t, dir, sqlite.Options{BusyTimeout: time.Second})
	ids := sdk.NewIDSource(sdk.SystemClock())
	if err := s.Write(t.Context(), life(ids, ids.NewID())[0]); err != nil {
		t.Error(err)
	}
	stopped.Give()
}

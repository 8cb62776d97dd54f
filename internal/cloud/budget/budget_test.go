package budget_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/budget"
)

// TestFor: one budget for a key, whoever asks, and one for each key.
func TestFor(t *testing.T) {
	var all budget.Budgets
	key := budget.Key{Account: "a", Region: "r", Endpoint: "e", Family: "f"}
	b := all.For(key, 1, 1)
	if all.For(key, 2, 2) != b {
		t.Error("a second budget of one key")
	}
	for _, other := range []budget.Key{{"b", "r", "e", "f"}, {"a", "s", "e", "f"}, {"a", "r", "d", "f"}, {"a", "r", "e", "g"}} {
		if all.For(other, 1, 1) == b {
			t.Errorf("%+v shares the budget of %+v", other, key)
		}
	}
}

// TestWait: a burst at once, then the rate; the last size counts; what the cloud
// says is left counts more; a wait ends with its context and gives its turn back.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all budget.Budgets
		key := budget.Key{Account: "a"}
		b := all.For(key, 1, 3)
		begin := time.Now()
		took := func() time.Duration { return time.Since(begin).Round(time.Millisecond) }
		wait := func(want time.Duration) {
			t.Helper()
			if err := b.Wait(t.Context()); err != nil || took() != want {
				t.Errorf("a turn after %s (%v), want %s", took(), err, want)
			}
		}
		for range 3 {
			wait(0)
		}
		wait(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := b.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || took() != 1500*time.Millisecond {
			t.Errorf("after %s: %v", took(), err)
		}
		wait(2 * time.Second)
		time.Sleep(10 * time.Second) // a full bucket again
		b.Left(1)
		wait(12 * time.Second)
		wait(13 * time.Second)
		time.Sleep(10 * time.Second)
		b.Throttled()
		wait(24 * time.Second)
		all.For(key, 10, 1)
		wait(24100 * time.Millisecond)
		ended, end := context.WithCancel(t.Context())
		end()
		time.Sleep(time.Second)
		if err := b.Wait(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("an ended context: %v", err)
		}
	})
}

// TestLeftAtOnce: many replies at once that all say the same take what was saved
// up once, not once each: a budget has no debts.
func TestLeftAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all budget.Budgets
		for round := range 2000 {
			b := all.For(budget.Key{Account: strconv.Itoa(round)}, 10, 1000)
			var replies sync.WaitGroup
			for range 8 {
				replies.Go(b.Throttled)
			}
			replies.Wait()
			begin := time.Now()
			if err := b.Wait(t.Context()); err != nil || time.Since(begin) > 100*time.Millisecond {
				t.Fatalf("round %d: a turn after %s, %v", round, time.Since(begin), err)
			}
		}
	})
}

package sight_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-run/windlass/internal/driver/sight"
)

// TestEachLeavesTime: a call for more jobs than its time is enough for still has
// those that it was enough for, and errors for the others, before its time is up.
func TestEachLeavesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		const jobs = 1000
		all, errs := make([]int, jobs), make([]error, jobs)
		for i := range all {
			all[i] = i
		}
		sight.Each(ctx, all, func(ctx context.Context, i int) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			errs[i] = ctx.Err()
		})
		seen := 0
		for i, err := range errs {
			if err == nil {
				seen++
			} else if i < 16 {
				t.Errorf("job %d: %v", i, err)
			}
		}
		if ctx.Err() != nil || seen < 16*20 || seen == jobs {
			t.Errorf("%d of %d seen, %v", seen, jobs, ctx.Err())
		}
	})
}

// TestEachWithoutDeadline: where there is no deadline, all are looked at.
func TestEachWithoutDeadline(t *testing.T) {
	seen := make([]bool, 100)
	var all []int
	for i := range seen {
		all = append(all, i)
	}
	sight.Each(t.Context(), all, func(ctx context.Context, i int) { seen[i] = ctx.Err() == nil })
	for i, ok := range seen {
		if !ok {
			t.Errorf("job %d is left out", i)
		}
	}
	sight.Each(t.Context(), nil, func(context.Context, int) { t.Error("a look at nothing") })
}

package compose

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// TestLately: an answer serves all who ask at once and for a moment after; no error
// outlives those who waited for it, and nobody gets one of a caller who left.
func TestLately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l lately[int]
		clock := sdk.SystemClock()
		asked := 0
		ask := func() (int, error) {
			asked++
			time.Sleep(time.Second)
			return asked, nil
		}
		get := func(key byte) int {
			v, err := l.get(t.Context(), clock, answerKey{key}, ask)
			if err != nil {
				t.Error(err)
			}
			return v
		}
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if v := get(1); v != 1 {
					t.Errorf("together: answer %d", v)
				}
			})
		}
		wg.Wait()
		if v := get(2); v != 2 {
			t.Errorf("another question has answer %d", v)
		}
		time.Sleep(fresh)
		if v := get(1); v != 3 {
			t.Errorf("when it is old: answer %d", v)
		}
		if len(l.answers) != 1 {
			t.Errorf("%d answers are kept", len(l.answers))
		}
		broken := errors.New("broken")
		for range 2 {
			_, err := l.get(t.Context(), clock, answerKey{4}, func() (int, error) { asked++; return 0, broken })
			if !errors.Is(err, broken) {
				t.Errorf("got %v", err)
			}
		}
		if asked != 5 {
			t.Errorf("asked %d times, an error was kept", asked)
		}
		ctx, leave := context.WithCancel(t.Context())
		wg.Go(func() {
			_, err := l.get(ctx, clock, answerKey{5}, func() (int, error) { <-ctx.Done(); return 0, ctx.Err() })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("who left got %v", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if v := get(5); v != 6 {
				t.Errorf("behind one who left: answer %d", v)
			}
		})
		synctest.Wait()
		leave()
		wg.Wait()
		l.put(clock, answerKey{6}, 7)
		if v, ok := l.take(clock, answerKey{6}); !ok || v != 7 {
			t.Errorf("taken %d, %t", v, ok)
		}
		if _, ok := l.take(clock, answerKey{6}); ok {
			t.Error("taken twice")
		}
		l.put(clock, answerKey{6}, 7)
		time.Sleep(fresh)
		if _, ok := l.take(clock, answerKey{6}); ok {
			t.Error("taken when it was old")
		}
	})
}

package joblog

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

func TestSyncsAreMerged(t *testing.T) {
	var direct, whole atomic.Int64
	hold := make(chan struct{})
	g := &syncGroup{whole: func() error { whole.Add(1); return nil }}
	var wg sync.WaitGroup
	started := make(chan struct{}, directSyncs)
	for range directSyncs {
		wg.Go(func() {
			_ = g.do(func() error { direct.Add(1); started <- struct{}{}; <-hold; return nil })
		})
	}
	for range directSyncs {
		<-started
	}
	const more = 50
	for range more {
		wg.Go(func() {
			if err := g.do(func() error { direct.Add(1); return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	for queued := 0; queued < more; {
		g.mu.Lock()
		queued = len(g.queue)
		g.mu.Unlock()
	}
	close(hold)
	wg.Wait()
	if whole.Load() != 1 || direct.Load() != directSyncs {
		t.Fatalf("%d whole and %d direct syncs for %d callers", whole.Load(), direct.Load(), more+directSyncs)
	}
}

func TestFailedWholeSyncIsTriedEach(t *testing.T) {
	bad := errors.New("bad sector")
	g := &syncGroup{whole: func() error { return errors.New("somebody's write failed") }}
	ws := make([]waiting, wholeFrom)
	for i := range ws {
		err := error(nil)
		if i == 1 {
			err = bad
		}
		ws[i] = waiting{func() error { return err }, make(chan error, 1)}
	}
	g.busy = 1
	g.run(ws)
	for i, w := range ws {
		if err := <-w.done; errors.Is(err, bad) != (i == 1) {
			t.Errorf("caller %d got %v", i, err)
		}
	}
}

func TestWithoutWholeSyncNobodyWaits(t *testing.T) {
	g := &syncGroup{}
	n := 0
	for range 10 {
		if err := g.do(func() error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if n != 10 {
		t.Fatalf("%d syncs", n)
	}
}

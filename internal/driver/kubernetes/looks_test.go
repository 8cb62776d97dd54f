package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	pocket "github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// asks records what is asked for, each call of which takes its time.
type asks struct {
	mu    sync.Mutex
	sizes []int
	err   error
}

func (a *asks) ask(ctx context.Context, handles []sdk.JobHandle) ([]sight, error) {
	a.mu.Lock()
	a.sizes = append(a.sizes, len(handles))
	a.mu.Unlock()
	if err := sdk.SystemClock().Sleep(ctx, 20*time.Millisecond); err != nil {
		return nil, err
	}
	out := make([]sight, len(handles))
	for i, h := range handles {
		out[i].job = &batchv1.Job{}
		out[i].job.Name = h.ID
	}
	return out, a.err
}

// TestLooksGather: a look alone is made at once; of a thousand at one time each gets its
// own answer, by few calls, which come no faster than they may.
func TestLooksGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a := newLooks(), &asks{}
		begun := time.Now()
		if s, err := l.look(t.Context(), sdk.JobHandle{ID: "alone"}, a.ask); err != nil || s.job.Name != "alone" || time.Since(begun) != 20*time.Millisecond {
			t.Fatalf("after %s: %+v, %v", time.Since(begun), s.job, err)
		}
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				id := fmt.Sprint(i)
				if s, err := l.look(t.Context(), sdk.JobHandle{ID: id}, a.ask); err != nil || s.job.Name != id {
					t.Errorf("%s: %+v, %v", id, s.job, err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(begun); len(a.sizes) > 1+10+looksAtOnce || slices.Max(a.sizes) > batchMax || took < 1000*lookPace-batchMax*lookPace || took > 3*time.Second {
			t.Errorf("calls for %v jobs in %s", a.sizes, took)
		}
		if len(l.waiting) != 0 || len(l.turns) != 0 {
			t.Errorf("%d wait, %d calls are under way", len(l.waiting), len(l.turns))
		}
	})
}

// TestLooksOfWhoLeft: who asks for others too may go before there is an answer; they get
// theirs all the same. A failure is everybody's whose look was asked for.
func TestLooksOfWhoLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, a := newLooks(), &asks{}
		l.next = time.Now().Add(time.Second) // so that they come together
		ctx, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		look := func(ctx context.Context, id string, want error) {
			wg.Go(func() {
				s, err := l.look(ctx, sdk.JobHandle{ID: id}, a.ask)
				if !errors.Is(err, want) || err == nil && s.job.Name != id {
					t.Errorf("%s: %+v, %v", id, s.job, err)
				}
			})
		}
		look(ctx, "first", context.Canceled)
		synctest.Wait()
		for i := range 200 {
			look(t.Context(), fmt.Sprint(i), nil)
		}
		for i := range 3 {
			look(ctx, fmt.Sprintf("left-%d", i), context.Canceled)
		}
		time.Sleep(time.Second + 10*time.Millisecond)
		leave()
		wg.Wait()
		a.err = errors.New("no answer")
		for i := range 50 {
			look(t.Context(), fmt.Sprint(i), a.err)
		}
		wg.Wait()
		if len(l.waiting) != 0 || len(l.turns) != 0 {
			t.Errorf("%d wait, %d calls are under way", len(l.waiting), len(l.turns))
		}
	})
}

// TestLogsOfManyCostFewCalls: the readers of many logs whose pods wait share their looks.
func TestLogsOfManyCostFewCalls(t *testing.T) {
	w := newWorld(t, nil)
	w.cluster.TuneKnobs(func(k *pocket.Knobs) { k.Unschedulable = "0/1 nodes are available" })
	p := w.Open()
	const jobs = 20
	var handles []sdk.JobHandle
	for range jobs {
		handles = append(handles, w.Run(p, w.Plan(p, shell("true"))))
	}
	for range looksAtOnce {
		p.looks.turns <- struct{}{} // nobody's turn comes
	}
	before := w.calls.Count("pods.list")
	var readers sync.WaitGroup
	for _, h := range handles {
		readers.Go(func() {
			for it, err := range p.JobLogs(t.Context(), sdk.JobLogsRequest{Handle: h, Follow: true}) {
				if err != nil || it != (sdk.LogItem{}) {
					t.Errorf("%+v, %v", it, err)
				}
				return // it has looked
			}
		})
	}
	testwait.Until(t, time.Minute, "readers that wait for their turn", func() bool {
		p.looks.mu.Lock()
		defer p.looks.mu.Unlock()
		return len(p.looks.waiting) == jobs
	})
	for range looksAtOnce {
		<-p.looks.turns
	}
	readers.Wait()
	if calls := w.calls.Count("pods.list") - before; calls != 1 {
		t.Errorf("%d lists of pods for %d readers", calls, jobs)
	}
}

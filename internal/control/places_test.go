package control_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// quota remembers the most objects that were there after any launch.
type quota struct {
	cloud *fake.Cloud
	mu    sync.Mutex
	most  int
}

// counted launches by one engine's provider, under the quota of all.
type counted struct {
	sdk.JobRunner
	q *quota
}

func (c counted) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	res, err := c.JobRunner.RunJob(ctx, r)
	q := c.q
	q.mu.Lock()
	defer q.mu.Unlock()
	q.most = max(q.most, len(q.cloud.Jobs()))
	return res, err
}

// TestF16PlacesCountWhatIsThere is a property: whatever fails on the way, and
// whoever dies, a backend has no more objects of ours at once than its bound, and
// every run comes to its end.
func TestF16PlacesCountWhatIsThere(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 16))
			most, runs := 1+rnd.IntN(3), 6+rnd.IntN(8)
			w := newWorld(t, withBackend(func(b *control.Backend) { b.MaxInFlight = most }))
			w.clock.most = 20 * time.Millisecond
			q := &quota{cloud: w.cloud}
			w.wrap = func(p sdk.Provider) sdk.Provider {
				runner, _ := sdk.Of(p, sdk.Runner())
				d, err := sdk.Decorate(p, map[string]any{sdk.Runner().String(): counted{runner, q}})
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			for range 2 + rnd.IntN(6) {
				w.cloud.Inject(fake.Fault{Op: fake.OpCleanupJob, Kind: fake.FaultError, Nth: 1 + rnd.Int64N(int64(2*runs)), Times: 1 + rnd.Int64N(4), Status: 403})
			}
			if rnd.IntN(2) == 0 {
				w.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultLostReply, Nth: 1 + rnd.Int64N(int64(runs)), Times: 1})
			}
			e := w.engine()
			var ids []sdk.ID
			for i := range runs {
				s := spec("sleep", fmt.Sprintf("%dms", rnd.IntN(30)))
				if rnd.IntN(3) == 0 {
					s = spec("exit", "3")
					s.Retries = rnd.IntN(2)
				}
				ids = append(ids, w.submit(e, request(s)))
				if i == runs/2 {
					e.Crash()
					e = w.engine()
					if _, err := e.Recover(w.ctx(), ""); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, id := range ids {
				w.wait(e, id, control.MilestoneFinished)
			}
			q.mu.Lock()
			defer q.mu.Unlock()
			if q.most == 0 || q.most > most || len(w.cloud.Jobs()) != 0 {
				t.Errorf("%d objects at once, %d may be; left behind %v", q.most, most, w.cloud.Jobs())
			}
			w.sound(ids[0])
		})
	}
}

// TestF16StuckCleanUpIsNamed: a run that waits for the place of one that can't be
// cleaned up says so, once, and goes on when that is mended.
func TestF16StuckCleanUpIsNamed(t *testing.T) {
	w := newWorld(t, withBackend(func(b *control.Backend) { b.MaxInFlight = 1 }))
	w.clock.most = 20 * time.Millisecond
	refuse := make(chan struct{})
	w.wrap = func(p sdk.Provider) sdk.Provider {
		inner, _ := sdk.Of(p, sdk.Cleaner())
		d, err := sdk.Decorate(p, map[string]any{sdk.Cleaner().String(): &gatedCleaner{JobCleaner: inner, open: refuse}})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	e := w.engine()
	first := w.submit(e, request(spec("true")))
	w.wait(e, first, control.MilestoneEnded)
	second := w.submit(e, request(spec("true")))
	named := func() bool {
		r, err := w.store.Run(w.ctx(), second)
		return err == nil && r.Reason == sdk.ReasonQueued && strings.Contains(r.Message, first.Short()) && strings.Contains(r.Message, "no right to delete")
	}
	w.until("the run that waits names the one that is stuck", named)
	third := w.submit(e, request(spec("true")))
	w.until("the third waits", func() bool {
		r, err := w.store.Run(w.ctx(), third)
		return err == nil && r.Reason == sdk.ReasonQueued
	})
	close(refuse)
	for _, id := range []sdk.ID{first, second, third} {
		w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
	}
	said := 0
	for ev, err := range w.store.Events(w.ctx(), ledger.EventFilter{Run: second, Kinds: []ledger.Kind{ledger.KindWaiting}}) {
		if err != nil {
			t.Fatal(err)
		}
		_, said = ev, said+1
	}
	if said > 3 {
		t.Errorf("a long wait left %d events", said)
	}
	w.sound(second)
}

// gatedCleaner refuses until it is open.
type gatedCleaner struct {
	sdk.JobCleaner
	open <-chan struct{}
}

func (g *gatedCleaner) CleanupJob(ctx context.Context, r sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
	select {
	case <-g.open:
		return g.JobCleaner.CleanupJob(ctx, r)
	default:
		return sdk.CleanupJobResult{}, sdk.Errorf(sdk.PermissionDenied, "clean up", "no right to delete")
	}
}

package clouds

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/price"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// TestF16NothingAfterReap: more runs than a page has, each with things of its own,
// whose deletes all fail, leave nothing after one reap when their holder has died; nor
// do fewer whose holder still tries.
func TestF16NothingAfterReap(t *testing.T) {
	if testing.Short() {
		t.Skip("takes many seconds: left out by -short")
	}
	for kind, build := range yards {
		t.Run(kind+"/the holder died", func(t *testing.T) {
			t.Parallel()
			nothingAfterReap(t, build, 110, false)
		})
		t.Run(kind+"/the holder still tries", func(t *testing.T) {
			t.Parallel()
			nothingAfterReap(t, build, 40, true)
		})
	}
}

func nothingAfterReap(t *testing.T, build func(*testing.T, run.Executor) yard, runs int, alive bool) {
	y := build(t, run.NewScripted(func(run.Spec) run.Play { return run.Play{Stdout: []byte("done\n")} }))
	s := newSite(t, y)
	y.faults.Add(fault.Rule{Action: y.deletes, Effect: fault.Effect{Refuse: y.refusal}})
	first, _, shut := s.open()
	ids := submitAll(s, first, runs)
	t.Cleanup(func() { tellStates(t, s, ids) })
	for _, id := range ids {
		testwait.Until(t, soon, "failed clean-up", func() bool {
			a, err := s.store.Attempts(t.Context(), id)
			return err == nil && len(a) == 1 && a[0].CleanupErr != ""
		})
	}
	if !alive {
		shut()
	}
	e, p, _ := s.open()
	if n := len(s.listed(p)); n < runs {
		t.Fatalf("%d objects are there before the reap", n)
	}
	y.faults.Clear()
	s.reap(e, false)
	if left := s.listed(p); len(left) > 0 {
		t.Errorf("%d objects are left, such as %+v", len(left), left[0])
	}
	if alive {
		shut() // rather than wait for its next try, which may be a minute away
		if _, err := e.Recover(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range ids {
		got, err := e.Wait(t.Context(), id, control.MilestoneFinished)
		if err != nil || got.State != sdk.StateSucceeded || got.Phase != ledger.PhaseCleaned {
			t.Fatalf("%s, phase %s, %v", got.State, got.Phase, err)
		}
	}
	if rep, err := s.store.Verify(t.Context(), nil); err != nil || len(rep.Faults) > 0 {
		t.Errorf("ledger: %+v, %v", rep.Faults, err)
	}
}

// tellStates says where the runs of a test that failed stand.
func tellStates(t *testing.T, s *site, ids []sdk.ID) {
	if !t.Failed() {
		return
	}
	for _, id := range ids {
		r, err := s.store.Run(context.Background(), id)
		t.Logf("%s: %s, phase %q, %s %q, attempt %d, %v", id.Short(), r.State, r.Phase, r.Reason, r.Message, r.Attempt, err)
	}
}

func submitAll(s *site, e *control.Engine, runs int) []sdk.ID {
	ids := make([]sdk.ID, runs)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 20)
	for i := range ids {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			got, err := e.Submit(s.t.Context(), control.SubmitRequest{Provider: s.yard.driver.Kind, Actor: "tester",
				Spec: s.yard.spec(sdk.JobSpec{Image: fmt.Sprintf("app:%d", i), Args: sdk.Argv{"true"}})})
			if err != nil {
				s.t.Error(err)
				return
			}
			ids[i] = got.Run.ID
		})
	}
	wg.Wait()
	if s.t.Failed() {
		s.t.FailNow()
	}
	return ids
}

// TestReapTellsCost: what runs is listed with why it stays and about what it
// costs; once its run is given up it would go, and goes, with what it used.
func TestReapTellsCost(t *testing.T) {
	for kind, build := range yards {
		t.Run(kind, func(t *testing.T) {
			y := build(t, run.NewScripted(func(run.Spec) run.Play { return run.Play{For: time.Hour} }))
			s := newSite(t, y)
			e, _, shut := s.open()
			id := s.submit(e, y.spec(sdk.JobSpec{Image: "busybox:local", Args: sdk.Argv{"true"}, CPU: 1000, Memory: 2 << 30}))
			testwait.Until(t, soon, "running job", func() bool {
				r, err := s.store.Run(t.Context(), id)
				return err == nil && r.State == sdk.StateRunning
			})
			live := 0
			for _, it := range s.reap(e, true) {
				if it.Orphan || it.Why == "" || it.Object.Owner != "rig" || it.Object.LedgerID != s.store.ID() {
					t.Errorf("%+v", it)
				}
				cost, ok := price.Of(it.Kind, it.Object, it.At)
				if ok == y.unpriced {
					t.Errorf("price of %+v: %t", it.Object, ok)
				}
				if it.Object.Type == y.live {
					if live++; !y.unpriced && (cost.Hourly < 0.03 || cost.Hourly > 0.1 || cost.Total == nil || *cost.Total <= 0) || it.Object.Size.CPU != 1000 || it.Object.Size.Memory != 2<<30 {
						t.Errorf("costs %s: %+v", cost, it.Object)
					}
				} else if cost.Hourly != 0 {
					t.Errorf("costs %s: %+v", cost, it.Object)
				}
			}
			if live != 1 {
				t.Errorf("%d of them run", live)
			}
			shut()
			// Another ledger of the same owner sees it, and leaves it alone.
			other := newSite(t, y)
			oe, _, _ := other.open()
			for _, it := range other.reap(oe, false) {
				if it.Orphan || it.Removed {
					t.Errorf("another ledger's: %+v", it)
				}
			}
			e, p, _ := s.open()
			if err := e.Cancel(t.Context(), control.CancelRequest{Run: id, Actor: "tester"}); err != nil {
				t.Fatal(err)
			}
			if _, err := e.Wait(t.Context(), id, control.MilestoneFinished); err != nil {
				t.Fatal(err)
			}
			s.reap(e, false)
			if left := s.listed(p); len(left) > 0 {
				t.Errorf("left: %+v", left)
			}
		})
	}
}

// later is a clock that is ahead of this machine's.
type later struct {
	sdk.Clock
	by time.Duration
}

func (c later) Now() time.Time { return c.Clock.Now().Add(c.by) }

// TestReapOfAnothersLeftovers: what another ledger left behind stays until it has
// expired, and then goes where its owner is named, and only there.
func TestReapOfAnothersLeftovers(t *testing.T) {
	for kind, build := range yards {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			y := build(t, run.NewScripted(func(run.Spec) run.Play { return run.Play{Stdout: []byte("done\n")} }))
			gone := newSite(t, y)
			e, p, shut := gone.open()
			got, err := e.Submit(t.Context(), control.SubmitRequest{Provider: kind, Actor: "tester", Cleanup: control.CleanupNever,
				Spec: y.spec(sdk.JobSpec{Image: "busybox:local", Args: sdk.Argv{"true"}})})
			if err != nil {
				t.Fatal(err)
			}
			if r, err := e.Wait(t.Context(), got.Run.ID, control.MilestoneFinished); err != nil || r.State != sdk.StateSucceeded {
				t.Fatalf("%s, %v", r.State, err)
			}
			left := gone.listed(p)
			if len(left) == 0 {
				t.Fatal("nothing is left")
			}
			// A definition is shared by runs, costs nothing and has no expiry: it stays.
			expires, perishable := time.Time{}, 0
			for _, o := range left {
				if !o.Expires.IsZero() {
					perishable++
				} else if !o.Shared {
					t.Errorf("it has no expiry: %+v", o)
				}
				if o.Expires.After(expires) {
					expires = o.Expires
				}
			}
			shut()

			reap := func(s *site, owner string) (removed int, why []string) {
				e, _, shut := s.open()
				defer shut()
				for it, err := range e.Reap(t.Context(), control.ReapRequest{Owner: owner, Actor: "tester"}) {
					if err != nil || it.Err != nil {
						t.Fatalf("reap: %v, %v", err, it.Err)
					}
					if it.Removed {
						removed++
					}
					why = append(why, it.Why)
				}
				return removed, why
			}
			if n, why := reap(newSite(t, y), "rig"); n != 0 {
				t.Errorf("before they expired %d were removed: %q", n, why)
			}
			after := newSite(t, y)
			after.clock = later{sdk.SystemClock(), max(time.Until(expires), 0) + 2*time.Hour}
			for _, owner := range []string{"", "another"} {
				if n, why := reap(after, owner); n != 0 || len(why) != len(left) {
					t.Errorf("with the owner %q %d were removed: %q", owner, n, why)
				}
			}
			if n, why := reap(after, "rig"); n != perishable {
				t.Errorf("%d of %d were removed: %q", n, perishable, why)
			}
			_, p, _ = after.open()
			if rest := after.listed(p); len(rest) != len(left)-perishable {
				t.Errorf("left: %+v", rest)
			}
		})
	}
}

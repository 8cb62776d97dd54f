package control

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

const (
	// recoverBatch bounds one claim, so that several holders may share the work.
	recoverBatch = 500
	// openCall bounds the opening of a provider.
	openCall = 10 * time.Second
	// claimers is how many runs are claimed at once, which share the ledger's
	// commits.
	claimers = 32
)

// gone are the holders that don't drive their runs any more.
type gone struct {
	// dead have ended; lapsed may be stopped, since their lease passed without
	// renewal at that time.
	dead   map[sdk.ID]bool
	lapsed map[sdk.ID]time.Time
	// known are the holders that have a lease, dead or alive.
	known map[sdk.ID]bool
}

func (e *Engine) deadHolders(holders []ledger.Holder) gone {
	return goneOf(holders, e.self.ID, e.clock.Now())
}

// goneOf judges the holders that a ledger has at a time. self, where it isn't zero,
// is this process.
func goneOf(holders []ledger.Holder, self sdk.ID, now time.Time) gone {
	g := gone{dead: map[sdk.ID]bool{}, lapsed: map[sdk.ID]time.Time{}, known: map[sdk.ID]bool{}}
	for _, h := range holders {
		g.known[h.ID] = true
		switch {
		case h.ID == self:
		case lockFree(h.LockFile):
			g.dead[h.ID] = true
		case now.After(h.Expires):
			g.lapsed[h.ID] = h.Expires
		}
	}
	return g
}

// Undriven returns what tells of a run, read before this call, whether it has
// something left to do and no process that does it. It is for those who read the
// ledger without an engine.
func Undriven(ctx context.Context, store ledger.Store, now time.Time) (func(ledger.Run) bool, error) {
	holders, err := store.Holders(ctx)
	if err != nil {
		return nil, err
	}
	g := goneOf(holders, sdk.ID{}, now)
	return func(r ledger.Run) bool { return r.Open() && g.free(r) }, nil
}

// free reports whether a run has no holder that drives it.
func (g gone) free(r ledger.Run) bool {
	if r.Holder.IsZero() || g.dead[r.Holder] || !g.known[r.Holder] {
		return true
	}
	_, lapsed := g.lapsed[r.Holder]
	return lapsed
}

// orphans lists the open runs that nobody drives, oldest first.
func (e *Engine) orphans(ctx context.Context, provider string, g gone) ([]ledger.Run, error) {
	var out []ledger.Run
	for run, err := range e.o.Store.Runs(ctx, ledger.RunFilter{Open: true, Provider: provider, OldestFirst: true}) {
		if err != nil {
			return nil, err
		}
		if g.free(run) && run.Holder != e.self.ID {
			out = append(out, run)
		}
	}
	return out, nil
}

// Orphaned reports whether a run has something left to do and nobody who does
// it.
func (e *Engine) Orphaned(ctx context.Context, id sdk.ID) (bool, error) {
	run, err := e.o.Store.Run(ctx, id)
	if err != nil || !run.Open() || e.runner(id) != nil {
		return false, err
	}
	holders, err := e.o.Store.Holders(ctx)
	if err != nil {
		return false, err
	}
	return e.deadHolders(holders).free(run), nil
}

// takeUp claims runs and drives them, and returns how many. Providers are
// opened side by side and within a bound, so that one that can't be opened
// holds up none of the others. every says that runs are all that are free.
func (e *Engine) takeUp(ctx context.Context, runs []ledger.Run, g gone, every bool) (int, error) {
	if len(runs) == 0 {
		return 0, nil
	}
	if err := e.join(ctx); err != nil {
		return 0, err
	}
	groups := map[string][]ledger.Run{}
	for _, r := range runs {
		key := r.Provider + "\x00" + r.Identity.String()
		if r.Attempt == 0 {
			key = "" // the row of a call, which needs no provider
		}
		groups[key] = append(groups[key], r)
	}
	var count atomic.Int64
	var wg sync.WaitGroup
	for key, group := range groups {
		wg.Go(func() {
			ready := e.openable(ctx, group)
			// Rows of calls are settled side by side: each waits for its backend.
			if every && key != "" && len(groups) == 1 && len(ready) == len(runs) {
				count.Add(int64(e.claimAll(ctx, runs, g)))
				return
			}
			count.Add(int64(e.claimEach(ctx, ready, g)))
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return int(count.Load()), context.Cause(ctx)
	}
	return int(count.Load()), nil
}

// openable opens the provider of each run, and shows those for which that
// fails.
func (e *Engine) openable(ctx context.Context, runs []ledger.Run) (ready []ledger.Run) {
	var stuck error
	for _, r := range runs {
		err := stuck
		if err == nil && r.Attempt > 0 {
			_, err = call(ctx, openCall, "open", func(ctx context.Context) (Backend, error) { return e.o.Providers.BackendFor(ctx, r) })
			if sdk.CodeOf(err) == sdk.DeadlineExceeded {
				stuck = err
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			ready = append(ready, r)
		default:
			e.cannotDrive(ctx, r, err)
		}
	}
	return ready
}

// claimAll claims everything that is free, in large steps.
func (e *Engine) claimAll(ctx context.Context, runs []ledger.Run, g gone) (total int) {
	holders := maps.Clone(g.dead)
	for id := range g.lapsed {
		holders[id] = true
	}
	for _, r := range runs {
		if !r.Holder.IsZero() && !g.known[r.Holder] {
			holders[r.Holder] = true // removed by one that couldn't drive its runs
		}
	}
	dead := slices.Collect(maps.Keys(holders))
	for ctx.Err() == nil {
		before, err := e.heldBy(ctx, g)
		if err != nil {
			e.log.Warn("runs not claimed", "err", err)
			return total
		}
		runs, err := e.o.Store.ClaimAll(ctx, e.self.ID, dead, recoverBatch)
		if err != nil {
			e.log.Warn("runs not claimed", "err", err)
			return total
		}
		for _, run := range runs {
			if e.begun(ctx, run, before[run.ID]) {
				total++
			}
		}
		if len(runs) < recoverBatch {
			break
		}
	}
	return total
}

// heldBy tells which runs a lapsed holder has: its calls may be under way.
func (e *Engine) heldBy(ctx context.Context, g gone) (map[sdk.ID]time.Time, error) {
	out := map[sdk.ID]time.Time{}
	for h, at := range g.lapsed {
		for run, err := range e.o.Store.Runs(ctx, ledger.RunFilter{Open: true, Holder: h}) {
			if err != nil {
				return nil, err
			}
			out[run.ID] = at
		}
	}
	return out, nil
}

// claimEach claims the given runs and no others.
func (e *Engine) claimEach(ctx context.Context, runs []ledger.Run, g gone) int {
	var count atomic.Int64
	var wg sync.WaitGroup
	slots := make(chan struct{}, claimers)
	for _, r := range runs {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			fence, err := e.o.Store.Claim(ctx, r.ID, e.self.ID, r.Fence)
			if err != nil {
				// Aborted: another process was first.
				if sdk.CodeOf(err) != sdk.Aborted && ctx.Err() == nil {
					e.log.Warn("run not claimed", "run", r.ID, "err", err)
				}
				return
			}
			run, err := e.o.Store.Run(ctx, r.ID)
			if err != nil || run.Fence != fence || run.Holder != e.self.ID {
				return
			}
			if e.begun(ctx, run, g.lapsed[r.Holder]) {
				count.Add(1)
			}
		})
	}
	wg.Wait()
	return int(count.Load())
}

// begun drives a run that was claimed, or lets it go and shows why.
func (e *Engine) begun(ctx context.Context, run ledger.Run, lapsed time.Time) bool {
	if run.Attempt == 0 {
		if e.dumbLately(run.ID) {
			e.letGo(ctx, run)
			return false
		}
		if err := e.settleAction(ctx, run); err != nil {
			e.log.Warn("row of a dead call not closed", "run", run.ID, "err", err)
		}
		return false
	}
	err := e.resume(ctx, run, lapsed)
	if err == nil {
		return true
	}
	if !errors.Is(err, errNotHeld) {
		e.showUndriven(ctx, run, err)
	}
	e.letGo(ctx, run)
	return false
}

// cannotDrive shows why a run is driven by nobody, once, and leaves it to a
// process that can: it is claimed for the one write alone.
func (e *Engine) cannotDrive(ctx context.Context, run ledger.Run, cause error) {
	if run.State == sdk.StateLost {
		if err := e.closeAbandoned(ctx, run, cause); err != nil && ctx.Err() == nil {
			e.log.Warn("abandoned run not closed", "run", run.ID, "err", err)
		}
		return
	}
	if run.State.Terminal() || run.State == sdk.StateUnknown && run.Reason == undrivenReason(cause) {
		e.log.Debug("run can't be driven here", "run", run.ID, "err", cause)
		return
	}
	fence, err := e.o.Store.Claim(ctx, run.ID, e.self.ID, run.Fence)
	if err != nil {
		return // it changed, or the ledger can't be written: the next look tells
	}
	run.Fence = fence
	e.showUndriven(ctx, run, cause)
	e.letGo(ctx, run)
}

func undrivenReason(cause error) sdk.Reason {
	switch sdk.CodeOf(cause) {
	case sdk.Unauthenticated, sdk.PermissionDenied, sdk.NotFound, sdk.InvalidArgument, sdk.FailedPrecondition:
		return sdk.ReasonCredentials
	}
	return sdk.ReasonUnknown
}

// showUndriven records why nobody drives a run that this engine has claimed.
func (e *Engine) showUndriven(ctx context.Context, run ledger.Run, cause error) {
	e.log.Warn("run can't be driven here", "run", run.ID, "err", cause)
	why := undrivenReason(cause)
	if run.State.Terminal() || run.State == sdk.StateUnknown && run.Reason == why {
		return
	}
	c := ledger.Change{V: ledger.ChangeVersion, State: sdk.StateUnknown, Reason: reason(why),
		Message: text("nobody drives it: " + strings.ToValidUTF8(cmp.Or(cause.Error(), "no reason given"), "?"))}
	e.redact(&c)
	ev := ledger.NewEvent{Attempt: run.Attempt, Kind: ledger.KindObserved, Actor: e.o.Actor, Change: c}
	if attemptOver(run.Phase) {
		ev.Attempt = 0 // between two attempts: the last one's end stands
	}
	w := ledger.Write{Run: run.ID, Holder: e.self.ID, Fence: run.Fence, Events: []ledger.NewEvent{ev}}
	if err := e.o.Store.Write(ctx, w); err != nil {
		e.log.Warn("state not recorded", "run", run.ID, "err", err)
	}
}

// letGo leaves a run that was claimed and isn't driven.
func (e *Engine) letGo(ctx context.Context, run ledger.Run) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelCall)
	defer cancel()
	if err := e.o.Store.Release(ctx, run.ID, e.self.ID, run.Fence); err != nil && sdk.CodeOf(err) != sdk.Aborted {
		e.log.Warn("run not released", "run", run.ID, "err", err)
	}
}

package control

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// recoverBatch bounds one claim, so that several holders may share the work.
const recoverBatch = 500

// Recover claims the open runs that nobody drives, or whose holder died, and
// drives them. An empty provider means all. It returns how many it took.
func (e *Engine) Recover(ctx context.Context, provider string) (int, error) {
	holders, err := e.o.Store.Holders(ctx)
	if err != nil {
		return 0, err
	}
	if provider != "" {
		// Called in a loop by a waiting queue: the cheap question first.
		free, err := e.orphaned(ctx, holders)
		if err != nil || !free {
			return 0, err
		}
	}
	if err := e.join(ctx); err != nil {
		return 0, err
	}
	var dead []sdk.ID
	lapsed := map[sdk.ID]time.Time{}
	for _, h := range holders {
		if h.ID == e.self.ID {
			continue
		}
		switch free := lockFree(h.LockFile); {
		case free:
			dead = append(dead, h.ID)
		case e.clock.Now().After(h.Expires):
			dead = append(dead, h.ID)
			lapsed[h.ID] = h.Expires
		}
	}
	total := 0
	for {
		before, err := e.heldBy(ctx, dead)
		if err != nil {
			return total, err
		}
		runs, err := e.o.Store.ClaimAll(ctx, e.self.ID, dead, recoverBatch)
		if err != nil {
			return total, err
		}
		for _, run := range runs {
			if run.Attempt == 0 {
				if err := e.closeAction(ctx, run); err != nil {
					return total, err
				}
				continue
			}
			if err := e.resume(ctx, run, lapsed[before[run.ID]]); err != nil {
				e.cannotResume(ctx, run, err)
				continue
			}
			total++
		}
		if len(runs) < recoverBatch {
			break
		}
	}
	for _, id := range dead {
		if _, slow := lapsed[id]; slow {
			continue // it may come back to find that its runs are gone
		}
		if err := e.o.Store.RemoveHolder(ctx, id); err != nil && sdk.CodeOf(err) != sdk.NotFound {
			return total, err
		}
	}
	for _, h := range holders {
		for _, id := range dead {
			if _, slow := lapsed[id]; h.ID == id && !slow {
				_ = os.Remove(h.LockFile)
			}
		}
	}
	return total, nil
}

// closeAction ends the row of a call whose process died before it could record
// the outcome.
func (e *Engine) closeAction(ctx context.Context, run ledger.Run) error {
	w := ledger.Write{Run: run.ID, Events: []ledger.NewEvent{{Kind: ledger.KindFinished, Actor: e.o.Actor, Change: ledger.Change{
		V: ledger.ChangeVersion, State: sdk.StateLost, Reason: reason(sdk.ReasonLost), Finished: true,
		Message: text("the process died before the outcome of the call was recorded")}}}}
	return e.o.Store.Write(ctx, w)
}

// orphaned reports whether any holder is dead.
func (e *Engine) orphaned(ctx context.Context, holders []ledger.Holder) (bool, error) {
	known := map[sdk.ID]bool{}
	for _, h := range holders {
		known[h.ID] = true
		if h.ID != e.self.ID && (lockFree(h.LockFile) || e.clock.Now().After(h.Expires)) {
			return true, nil
		}
	}
	for run, err := range e.o.Store.Runs(ctx, ledger.RunFilter{Open: true}) {
		if err != nil {
			return false, err
		}
		if !known[run.Holder] {
			return true, nil
		}
	}
	return false, nil
}

func (e *Engine) heldBy(ctx context.Context, holders []sdk.ID) (map[sdk.ID]sdk.ID, error) {
	out := map[sdk.ID]sdk.ID{}
	for _, h := range holders {
		for run, err := range e.o.Store.Runs(ctx, ledger.RunFilter{Open: true, Holder: h}) {
			if err != nil {
				return nil, err
			}
			out[run.ID] = h
		}
	}
	return out, nil
}

// cannotResume shows why a run is driven by nobody, once, and leaves it.
func (e *Engine) cannotResume(ctx context.Context, run ledger.Run, cause error) {
	e.log.Warn("run can't be taken up", "run", run.ID, "err", cause)
	why := sdk.ReasonUnknown
	if c := sdk.CodeOf(cause); c == sdk.Unauthenticated || c == sdk.NotFound || c == sdk.FailedPrecondition {
		why = sdk.ReasonCredentials
	}
	if !run.State.Terminal() && run.State != sdk.StateUnknown {
		w := ledger.Write{Run: run.ID, Holder: e.self.ID, Fence: run.Fence, Events: []ledger.NewEvent{{Attempt: run.Attempt, Kind: ledger.KindObserved,
			Actor: e.o.Actor, Change: ledger.Change{V: ledger.ChangeVersion, State: sdk.StateUnknown, Reason: reason(why),
				Message: text("nobody drives it: " + strings.ToValidUTF8(cause.Error(), "?"))}}}}
		if err := e.o.Store.Write(ctx, w); err != nil {
			e.log.Warn("state not recorded", "run", run.ID, "err", err)
		}
	}
	if err := e.o.Store.Release(ctx, run.ID, e.self.ID, run.Fence); err != nil {
		e.log.Warn("run not released", "run", run.ID, "err", err)
	}
}

// lockFree reports whether a holder's lock is proven to be free: its process is
// gone. A lock file that is missing is free.
func lockFree(path string) bool {
	if path == "" {
		return false
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return true
	}
	l := flock.New(path, flock.SetFlag(os.O_RDWR))
	ok, err := l.TryLock()
	if err != nil || !ok {
		return false
	}
	_ = l.Close()
	return true
}

// resume drives a run that was claimed from another holder. lapsed is when the
// lease of a holder that may still live ended; zero is a holder that is gone.
func (e *Engine) resume(ctx context.Context, run ledger.Run, lapsed time.Time) error {
	back, err := e.o.Providers.BackendFor(ctx, run)
	if err != nil {
		return err
	}
	if err := back.Info().Identity.Check("take up run", run.Identity); err != nil {
		return err
	}
	spec, err := sdk.DecodeSpec(run.Spec)
	if err != nil {
		return err
	}
	set, err := decodeSettings(run.Settings)
	if err != nil {
		return err
	}
	attempts, err := e.o.Store.Attempts(ctx, run.ID)
	if err != nil {
		return err
	}
	r := e.newRunner(run, attempts, back, spec, set)
	if run.Phase == ledger.PhaseSubmitting && !lapsed.IsZero() {
		// A holder that is stopped may have a call under way: wait until it is
		// over and what it made is visible.
		limit := submitCall
		if g := back.Info().Guarantees; g.Submit.By != sdk.SubmitByName {
			r.notBefore = lapsed.Add(limit + g.Found.Within)
		}
	}
	if !e.hold(r) {
		return sdk.Errorf(sdk.Canceled, "take up run", "the engine is closing, or drives it already")
	}
	return nil
}

// Take claims one run from its present holder, which gives it up, and drives it.
func (e *Engine) Take(ctx context.Context, id sdk.ID) error {
	run, err := e.o.Store.Run(ctx, id)
	if err != nil {
		return err
	}
	if !run.Open() || run.Holder == e.self.ID {
		return nil
	}
	if err := e.join(ctx); err != nil {
		return err
	}
	fence, err := e.o.Store.Claim(ctx, id, e.self.ID, run.Fence)
	if err != nil {
		return err
	}
	run, err = e.o.Store.Run(ctx, id)
	if err != nil {
		return err
	}
	if run.Fence != fence {
		return sdk.Errorf(sdk.Aborted, "take run", "run %s was taken by another holder", id.Short())
	}
	return e.resume(ctx, run, time.Time{})
}

package control

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// Recover claims the open runs that nobody drives, or whose holder died, and
// drives them; an empty provider means those of all. It returns how many it
// took. A run whose provider can't be opened here is shown as unknown, with the
// reason, and left: another process may have what it needs.
func (e *Engine) Recover(ctx context.Context, provider string) (int, error) {
	holders, err := e.o.Store.Holders(ctx)
	if err != nil {
		return 0, err
	}
	gone := e.deadHolders(holders)
	runs, err := e.orphans(ctx, provider, gone)
	if err != nil {
		return 0, err
	}
	runs = slices.DeleteFunc(runs, func(r ledger.Run) bool { return r.Attempt == 0 && e.dumbLately(r.ID) })
	if provider != "" && len(runs) == 0 && len(gone.dead) == 0 {
		return 0, nil // called in a loop by a waiting queue
	}
	if err := e.sweepSpools(ctx); err != nil {
		return 0, err
	}
	total, err := e.takeUp(ctx, runs, gone, provider == "")
	if err != nil {
		return total, err
	}
	for id := range gone.dead {
		if err := e.o.Store.RemoveHolder(ctx, id); err != nil && sdk.CodeOf(err) != sdk.NotFound {
			return total, err
		}
	}
	for _, h := range holders {
		if gone.dead[h.ID] {
			_ = os.Remove(h.LockFile)
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
	if isRecorded(run) {
		if err := e.endTranscript(run); err != nil {
			e.log.Warn("transcript of a dead session not ended", "run", run.ID, "err", err)
		}
	}
	return e.writeAction(ctx, w)
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
	if run.Phase == ledger.PhaseSubmitting {
		// Its last send may have been cut a moment ago, and counts as listed from
		// then on, not from the first.
		r.lastSent = e.clock.Now()
	}
	if !e.hold(r) {
		return errNotHeld
	}
	return nil
}

var errNotHeld = sdk.Errorf(sdk.Canceled, "take up run", "the engine is closing, or drives it already")

// takeRounds is how often Take tries when others change the holder meanwhile.
const takeRounds = 10

// Take claims one run from its present holder, which gives it up, and drives it.
// A run that it can't drive is left without a holder.
func (e *Engine) Take(ctx context.Context, id sdk.ID) error {
	if err := e.join(ctx); err != nil {
		return err
	}
	var lost error
	for round := range takeRounds {
		if e.runner(id) != nil {
			return nil // taken up by a recovery in the same moment
		}
		run, err := e.o.Store.Run(ctx, id)
		if err != nil || !run.Open() {
			return err
		}
		if run.Holder != e.self.ID || round == takeRounds-1 {
			if _, lost = e.o.Store.Claim(ctx, id, e.self.ID, run.Fence); lost == nil {
				return e.takeClaimed(ctx, id)
			}
			if sdk.CodeOf(lost) != sdk.Aborted {
				return lost
			}
		}
		if err := e.clock.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return lost
}

func (e *Engine) takeClaimed(ctx context.Context, id sdk.ID) error {
	run, err := e.o.Store.Run(ctx, id)
	if err != nil {
		return err
	}
	if run.Holder != e.self.ID {
		return sdk.Errorf(sdk.Aborted, "take run", "run %s was taken by another holder", id.Short())
	}
	if err := e.resume(ctx, run, time.Time{}); err != nil {
		e.letGo(ctx, run)
		return err
	}
	return nil
}

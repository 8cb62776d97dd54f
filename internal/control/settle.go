package control

import (
	"context"
	"slices"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

const (
	// settleWait bounds how long a reap lets ended runs finish what they have due.
	settleWait = 10 * time.Second
	// settleLook is how long a run that another process drives may take to show that it
	// has ended meanwhile: one that still runs doesn't hold up the reap for longer.
	settleLook = 3 * time.Second
	settleStep = 50 * time.Millisecond
)

// settle has the runs taken up that nobody drives, so that those which have ended
// meanwhile do what they have due: the rest of their output, and their clean-up. It
// returns those that were left.
func (e *Engine) settle(ctx context.Context, providers []string, takeUp func(context.Context) error) ([]sdk.ID, error) {
	holders, err := e.o.Store.Holders(ctx)
	if err != nil {
		return nil, err
	}
	g := e.deadHolders(holders)
	open, err := e.orphans(ctx, "", g)
	if err != nil {
		return nil, err
	}
	var left []ledger.Run
	var ids []sdk.ID
	for _, run := range open {
		if run.Attempt > 0 && slices.Contains(providers, run.Provider) {
			left, ids = append(left, run), append(ids, run.ID)
		}
	}
	if len(left) == 0 {
		return nil, nil
	}
	own := takeUp == nil || takeUp(ctx) != nil
	if own {
		if _, err := e.takeUp(ctx, left, g, false); err != nil {
			return nil, err
		}
	}
	return ids, e.awaitSettled(ctx, left, own)
}

// awaitSettled waits until runs, which were just taken up, have finished, or still
// run; within settleWait. own says that this engine is the one that took them up.
func (e *Engine) awaitSettled(ctx context.Context, left []ledger.Run, own bool) error {
	var waited, looked time.Duration
	for len(left) > 0 && waited < settleWait {
		r := e.runner(left[0].ID)
		// Before the row is read: what the look has found stands in it then.
		seen := r != nil && r.looked.Load()
		run, err := e.o.Store.Run(ctx, left[0].ID)
		if err != nil {
			return err
		}
		held := !run.Holder.IsZero() && run.Fence > left[0].Fence
		switch {
		case !run.Open(), own && r == nil:
			left = left[1:]
			continue
		case run.State.Terminal(), own && !seen:
		case own, looked >= settleLook:
			left = left[1:]
			continue
		case held, run.State == sdk.StateUnknown:
			looked += settleStep
		}
		if err := e.clock.Sleep(ctx, settleStep); err != nil {
			return err
		}
		waited += settleStep
	}
	return nil
}

// awaitFinished gives ended runs that this engine drives a while to finish. Those
// that don't are left to whoever drives them next.
func (e *Engine) awaitFinished(ctx context.Context, ids []sdk.ID) {
	ctx, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	var ended []sdk.ID
	for _, id := range ids {
		if r := e.runner(id); r != nil {
			r.poke() // it may be waiting to try its clean-up again
			if row, _ := r.row(); row.State.Terminal() {
				ended = append(ended, id)
			}
		}
	}
	for _, id := range ended {
		if _, err := e.Wait(ctx, id, MilestoneFinished); err != nil && ctx.Err() != nil {
			return
		}
	}
}

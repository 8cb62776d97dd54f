package control

import (
	"context"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// settleWait bounds how long a reap lets ended runs finish what they have due.
const settleWait = 10 * time.Second

// settle has the ended runs that nobody drives finish what they have due: the
// rest of their output, and their clean-up. It returns those that it took up.
func (e *Engine) settle(ctx context.Context, provider string) ([]sdk.ID, error) {
	holders, err := e.o.Store.Holders(ctx)
	if err != nil {
		return nil, err
	}
	g := e.deadHolders(holders)
	open, err := e.orphans(ctx, provider, g)
	if err != nil {
		return nil, err
	}
	var due []ledger.Run
	var ids []sdk.ID
	for _, run := range open {
		if run.State.Terminal() && run.Attempt > 0 {
			due, ids = append(due, run), append(ids, run.ID)
		}
	}
	if _, err := e.takeUp(ctx, due, g, false); err != nil {
		return nil, err
	}
	e.awaitFinished(ctx, ids)
	return ids, nil
}

// awaitFinished gives runs that this engine drives a while to finish. Those that
// don't are left to whoever drives them next.
func (e *Engine) awaitFinished(ctx context.Context, ids []sdk.ID) {
	ctx, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	for _, id := range ids {
		if r := e.runner(id); r != nil {
			r.poke() // it may be waiting to try its clean-up again
		}
	}
	for _, id := range ids {
		if _, err := e.Wait(ctx, id, MilestoneFinished); err != nil && ctx.Err() != nil {
			return
		}
	}
}

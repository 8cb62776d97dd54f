package control

import (
	"context"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// CancelRequest asks for a run's end.
type CancelRequest struct {
	Run   sdk.ID
	Actor string
	Why   string
}

// Cancel records the request durably; whoever drives the run acts on it. A run
// without a living holder is taken up by this engine. A run that has ended is
// no error. Wait tells when it is over.
func (e *Engine) Cancel(ctx context.Context, req CancelRequest) error {
	if req.Actor == "" {
		return sdk.Errorf(sdk.InvalidArgument, "cancel run", "the actor is empty")
	}
	run, err := e.o.Store.Run(ctx, req.Run)
	if err != nil {
		return err
	}
	if run.State.Terminal() {
		return nil
	}
	w := ledger.Write{Run: req.Run, Events: []ledger.NewEvent{{Kind: ledger.KindCancelAsk, Actor: req.Actor,
		Change: ledger.Change{V: ledger.ChangeVersion, CancelBy: req.Actor, CancelWhy: req.Why}}}}
	if err := e.o.Store.Write(ctx, w); err != nil {
		return err
	}
	if r := e.runner(req.Run); r != nil {
		r.poke()
		return nil
	}
	return e.adoptOrphan(ctx, req.Run)
}

// adoptOrphan takes up a run that no living process drives.
func (e *Engine) adoptOrphan(ctx context.Context, id sdk.ID) error {
	run, err := e.o.Store.Run(ctx, id)
	if err != nil || !run.Open() {
		return err
	}
	holders, err := e.o.Store.Holders(ctx)
	if err != nil {
		return err
	}
	g := e.deadHolders(holders)
	if run.Holder == e.self.ID || !g.free(run) {
		return nil
	}
	_, err = e.takeUp(ctx, []ledger.Run{run}, g, false)
	return err
}

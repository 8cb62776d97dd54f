package control

import (
	"context"
	"fmt"

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

// Abandon gives a run up as lost, on record. What it may have left on the
// backend stays there. Only a run in doubt can be abandoned.
func (e *Engine) Abandon(ctx context.Context, id sdk.ID, actor, why string) error {
	if actor == "" || why == "" {
		return sdk.Errorf(sdk.InvalidArgument, "abandon run", "an actor and a reason are required")
	}
	run, err := e.o.Store.Run(ctx, id)
	if err != nil {
		return err
	}
	if run.State != sdk.StateUnknown {
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "abandon run", ID: "run.not-unknown",
			Remedy: "`windlass cancel` ends a run", Err: fmt.Errorf("run %s is %s; only an unknown run can be abandoned", id.Short(), run.State)}
	}
	lostReason := sdk.ReasonLost
	if sdk.LegalReason(sdk.StateLost, run.Reason) {
		lostReason = run.Reason
	}
	w := ledger.Write{Run: id, Events: []ledger.NewEvent{{Attempt: run.Attempt, Kind: ledger.KindAbandoned, Actor: actor,
		Change: ledger.Change{V: ledger.ChangeVersion, Phase: ledger.PhaseEnded, State: sdk.StateLost, Reason: reason(lostReason),
			Message: text("abandoned by " + actor + ": " + why)}}}}
	hits("before", w.Events)
	if err := e.o.Store.Write(ctx, w); err != nil {
		return err
	}
	hits("after", w.Events)
	if r := e.runner(id); r != nil {
		r.poke()
		return nil
	}
	return e.adoptOrphan(ctx, id)
}

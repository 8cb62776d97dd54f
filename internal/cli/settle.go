package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// leftChanges gives those of rows that are no runs, have no outcome yet, and whose
// commands have ended.
func (f *Factory) leftChanges(ctx context.Context, store ledger.Store, rows []ledger.Run) ([]ledger.Run, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	free, err := control.Undriven(ctx, store, f.Now())
	if err != nil {
		return nil, err
	}
	var left []ledger.Run
	for _, r := range rows {
		if !isRun(r) && free(r) {
			left = append(left, r)
		}
	}
	return left, nil
}

// settleChanges looks at what became of the changes that killed commands left, and says
// it of each. It is a help of a command that is for something else: its own failures are
// said, too.
func (f *Factory) settleChanges(ctx context.Context) {
	s, err := f.open(ctx)
	if err == nil && s.ReadOnly {
		err = s.Store.Writable()
	}
	var settled []control.SettledAction
	if err == nil {
		settled, err = s.Engine.SettleActions(ctx)
	}
	if err != nil && ctx.Err() == nil {
		f.Streams.note("what became of changes that killed commands left isn't looked up: %v", err)
	}
	for _, x := range settled {
		f.Streams.note("%s", settledWords(x))
	}
}

// settledWords say what became of a change that a killed command left.
func settledWords(x control.SettledAction) string {
	r := x.Run
	what := fmt.Sprintf("%s of %s by %s (row %s), which a killed command left", r.Action, r.Target, r.Actor, r.ID.Short())
	if x.Err != nil {
		return fmt.Sprintf("%s: what became of it can't be told at the moment: %v; windlass wait %s looks again", what, x.Err, r.ID.Short())
	}
	return fmt.Sprintf("%s: %s%s", what, stateWords(r), messageWords(r))
}

// changeLook is how often a change that nobody can tell of is looked at again.
const changeLook = time.Second

// settleChange looks at what became of a change until it can be told, or its command
// goes on; ctx bounds that. It says once why it can't be told.
func (f *Factory) settleChange(ctx context.Context, s *Session, r ledger.Run) error {
	for said := false; ; said = true {
		if left, err := s.Engine.Orphaned(ctx, r.ID); err != nil || !left || s.ReadOnly {
			return err
		}
		settled, err := s.Engine.SettleActions(ctx)
		if err != nil {
			return err
		}
		for _, x := range settled {
			switch {
			case x.Run.ID != r.ID:
			case x.Err == nil:
				return nil
			case !said:
				f.Streams.note("%s %s: what became of it can't be told at the moment, looking again: %v", r.Action, r.Target, x.Err)
			}
		}
		if err := pause(ctx, changeLook); err != nil {
			return err
		}
	}
}

// tellChange says on stderr how a row that is no run ended.
func tellChange(s *Streams, r ledger.Run) {
	if r.State == sdk.StateSucceeded {
		return
	}
	words := messageWords(r)
	if words == "" {
		words = ": " + actionWords(r.State, r.Reason)
	}
	s.note("%s %s: %s%s", r.Action, r.Target, stateWords(r), words)
	for _, next := range nextForAction(r) {
		s.note("  to do: %s", next)
	}
}

// changeEnded returns the row of a change that has ended, after a look at one that a
// killed command left. One that goes on can't be called off.
func (f *Factory) changeEnded(ctx context.Context, s *Session, r ledger.Run) (ledger.Run, error) {
	if r.Open() && !s.ReadOnly {
		if _, err := s.Engine.SettleActions(ctx); err != nil {
			return r, err
		}
		now, err := s.Store.Run(ctx, r.ID)
		if err != nil {
			return r, err
		}
		r = now
	}
	if !r.Open() {
		return r, nil
	}
	return r, &sdk.Error{Code: sdk.FailedPrecondition, Op: "end " + r.Action + " of " + r.Target, ID: idChangeOpen,
		Err:    fmt.Errorf("row %s is no run: what was asked of %s can't be called off", r.ID.Short(), r.Provider),
		Remedy: forRun("windlass wait RUN tells how it ended", r.ID)}
}

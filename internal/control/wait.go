package control

import (
	"context"
	"iter"
	"time"

	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// Milestone is how far Wait waits.
type Milestone int

// MilestoneSubmitted: the backend has the job, or never will. MilestoneEnded:
// the run's state is terminal. MilestoneDrained: and its output is synced.
// MilestoneFinished: and nothing is left to do.
//
// MilestoneMovable: the run can be handed to another holder without cutting a
// call short: the backend has it, or it waits for a place or for room, or it is
// parked.
const (
	MilestoneMovable Milestone = iota
	MilestoneSubmitted
	MilestoneEnded
	MilestoneDrained
	MilestoneFinished
)

func (m Milestone) reached(r ledger.Run) bool {
	switch m {
	case MilestoneMovable:
		return r.Reason != "" || MilestoneSubmitted.reached(r)
	case MilestoneSubmitted:
		return r.State.Terminal() || r.Phase != "" && r.Phase != ledger.PhaseIntent && r.Phase != ledger.PhaseSubmitting
	case MilestoneEnded:
		return r.State.Terminal()
	case MilestoneDrained:
		return r.State.Terminal() && (r.Phase == ledger.PhaseDrained || r.Phase.Final() || !r.Open())
	default:
		return !r.Open()
	}
}

// Wait returns the run's row once it has come so far, whoever drives it. The
// end of ctx ends the waiting and nothing else.
func (e *Engine) Wait(ctx context.Context, id sdk.ID, until Milestone) (ledger.Run, error) {
	return e.Watch(ctx, id, until, func(ledger.Run) {})
}

// Watch is Wait with a look at each row on the way, the last included; see isn't
// called any more once it returns.
func (e *Engine) Watch(ctx context.Context, id sdk.ID, until Milestone, see func(ledger.Run)) (ledger.Run, error) {
	for {
		if r := e.runner(id); r != nil {
			row, there, err := r.await(ctx, until, see)
			if there || err != nil {
				return row, err
			}
			// Driven on by another holder, or over: the ledger knows.
		}
		changed := e.o.Store.Changed()
		row, err := e.o.Store.Run(ctx, id)
		if err != nil {
			return row, err
		}
		see(row)
		if until.reached(row) {
			return row, nil
		}
		if e.runner(id) != nil {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return row, context.Cause(ctx)
		}
	}
}

// await returns the row once it has come so far; there is false when the runner
// ended before.
func (r *runner) await(ctx context.Context, until Milestone, see func(ledger.Run)) (row ledger.Run, there bool, err error) {
	for {
		row, changed := r.row()
		see(row)
		if until.reached(row) || until == MilestoneMovable && r.req.Park {
			return row, true, nil
		}
		select {
		case <-changed:
		case <-r.gone:
			row, _ = r.row()
			return row, until.reached(row), nil
		case <-ctx.Done():
			return row, false, context.Cause(ctx)
		}
	}
}

// Attempts returns a run's attempts in order.
func (e *Engine) Attempts(ctx context.Context, id sdk.ID) ([]ledger.Attempt, error) {
	return e.o.Store.Attempts(ctx, id)
}

// FollowOptions chooses what Follow gives.
type FollowOptions struct {
	// From is an item's Pos; the zero Position is the start.
	From joblog.Position
	// Attempt is the attempt to begin with; 0 is the first.
	Attempt int
	// Follow goes on until the run's output is complete.
	Follow bool
	Since  time.Time
	// Tail gives the last lines only; nil is all.
	Tail    *int
	Streams []sdk.Stream
}

// FollowItem is an item of one attempt's log.
type FollowItem struct {
	Attempt int
	joblog.Item
}

// Follow gives the captured output of all attempts in order, whoever captures
// it. Following starts before the job does and ends when the run does.
func (e *Engine) Follow(ctx context.Context, id sdk.ID, o FollowOptions) iter.Seq2[FollowItem, error] {
	return func(yield func(FollowItem, error) bool) {
		n := max(o.Attempt, 1)
		for ; ; n++ {
			more, err := e.followAttempt(ctx, id, n, o, yield)
			if err != nil {
				yield(FollowItem{}, err)
				return
			}
			if !more {
				return
			}
			o.From = joblog.Position{}
		}
	}
}

// followAttempt gives one attempt's log and reports whether another follows.
func (e *Engine) followAttempt(ctx context.Context, id sdk.ID, n int, o FollowOptions, yield func(FollowItem, error) bool) (bool, error) {
	run, err := e.o.Store.Run(ctx, id)
	if err != nil {
		return false, err
	}
	if attempts(run) < n && (!o.Follow || !run.Open()) {
		return false, nil
	}
	ro := joblog.ReadOptions{From: o.From, Follow: o.Follow, Since: o.Since, Tail: o.Tail, Streams: o.Streams}
	for it, err := range e.o.Logs.Read(ctx, joblog.Key{Run: id, Attempt: n}, ro) {
		if err != nil {
			return false, err
		}
		if !yield(FollowItem{Attempt: n, Item: it}, nil) {
			return false, nil
		}
	}
	if !o.Follow {
		return n < attempts(run), nil
	}
	// The log has its end. Wait until it is plain whether another attempt comes.
	for {
		changed := e.o.Store.Changed()
		run, err := e.o.Store.Run(ctx, id)
		if err != nil {
			return false, err
		}
		if attempts(run) > n {
			return true, nil
		}
		if run.State.Terminal() {
			return false, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

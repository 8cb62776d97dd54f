package sandbox

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// Engine is what an execution asks of internal/control.
type Engine interface {
	Plan(ctx context.Context, r control.SubmitRequest) (control.Plan, error)
	Submit(ctx context.Context, r control.SubmitRequest) (control.Submitted, error)
	Wait(ctx context.Context, id sdk.ID, until control.Milestone) (ledger.Run, error)
	Follow(ctx context.Context, id sdk.ID, o control.FollowOptions) iter.Seq2[control.FollowItem, error]
	Cancel(ctx context.Context, r control.CancelRequest) error
	Held() []sdk.ID
}

var _ Engine = (*control.Engine)(nil)

// Keeper takes runs over from a process that may end sooner than they do.
type Keeper interface {
	// Take hands a run over: when it returns nil the keeper drives it.
	Take(ctx context.Context, run sdk.ID) error
}

const (
	// keeperAfter is how long a run goes on before the keeper is asked to take
	// it: a run that ends sooner is finished by this process, and starts none.
	keeperAfter = 400 * time.Millisecond
	// settleTime bounds the wait for clean-up, and for a cancel to be on record.
	settleTime = 5 * time.Second
	// recordTime bounds the latter for one who leaves.
	recordTime = time.Second
)

// stay keeps with one run until it is over, as an attached command does.
type stay struct {
	j   *Jobs
	run sdk.ID
	// row is the run's as it was submitted.
	row  ledger.Run
	note func(text string)
	// item takes the run's output, and broken why there is no more of it.
	item   func(control.FollowItem)
	broken func(err error)
	stop   <-chan struct{}
	why    func() string
}

// see returns the run's row once the run has ended and its output is whole: with
// a keeper when it is drained, without one when nothing is left to do. The end
// of ctx leaves the run to others.
func (s stay) see(ctx context.Context) (ledger.Run, error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	if s.j.Mind != nil {
		wg.Go(func() { s.j.Mind(ctx, s.run) })
	}
	wg.Go(func() { s.cancelWhenStopped(ctx) })
	if s.j.Keeper != nil {
		wg.Go(func() { s.handOver(ctx) })
	}
	shown := make(chan struct{})
	wg.Go(func() {
		defer close(shown)
		s.show(ctx)
	})
	until := control.MilestoneDrained
	if s.j.Keeper == nil {
		until = control.MilestoneFinished
	}
	run, err := s.wait(ctx, until)
	if err != nil {
		return run, err
	}
	select {
	case <-shown:
		return run, nil
	case <-ctx.Done():
		return run, context.Cause(ctx)
	}
}

func (s stay) wait(ctx context.Context, until control.Milestone) (ledger.Run, error) {
	if s.j.Watch == nil {
		return s.j.Engine.Wait(ctx, s.run, until)
	}
	return s.j.Watch(ctx, s.row, until, s.note)
}

// show passes the output on. The run is over without it, too.
func (s stay) show(ctx context.Context) {
	for it, err := range s.j.Engine.Follow(ctx, s.run, control.FollowOptions{Follow: true}) {
		if err != nil {
			if ctx.Err() == nil {
				s.broken(err)
			}
			return
		}
		s.item(it)
	}
}

// cancelWhenStopped puts the wish on record; whoever drives the run acts on it.
func (s stay) cancelWhenStopped(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-s.stop:
	}
	// The wish is on record a moment later, also when the caller leaves at once.
	record, done := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer done()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(recordTime, done) })()
	if err := s.j.Engine.Cancel(record, control.CancelRequest{Run: s.run, Actor: s.j.Actor, Why: s.why()}); err != nil {
		s.note(fmt.Sprintf("it could not be cancelled: %v; windlass cancel %s tries again", err, s.run.Short()))
	}
}

// handOver gives a run that goes on for a while to the keeper, so that it
// outlives this process.
func (s stay) handOver(ctx context.Context) {
	t := time.NewTimer(keeperAfter)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return
	case <-t.C:
	}
	if err := s.j.Keeper.Take(ctx, s.run); err != nil && ctx.Err() == nil {
		s.note(fmt.Sprintf("it stays with this command: %v", err))
	}
}

// settle gives a run that this process still drives the time to be cleaned up,
// and hands it to the keeper when that takes long.
func (s stay) settle(ctx context.Context) {
	if s.j.Keeper == nil || !slices.Contains(s.j.Engine.Held(), s.run) {
		return
	}
	wait, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if _, err := s.j.Engine.Wait(wait, s.run, control.MilestoneFinished); err == nil {
		return
	}
	if err := s.j.Keeper.Take(ctx, s.run); err != nil {
		s.note(fmt.Sprintf("it is over but not cleaned up yet, and no keeper takes it: %v; the next windlass command goes on", err))
	}
}

package control

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// settleLimit bounds the look at what became of one change whose process died: there
// are others to settle, and a person who waits.
const settleLimit = 10 * time.Second

// settleAgain is how long a recovery leaves a change alone of which nothing could be told:
// a keeper recovers every few seconds, and has runs to take up.
const settleAgain = time.Minute

// SettledAction is a change whose process died before it recorded the outcome, after a
// look at what became of it.
type SettledAction struct {
	// Run is its row as it stands now.
	Run ledger.Run
	// Err is why it can't be told at the moment; the row is open then, and a later
	// look may tell.
	Err error
}

// SettleActions closes the rows of changes whose processes died, of live workloads,
// resources and all else that is no run, by what their backends tell of them. Each look
// is bounded, and they are made side by side. Runs are left alone: Recover takes those
// up.
func (e *Engine) SettleActions(ctx context.Context) ([]SettledAction, error) {
	holders, err := e.o.Store.Holders(ctx)
	if err != nil {
		return nil, err
	}
	open, err := e.orphans(ctx, "", e.deadHolders(holders))
	if err != nil {
		return nil, err
	}
	var left []ledger.Run
	for _, run := range open {
		if run.Attempt == 0 {
			left = append(left, run)
		}
	}
	if len(left) == 0 {
		return nil, nil
	}
	if err := e.join(ctx); err != nil {
		return nil, err
	}
	found := make([]*SettledAction, len(left))
	var wg sync.WaitGroup
	slots := make(chan struct{}, claimers)
	for i, run := range left {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			found[i] = e.settleLeft(ctx, run)
		})
	}
	wg.Wait()
	var out []SettledAction
	for _, s := range found {
		if s != nil {
			out = append(out, *s)
		}
	}
	return out, ctx.Err()
}

// settleLeft claims and settles a row that nobody holds; nil where another process was
// first.
func (e *Engine) settleLeft(ctx context.Context, run ledger.Run) *SettledAction {
	fence, err := e.o.Store.Claim(ctx, run.ID, e.self.ID, run.Fence)
	if err != nil {
		if sdk.CodeOf(err) == sdk.Aborted {
			return nil
		}
		return &SettledAction{run, err}
	}
	run.Holder, run.Fence = e.self.ID, fence
	err = e.settleAction(ctx, run)
	if now, readErr := e.o.Store.Run(context.WithoutCancel(ctx), run.ID); readErr == nil {
		run = now
	}
	return &SettledAction{run, err}
}

// settleAction closes the row of a change whose process died, which this engine has
// claimed. Where nothing can be told at the moment it says so in the row and lets it go.
func (e *Engine) settleAction(ctx context.Context, run ledger.Run) error {
	looking, cancel := context.WithTimeoutCause(ctx, settleLimit, lateError{settleLimit})
	defer cancel()
	done, err := e.settleWorkload(looking, run)
	if !done {
		done, err = e.settleResource(looking, run)
	}
	if !done {
		return e.closeAction(ctx, run)
	}
	if err == nil {
		return nil
	}
	if ctx.Err() == nil { // who leaves in the middle has learnt nothing
		e.mu.Lock()
		e.dumb[run.ID] = e.clock.Now()
		e.mu.Unlock()
		e.showUnsettled(ctx, run, err)
	}
	e.letGo(ctx, run)
	return err
}

// unsettled is what the row of a change says of which nothing can be told.
func (e *Engine) unsettled(cause error) ledger.Change {
	c := ledger.Change{V: ledger.ChangeVersion, State: sdk.StateUnknown, Reason: reason(sdk.ReasonSubmitUnconfirmed),
		Message: text("its process ended, and what became of it can't be told at the moment: " + strings.ToValidUTF8(cause.Error(), "?"))}
	e.redact(&c)
	return c
}

// mayStillCome reports whether a look that proved nothing came too soon to judge a change of
// a target that was asked for at a time: a call that nobody waits for any more is carried
// out all the same, and what it does is there only later. So long as a call may take, and
// as long as the backend says by the target's status that it is at it, such a look is no
// end. A clock that was set back by more than that keeps nothing open. seen says what was
// seen.
func (e *Engine) mayStillCome(back Backend, target, seen, status string, asked time.Time) error {
	grace, age := back.callTimeout(), e.clock.Now().Sub(asked)
	x := &sdk.Error{Code: sdk.Unavailable, Op: "look at " + target, Provider: back.Name, Retryable: true}
	switch {
	case age.Abs() < grace:
		x.RetryAfter = grace - max(age, 0)
		x.Err = fmt.Errorf("%s, and what was asked for at %s may still come: a call has %s", seen, asked.UTC().Format("15:04:05 UTC"), grace)
	case underWay(status):
		x.RetryAfter = changeLook
		x.Err = fmt.Errorf("%s, and the backend says that it is %s", seen, status)
	default:
		return nil
	}
	return x
}

// changeLook is after how long it is worth while to look again at what a backend says it
// is at.
const changeLook = 10 * time.Second

// repeatLater is what to do about a change that is refused since nothing can be told yet of
// the row of an earlier one.
func repeatLater(run ledger.Run, cause error) string {
	when := "when the provider answers"
	if wait := sdk.RetryAfter(cause); wait > 0 {
		when = "in " + wholeSeconds(wait).String()
	}
	return "repeat it " + when + "; `windlass wait " + run.ID.Short() + "` looks until it can be told"
}

// wholeSeconds rounds a wait up, for people.
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// dumbLately reports whether nothing could be told of a change a moment ago.
func (e *Engine) dumbLately(id sdk.ID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, ok := e.dumb[id]
	return ok && e.clock.Now().Before(at.Add(settleAgain))
}

// showUnsettled records, once, that nothing can be told of a change.
func (e *Engine) showUnsettled(ctx context.Context, run ledger.Run, cause error) {
	if run.State == sdk.StateUnknown || sdk.CodeOf(cause) == sdk.Aborted {
		return // it is said already, or another process is at it
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelCall)
	defer cancel()
	w := ledger.Write{Run: run.ID, Holder: e.self.ID, Fence: run.Fence, Events: []ledger.NewEvent{{Kind: ledger.KindObserved, Actor: e.o.Actor, Change: e.unsettled(cause)}}}
	if err := e.writeAction(ctx, w); err != nil {
		e.log.Warn("state not recorded", "run", run.ID, "err", err)
	}
}

// closeSessions closes the rows of sessions in a workload, and of changes of it that
// were followed, whose processes died: how they ended was seen by nobody.
func (w *WorkloadRuntime) closeSessions(ctx context.Context, t sdk.Target) {
	left, err := w.e.left(ctx, t.Provider, t.String(), func(run ledger.Run) bool { return run.Action == actionExec || accepted(run) })
	if err != nil {
		w.e.log.Warn("rows of dead sessions not closed", "target", t.String(), "err", err)
		return
	}
	for _, run := range left {
		if accepted(run) {
			if err := w.closeAccepted(ctx, run); err != nil {
				w.e.log.Warn("row of an accepted change not closed", "run", run.ID, "err", err)
			}
			continue
		}
		if s := w.e.settleLeft(ctx, run); s != nil && s.Err != nil {
			w.e.log.Warn("row of a dead session not closed", "run", run.ID, "err", s.Err)
		}
	}
}

// left lists the open rows of a target that nobody holds, oldest first, and whose action
// is meant.
func (e *Engine) left(ctx context.Context, provider, target string, meant func(ledger.Run) bool) ([]ledger.Run, error) {
	var open []ledger.Run
	for run, err := range e.o.Store.Runs(ctx, ledger.RunFilter{Open: true, Provider: provider, Target: target, OldestFirst: true}) {
		if err != nil {
			return nil, err
		}
		if meant(run) {
			open = append(open, run)
		}
	}
	if len(open) == 0 {
		return nil, nil
	}
	holders, err := e.o.Store.Holders(ctx)
	if err != nil {
		return nil, err
	}
	g := e.deadHolders(holders)
	var out []ledger.Run
	for _, run := range open {
		if run.Holder != e.self.ID && g.free(run) {
			out = append(out, run)
		}
	}
	return out, nil
}

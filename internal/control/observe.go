package control

import (
	"context"
	"fmt"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// observe follows a submitted attempt to its proven end: it reads states as
// they come from the poller, captures output, and enforces deadlines and
// cancels.
func (r *runner) observe(ctx context.Context) error {
	if r.renews = sdk.Has(r.back.Provider, sdk.Renewer().String()); r.renews {
		if err := r.readLaunch(); err != nil { // for its expiry
			return err
		}
	}
	h, err := r.decodeHandle()
	if err != nil {
		return err
	}
	if err := h.Check("observe run", r.back.Info().Identity); err != nil {
		return err
	}
	if err := r.recallEnding(ctx); err != nil {
		return err
	}
	r.startCapture(ctx, h)
	track := r.e.poller(r.back).track(ctx, r.attempt().ID, h, r.sent == r.attempt().Number)
	defer track.close()
	// A row read before this moment may already ask to end.
	if err := r.actOn(ctx, h, track); err != nil {
		return err
	}
	clock := alarm{e: r.e}
	defer clock.stop()
	for r.phase() == ledger.PhaseSubmitted || r.phase() == ledger.PhaseRunning {
		clock.set(ctx, r.nextDeadline())
		select {
		case up := <-track.updates:
			err = r.learn(ctx, up, track)
			r.looked.Store(true)
		case <-clock.rung:
			clock.stop()
		case <-r.wake:
			err = r.reload(ctx)
		case <-ctx.Done():
			err = errStopped
		}
		if err != nil {
			return err
		}
		if err := r.actOn(ctx, h, track); err != nil {
			return err
		}
	}
	return nil
}

// recallEnding finds out what earlier holders did to end the attempt.
func (r *runner) recallEnding(ctx context.Context) error {
	n := r.attempt().Number
	if r.sent == n || !r.mayHaveEnded() {
		return nil
	}
	f := ledger.EventFilter{Run: r.id, Kinds: []ledger.Kind{ledger.KindCancelSent, ledger.KindDeadline}}
	for ev, err := range r.e.o.Store.Events(ctx, f) {
		if err != nil {
			if ctx.Err() != nil {
				return errStopped
			}
			return err
		}
		if ev.Attempt != n {
			continue
		}
		d := changeDetail(ev)
		if ev.Kind == ledger.KindDeadline && r.ending.cause == "" {
			r.ending.cause, r.ending.pending = sdk.Reason(d["cause"]), d["pending"]
		}
		if ev.Kind == ledger.KindCancelSent {
			r.ending.asked = ev.At
			r.ending.accepted = r.ending.accepted || d["accepted"] == "true"
			if r.ending.cause == "" {
				r.ending.cause = sdk.Reason(d["cause"])
			}
		}
	}
	return nil
}

// mayHaveEnded reports whether an earlier holder had a cause to end the attempt.
func (r *runner) mayHaveEnded() bool {
	return !r.run.CancelAt.IsZero() || r.spec.Timeout > 0 || r.spec.StartTimeout > 0 || r.attempt().Reason == sdk.ReasonSupervisorLost
}

// learn takes one answer of the poller.
func (r *runner) learn(ctx context.Context, up statusUpdate, t *tracked) error {
	if up.err != nil {
		return r.unanswered(ctx, up.err, t)
	}
	r.lastAnswer, r.notFoundAt = r.e.clock.Now(), time.Time{}
	res := up.res
	if !res.State.Valid() || !sdk.LegalReason(res.State, res.Reason) {
		return r.illegal(ctx, res)
	}
	switch {
	case res.State == sdk.StateUnknown && res.Reason == sdk.ReasonSupervisorLost:
		return r.supervisorLost(ctx, res)
	case res.State.Terminal():
		return r.finish(ctx, r.judge(res), res)
	}
	return r.progress(ctx, res)
}

// illegal keeps an answer that the contract forbids from becoming a state.
func (r *runner) illegal(ctx context.Context, res sdk.JobStatusResult) error {
	msg := fmt.Sprintf("provider %s gave the state %q with the reason %q, which can't stand together", r.back.Name, res.State, res.Reason)
	return r.show(ctx, sdk.StateUnknown, sdk.ReasonUnknown, msg, nil)
}

// progress records a state that isn't final, if it is news.
func (r *runner) progress(ctx context.Context, res sdk.JobStatusResult) error {
	a := r.attempt()
	res.Message = r.e.o.Redact(res.Message)
	c := ledger.Change{State: res.State, Reason: reason(res.Reason), Message: text(res.Message), Launches: res.Launches, OOM: res.OOMObserved}
	kind := ledger.KindObserved
	news := a.State != res.State || a.Reason != res.Reason || a.Message != res.Message || res.Launches > a.Launches || res.OOMObserved && !a.OOM
	if res.Handle != nil {
		b, err := res.Handle.Encode()
		if err != nil {
			return err
		}
		if string(b) != string(a.Handle) {
			c.Handle, news = b, true
		}
	}
	if a.CreatedAt.IsZero() && !res.CreatedAt.IsZero() {
		c.CreatedAt = res.CreatedAt.UTC()
	}
	if res.State == sdk.StateRunning {
		if r.sawRunning.IsZero() {
			r.sawRunning = r.e.clock.Now()
		}
		if a.StartedAt.IsZero() && !res.StartedAt.IsZero() {
			c.StartedAt, news = res.StartedAt.UTC(), true
		}
		if a.Phase == ledger.PhaseSubmitted {
			kind, news = ledger.KindRunning, true
			c.Phase, c.SeenRunning = ledger.PhaseRunning, r.sawRunning.UTC()
		}
	} else if a.Phase == ledger.PhaseRunning && res.State == sdk.StatePending {
		// A backend's lagging answer takes nothing back.
		return nil
	}
	if !news {
		return nil
	}
	if len(res.Raw) > 0 {
		c.Raw = res.Raw
	}
	return r.record(ctx, r.event(kind, c))
}

// show records a state that we ourselves conclude, once.
func (r *runner) show(ctx context.Context, state sdk.JobState, why sdk.Reason, message string, raw map[string]string) error {
	a := r.attempt()
	message = r.e.o.Redact(message)
	if a.State == state && a.Reason == why && a.Message == message {
		return nil
	}
	return r.record(ctx, r.event(ledger.KindObserved, ledger.Change{State: state, Reason: reason(why), Message: text(message), Raw: raw}))
}

// unanswered judges a failed look: it ends a run only where not being found is
// evidence.
func (r *runner) unanswered(ctx context.Context, err error, t *tracked) error {
	switch sdk.CodeOf(err) {
	case sdk.NotFound:
		return r.notFound(ctx, err)
	case sdk.Unauthenticated:
		return r.show(ctx, sdk.StateUnknown, sdk.ReasonCredentials, err.Error(), nil)
	case sdk.PermissionDenied:
		return r.show(ctx, sdk.StateUnknown, sdk.ReasonPermissionDenied, err.Error(), nil)
	}
	return r.silent(ctx, err)
}

func (r *runner) notFound(ctx context.Context, err error) error {
	r.lastAnswer = r.e.clock.Now()
	g := r.back.Info().Guarantees
	a := r.attempt()
	cancelled := r.ending.accepted && r.ending.cause == sdk.ReasonCancelled
	if over := r.newestSend().Add(g.Found.Within); r.e.clock.Now().Before(over) {
		// It was made, and may not be visible yet.
		if cancelled {
			return r.missed(ctx, err, sdk.StateCancelled, over)
		}
		return r.missed(ctx, err, sdk.StateLost, over)
	}
	if cancelled {
		return r.finish(ctx, outcome{sdk.StateCancelled, sdk.ReasonCancelled, "gone after an accepted cancel"}, sdk.JobStatusResult{})
	}
	last := a.State
	msg := fmt.Sprintf("it was last seen %s: %v", last, err)
	return r.finish(ctx, outcome{sdk.StateLost, sdk.ReasonLost, msg}, sdk.JobStatusResult{})
}

// supervisorLost ends what a dead local supervisor left, then the run.
func (r *runner) supervisorLost(ctx context.Context, res sdk.JobStatusResult) error {
	if err := r.show(ctx, sdk.StateUnknown, sdk.ReasonSupervisorLost, res.Message, res.Raw); err != nil {
		return err
	}
	gone, err := r.sendCancel(ctx, new(time.Duration), sdk.ReasonSupervisorLost)
	if err != nil || !gone {
		return err
	}
	return r.finish(ctx, outcome{sdk.StateLost, sdk.ReasonSupervisorLost, res.Message}, res)
}

// outcome is how an attempt ended.
type outcome struct {
	state   sdk.JobState
	reason  sdk.Reason
	message string
}

// judge decides what a terminal state means, given what the engine itself did
// to end the job.
func (r *runner) judge(res sdk.JobStatusResult) outcome {
	own := outcome{res.State, res.Reason, res.Message}
	if !r.ending.accepted || res.State == sdk.StateLost {
		return own
	}
	if res.State == sdk.StateSucceeded && !res.EndedAt.IsZero() && res.EndedAt.Before(r.ending.asked) {
		return own // it was over before the cancel
	}
	switch r.ending.cause {
	case sdk.ReasonCancelled:
		return outcome{sdk.StateCancelled, sdk.ReasonCancelled, res.Message}
	case sdk.ReasonTimedOut:
		return outcome{sdk.StateFailed, sdk.ReasonTimedOut, fmt.Sprintf("ended after its time-out of %s", r.spec.Timeout)}
	case sdk.ReasonStartTimeout:
		if r.attempt().SeenRunning.IsZero() && res.StartedAt.IsZero() && res.ExitCode == nil {
			msg := startedNot + r.spec.StartTimeout.String()
			if r.ending.pending != "" {
				msg += ": " + r.ending.pending
			}
			return outcome{sdk.StateFailed, sdk.ReasonStartTimeout, msg}
		}
	}
	return own
}

// finish records an attempt's end. Where the log's end comes in the same
// moment, it is part of the same write.
func (r *runner) finish(ctx context.Context, o outcome, res sdk.JobStatusResult) error {
	a := r.attempt()
	if o.state == sdk.StateFailed && res.ExitCode == nil && a.SeenRunning.IsZero() && res.StartedAt.IsZero() {
		o.message = withRefs(o.message, r.spec.Secrets)
	}
	retry := r.mayRetry(o.state, o.reason)
	c := ledger.Change{Phase: ledger.PhaseEnded, State: o.state, Reason: reason(o.reason), Message: text(o.message), ExitCode: res.ExitCode,
		Signal: res.Signal, OOM: res.OOMObserved, Launches: res.Launches, Raw: res.Raw, AttemptOnly: retry}
	if o.state == sdk.StateLost {
		c.ExitCode = nil
	}
	if a.StartedAt.IsZero() && !res.StartedAt.IsZero() {
		c.StartedAt = res.StartedAt.UTC()
	}
	if a.CreatedAt.IsZero() && !res.CreatedAt.IsZero() {
		c.CreatedAt = res.CreatedAt.UTC()
	}
	if res.EndedAt.IsZero() {
		c.EndedAt = r.e.clock.Now().UTC()
	} else {
		c.EndedAt = res.EndedAt.UTC()
	}
	if res.Handle != nil {
		b, err := res.Handle.Encode()
		if err != nil {
			return err
		}
		c.Handle = b
	}
	evs := []ledger.NewEvent{r.event(ledger.KindEnded, c)}
	if r.capture != nil {
		r.capture.jobEnded(o.state)
		if v, ok := r.capture.soon(ctx, drainedSoon); ok {
			evs = append(evs, r.event(ledger.KindDrained, ledger.Change{Phase: ledger.PhaseDrained, Verdict: v}))
		}
	}
	return r.record(ctx, evs...)
}

// drainedSoon is how long an end waits for the log's, to share one write.
const drainedSoon = 40 * time.Millisecond

// statusOf reads one state outside the poller.
func (e *Engine) statusOf(ctx context.Context, back Backend, h sdk.JobHandle) (sdk.JobStatusResult, error) {
	jr, ok := sdk.Of(back.Provider, sdk.Runner())
	if !ok {
		return sdk.JobStatusResult{}, back.absent(sdk.Runner().String())
	}
	return call(ctx, back.callTimeout(), "status", func(ctx context.Context) (sdk.JobStatusResult, error) {
		return jr.JobStatus(ctx, sdk.JobStatusRequest{Handle: h})
	})
}

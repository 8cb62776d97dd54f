package control

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// killMargin is how long past its grace a job may take to go before it is
// killed by another call.
const killMargin = 3 * time.Second

func changeDetail(ev ledger.Event) map[string]string {
	var c ledger.Change
	if json.Unmarshal(ev.Change, &c) != nil {
		return nil
	}
	return c.Detail
}

// nextDeadline is when the engine itself must act on the attempt, zero for
// never.
func (r *runner) nextDeadline() time.Time {
	var first time.Time
	take := func(at time.Time, ok bool) {
		if ok && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if r.ending.cause != "" {
		take(r.retryCancelAt(), true)
	} else {
		take(r.timeoutAt())
		take(r.attempt().SentAt.Add(r.spec.StartTimeout), r.spec.StartTimeout > 0 && r.phase() == ledger.PhaseSubmitted)
	}
	take(r.renewAt())
	return first
}

// alarm wakes a runner at a time on the engine's clock.
type alarm struct {
	e  *Engine
	at time.Time
	// rung is nil while it isn't set.
	rung <-chan struct{}
	free func()
}

// set sets it for another time, zero for none. One that is set for that time
// already goes on.
func (a *alarm) set(ctx context.Context, at time.Time) {
	if a.rung != nil && at.Equal(a.at) {
		return
	}
	a.stop()
	if !at.IsZero() {
		a.at = at
		a.rung, a.free = a.e.after(ctx, max(at.Sub(a.e.clock.Now()), time.Millisecond))
	}
}

func (a *alarm) stop() {
	if a.rung != nil {
		a.free()
		a.rung = nil
	}
}

// timeoutAt is when the execution time-out passes on our clock, counted from
// the first sight of running. This process's own sight has a monotonic reading,
// so that a stepped clock doesn't move it.
func (r *runner) timeoutAt() (time.Time, bool) {
	if r.spec.Timeout <= 0 || r.phase() != ledger.PhaseRunning {
		return time.Time{}, false
	}
	if !r.sawRunning.IsZero() {
		return r.sawRunning.Add(r.spec.Timeout), true
	}
	if r.attempt().SeenRunning.IsZero() {
		return time.Time{}, false
	}
	return r.attempt().SeenRunning.Add(r.spec.Timeout), true
}

func (r *runner) ttl() time.Duration {
	if r.spec.TTL > 0 {
		return r.spec.TTL
	}
	return DefaultTTL
}

// renewAt is when the expiry must be moved: at half of its time, while the run
// lives, on backends where it can be.
func (r *runner) renewAt() (time.Time, bool) {
	if !r.renews || r.launch.Expires.IsZero() {
		return time.Time{}, false
	}
	if r.renewed.IsZero() {
		return r.launch.Expires.Add(-r.ttl() / 2), true
	}
	return r.renewed.Add(r.ttl() / 2), true
}

// renew moves the expiry. A failure is tried again soon: the object is only
// marked as free to be removed, and only when it has ended.
func (r *runner) renew(ctx context.Context, h sdk.JobHandle) {
	now := r.e.clock.Now()
	rn, _ := sdk.Of(r.back.Provider, sdk.Renewer())
	_, err := call(ctx, r.back.callTimeout(), "renew", func(ctx context.Context) (sdk.RenewExpiryResult, error) {
		return rn.RenewExpiry(ctx, sdk.RenewExpiryRequest{Handle: h, Expires: now.Add(r.ttl()).UTC().Truncate(time.Second)})
	})
	r.renewed = now
	if err != nil && ctx.Err() == nil {
		r.e.log.Warn("expiry not renewed", "run", r.id, "err", err)
		r.renewed = now.Add(time.Minute - r.ttl()/2)
	}
}

func (r *runner) grace() time.Duration {
	if r.spec.Grace != nil {
		return *r.spec.Grace
	}
	if g := r.back.Info().Guarantees.Grace; g.Supported {
		if g.Default > 0 {
			return g.Default
		}
		return DefaultGrace
	}
	return 0
}

func (r *runner) retryCancelAt() time.Time {
	wait := killMargin
	if !r.ending.killed {
		wait += r.grace()
	}
	if r.ending.failures > 0 {
		wait = min(time.Duration(1<<min(r.ending.failures, 6))*250*time.Millisecond, 30*time.Second)
	}
	return r.ending.asked.Add(wait)
}

// actOn ends the attempt where a request or a deadline asks for it.
func (r *runner) actOn(ctx context.Context, h sdk.JobHandle, t *tracked) error {
	if r.phase() != ledger.PhaseSubmitted && r.phase() != ledger.PhaseRunning {
		return nil
	}
	now := r.e.clock.Now()
	if at, ok := r.renewAt(); ok && !now.Before(at) {
		r.renew(ctx, h)
	}
	if r.ending.cause == "" {
		cause, err := r.causeToEnd(now)
		if err != nil || cause == "" {
			return err
		}
		r.ending.cause = cause
		if cause != sdk.ReasonCancelled {
			detail := map[string]string{"cause": string(cause)}
			if cause == sdk.ReasonStartTimeout {
				r.ending.pending = r.pendingWords()
				detail["pending"] = r.ending.pending
			}
			ev := r.event(ledger.KindDeadline, ledger.Change{Detail: detail})
			if err := r.record(ctx, ev); err != nil {
				return err
			}
		}
		_, err = r.sendCancel(ctx, r.spec.Grace, cause)
		t.now()
		return err
	}
	if !r.run.CancelAt.IsZero() && r.ending.cause == sdk.ReasonSupervisorLost {
		return nil
	}
	if r.ending.asked.IsZero() || !now.Before(r.retryCancelAt()) {
		grace := r.spec.Grace
		if r.ending.accepted {
			// It was asked and its grace is over: kill.
			grace, r.ending.killed = new(time.Duration), true
		}
		_, err := r.sendCancel(ctx, grace, r.ending.cause)
		t.now()
		return err
	}
	return nil
}

func (r *runner) causeToEnd(now time.Time) (sdk.Reason, error) {
	if !r.run.CancelAt.IsZero() {
		return sdk.ReasonCancelled, nil
	}
	if at, ok := r.timeoutAt(); ok && !now.Before(at) {
		return sdk.ReasonTimedOut, nil
	}
	if over, _ := r.startOver(); over && r.phase() == ledger.PhaseSubmitted {
		return sdk.ReasonStartTimeout, nil
	}
	return "", nil
}

// pendingWords say why the attempt waits, as far as the backend has told; empty where
// it hasn't. What it tells once it is ended is of that end.
func (r *runner) pendingWords() string {
	a := r.attempt()
	switch {
	case a.Reason == "" || a.Reason == sdk.ReasonUnknown:
		return a.Message
	case a.Message == "":
		return string(a.Reason)
	}
	return string(a.Reason) + ": " + a.Message
}

// startedNot begins the words of a run that reached its start time-out, before the time
// and why it waited.
const startedNot = "did not start within "

// PendingReason returns why a run that reached its start time-out had waited, as the
// backend had told; empty where it hadn't.
func PendingReason(r ledger.Run) sdk.Reason {
	rest, ok := strings.CutPrefix(r.Message, startedNot)
	if r.Reason != sdk.ReasonStartTimeout || !ok {
		return ""
	}
	_, why, _ := strings.Cut(rest, ": ")
	name, _, _ := strings.Cut(why, ": ")
	if _, ok := sdk.Reason(name).Rule(); !ok {
		return ""
	}
	return sdk.Reason(name)
}

// sendCancel makes one cancel call and records what it achieved. Its failure
// changes nothing of the run: it is tried again.
func (r *runner) sendCancel(ctx context.Context, grace *time.Duration, cause sdk.Reason) (gone bool, err error) {
	r.ending.asked = r.e.clock.Now()
	jc, ok := sdk.Of(r.back.Provider, sdk.Canceler())
	if !ok {
		r.ending.failures++
		return false, r.show(ctx, r.attempt().State, r.attempt().Reason, "provider "+r.back.Name+" can't cancel; the job goes on", nil)
	}
	h, err := r.decodeHandle()
	if err != nil {
		return false, err
	}
	req := sdk.CancelJobRequest{Handle: h, Grace: grace, Why: string(cause)}
	res, err := call(ctx, max(cancelCall, r.back.callTimeout()), "cancel", func(ctx context.Context) (sdk.CancelJobResult, error) { return jc.CancelJob(ctx, req) })
	if err != nil {
		if ctx.Err() != nil {
			return false, errStopped
		}
		r.ending.failures++
		if r.ending.failures == 1 {
			r.e.warn(r.id, "run %s: the cancel failed and is tried again: %v", r.id.Short(), err)
		}
		return false, nil
	}
	r.ending.failures = 0
	r.ending.accepted = r.ending.accepted || res.Accepted
	d := map[string]string{"cause": string(cause), "evidence": res.Evidence, "accepted": strconv.FormatBool(res.Accepted), "gone": strconv.FormatBool(res.Gone)}
	if grace != nil {
		d["grace"] = grace.String()
	}
	return res.Gone, r.record(ctx, r.event(ledger.KindCancelSent, ledger.Change{Detail: d}))
}

package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// prepare asks the provider for the launch of an attempt.
func (e *Engine) prepare(ctx context.Context, back Backend, spec sdk.JobSpec, run, attempt sdk.ID, number int, amb *sdk.Ambient) (sdk.Launch, error) {
	jr, ok := sdk.Of(back.Provider, sdk.Runner())
	if !ok {
		return sdk.Launch{}, back.absent(sdk.Runner().String())
	}
	ttl := spec.TTL
	if ttl == 0 {
		ttl = DefaultTTL
	}
	req := sdk.PrepareJobRequest{Spec: spec, RunID: run, AttemptID: attempt, Attempt: number,
		Expires: e.clock.Now().Add(ttl).UTC().Truncate(time.Second), Ambient: amb}
	l, err := call(ctx, back.callTimeout(), "prepare", func(ctx context.Context) (sdk.Launch, error) { return jr.PrepareJob(ctx, req) })
	if err != nil {
		return l, err
	}
	if l.AttemptID != attempt || l.RunID != run || l.Kind != back.Info().Kind {
		return l, sdk.Errorf(sdk.Internal, "prepare", "provider %s returned a launch of another attempt", back.Name)
	}
	return l, nil
}

// launchAttempt sends a launch for the first time, once it is its turn.
func (r *runner) launchAttempt(ctx context.Context) error {
	if !r.run.CancelAt.IsZero() {
		return r.endUnsent(ctx, sdk.StateCancelled, sdk.ReasonCancelled, "cancelled before it was sent")
	}
	if err := r.readLaunch(); err != nil {
		return err
	}
	if d := r.run.NotBefore.Sub(r.e.clock.Now()); d > 0 {
		return r.sleep(ctx, d)
	}
	first := r.event(ledger.KindSubmitting, ledger.Change{Phase: ledger.PhaseSubmitting, SentAt: r.e.clock.Now().UTC()})
	ok, err := r.admitted(ctx, first)
	if err != nil || !ok {
		return err
	}
	return r.send(ctx)
}

func (r *runner) readLaunch() error {
	a := r.attempt()
	if r.launch.AttemptID == a.ID && !a.ID.IsZero() {
		return nil
	}
	l, err := sdk.DecodeLaunch(a.Launch)
	if err != nil {
		return err
	}
	r.launch = l
	return nil
}

// send makes the launch's call and records what came of it. The phase is
// submitting, and durable.
func (r *runner) send(ctx context.Context) error {
	jr, ok := sdk.Of(r.back.Provider, sdk.Runner())
	if !ok {
		return r.back.absent(sdk.Runner().String())
	}
	limit := min(submitCall, max(r.back.callTimeout(), time.Second))
	if r.launch.Resubmit.By == sdk.SubmitByName {
		limit = namedSubmitCall
	} else if left := r.e.leaseLeft(); left < limit {
		// A process that was stopped past its lease must not send.
		return errStopped
	}
	first := !r.lastSent.After(r.attempt().SentAt)
	if first {
		r.lastAnswer = r.e.clock.Now()
	}
	req := sdk.RunJobRequest{Launch: r.launch, Progress: r.req.Progress}
	closeInput, err := r.inputs(&req)
	if err != nil {
		return err
	}
	// The driver gets a moment to say what had been sent when its time was over: a
	// call that doesn't return leaves the launch in doubt.
	res, err := call(ctx, limit+lastWord, "run", func(ctx context.Context) (sdk.RunJobResult, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, limit, lateError{limit})
		defer cancel()
		return jr.RunJob(ctx, req)
	})
	r.lastSent = r.e.clock.Now()
	if err == nil {
		if closeInput != nil {
			// The driver reads the spool for as long as the provider is open.
			r.e.keepOpen(r, closeInput)
		}
		return r.accepted(ctx, ledger.KindSubmitted, res.Handle, res.Adopted)
	}
	if closeInput != nil {
		_ = closeInput.Close()
	}
	if ctx.Err() != nil {
		return errStopped
	}
	if sdk.IsClear(err) {
		switch {
		case r.doubt && sdk.IsRetryable(err):
			// The phase stays submitting: settle looks it up and sends it again.
			return r.sleep(ctx, max(doubtAgain, sdk.RetryAfter(err)))
		case r.doubt:
			// It is this send that was refused; the first may have been taken.
			return r.stillInDoubt(ctx, err)
		case first && sdk.IsUnreached(err):
			// Nobody is there, and nothing was sent: whoever asked learns it at once. A
			// cancel may have come while the call waited.
			if err := r.reload(ctx); err != nil {
				return err
			}
			if !r.run.CancelAt.IsZero() {
				return r.endUnsent(ctx, sdk.StateCancelled, sdk.ReasonCancelled, "cancelled before it could be sent")
			}
			return r.refused(ctx, err)
		case sdk.IsRetryable(err):
			return r.waitForRoom(ctx, err)
		}
		return r.refused(ctx, err)
	}
	r.e.log.Info("launch in doubt", "run", r.id, "err", err)
	// The phase stays submitting: settle looks it up.
	return r.silent(ctx, err)
}

// lastWord is the time that a driver has to return once its call's is over.
const lastWord = 2 * time.Second

// doubtWait is the wait between sends of a launch in doubt that are refused,
// doubtAgain that after a refusal that may pass soon.
const (
	doubtWait  = time.Minute
	doubtAgain = time.Second
)

// stillInDoubt shows a launch that may have made its job, and can't be sent
// again to find out.
func (r *runner) stillInDoubt(ctx context.Context, cause error) error {
	msg := r.e.o.Redact("the reply to the launch was lost, and it can't be sent again: " + cause.Error())
	if r.run.Reason != sdk.ReasonSubmitUnconfirmed || r.run.Message != msg {
		err := r.record(ctx, r.event(ledger.KindObserved, ledger.Change{State: sdk.StateUnknown, Reason: reason(sdk.ReasonSubmitUnconfirmed), Message: text(msg)}))
		if err != nil {
			return err
		}
	}
	return r.sleep(ctx, doubtWait)
}

func (r *runner) accepted(ctx context.Context, kind ledger.Kind, h sdk.JobHandle, adopted bool) error {
	b, err := h.Encode()
	if err != nil {
		return err
	}
	c := ledger.Change{Phase: ledger.PhaseSubmitted, State: sdk.StatePending, Handle: json.RawMessage(b), Message: text("")}
	if adopted {
		c.Detail = map[string]string{"adopted": "it was there already"}
	}
	if err := r.record(ctx, r.event(kind, c)); err != nil {
		return err
	}
	r.handle, r.handleOf, r.sent, r.lastAnswer = h, b, r.attempt().Number, r.e.clock.Now()
	return nil
}

// waitForRoom is for refusals that made no object and may pass: the same
// attempt is sent again, until the start time-out.
func (r *runner) waitForRoom(ctx context.Context, cause error) error {
	why, room := sdk.ReasonCapacity, sdk.CodeOf(cause) == sdk.ResourceExhausted
	if !room {
		why = sdk.ReasonInfrastructure // it could not be sent
	}
	var e *sdk.Error
	if errors.As(cause, &e) && e.Reason != "" && sdk.LegalReason(sdk.StatePending, e.Reason) {
		why = e.Reason
	}
	// What an outage says may differ each time.
	if r.run.Reason != why || room && r.run.Message != r.e.o.Redact(cause.Error()) {
		err := r.record(ctx, r.event(ledger.KindWaiting, ledger.Change{State: sdk.StatePending, Reason: reason(why), Message: text(cause.Error())}))
		if err != nil {
			return err
		}
	}
	most := 30 * time.Second
	if unheard(cause) {
		most = slowestUnheard
	}
	b := r.backoff(time.Second, most)
	for {
		wait := max(b.NextBackOff(), sdk.RetryAfter(cause))
		if over, left := r.startOver(); over {
			return r.endUnsent(ctx, sdk.StateFailed, sdk.ReasonStartTimeout, fmt.Sprintf("%s within the start time-out: %v", choose(room, "no room", "it could not be sent"), cause))
		} else if left > 0 {
			wait = min(wait, left)
		}
		if err := r.sleep(ctx, wait); err != nil {
			return err
		}
		if !r.run.CancelAt.IsZero() {
			return r.endUnsent(ctx, sdk.StateCancelled, sdk.ReasonCancelled, choose(room, "cancelled while it waited for room", "cancelled before it could be sent"))
		}
		if over, _ := r.startOver(); over {
			continue
		}
		return r.resend(ctx)
	}
}

func choose(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

func (r *runner) resend(ctx context.Context) error {
	err := r.record(ctx, r.event(ledger.KindSubmitting, ledger.Change{Phase: ledger.PhaseSubmitting, SentAt: r.attempt().SentAt}))
	if err != nil {
		return err
	}
	return r.send(ctx)
}

// startOver reports whether the start time-out has passed, and how long it
// still lasts; 0 with false is no time-out.
func (r *runner) startOver() (over bool, left time.Duration) {
	if r.spec.StartTimeout <= 0 || r.attempt().SentAt.IsZero() {
		return false, 0
	}
	left = r.attempt().SentAt.Add(r.spec.StartTimeout).Sub(r.e.clock.Now())
	return left <= 0, left
}

func (r *runner) startIsOver() bool {
	over, _ := r.startOver()
	return over
}

// refused ends an attempt that the backend refused for good.
func (r *runner) refused(ctx context.Context, cause error) error {
	return r.endUnsent(ctx, sdk.StateFailed, refusalReason(cause), withRefs(cause.Error(), r.spec.Secrets))
}

func refusalReason(err error) sdk.Reason {
	if sdk.IsUnreached(err) {
		return sdk.ReasonInfrastructure
	}
	var e *sdk.Error
	for cause := err; errors.As(cause, &e); cause = e.Err {
		if e.Reason != "" && sdk.LegalReason(sdk.StateFailed, e.Reason) {
			return e.Reason
		}
	}
	switch sdk.CodeOf(err) {
	case sdk.PermissionDenied:
		return sdk.ReasonPermissionDenied
	case sdk.Unauthenticated:
		return sdk.ReasonCredentials
	case sdk.ResourceExhausted:
		return sdk.ReasonQuota
	case sdk.Unavailable, sdk.Internal, sdk.Aborted:
		return sdk.ReasonInfrastructure
	default:
		return sdk.ReasonInvalidSpec
	}
}

// endUnsent ends an attempt that has no object on the backend: its end, its
// empty log and its clean-up are one write.
func (r *runner) endUnsent(ctx context.Context, state sdk.JobState, why sdk.Reason, message string) error {
	if err := r.finishLog(sdk.VerdictComplete); err != nil {
		return err
	}
	kind := ledger.KindEnded
	if state == sdk.StateFailed {
		kind = ledger.KindRefused
	}
	retry := r.mayRetry(state, why)
	evs := []ledger.NewEvent{
		r.event(kind, ledger.Change{Phase: ledger.PhaseEnded, State: state, Reason: reason(why), Message: text(message),
			EndedAt: r.e.clock.Now().UTC(), AttemptOnly: retry}),
		r.event(ledger.KindDrained, ledger.Change{Phase: ledger.PhaseDrained, Verdict: sdk.VerdictComplete}),
		r.event(ledger.KindCleaned, ledger.Change{Phase: ledger.PhaseCleaned}),
	}
	return r.record(ctx, evs...)
}

// settle clears up a launch in doubt: adopt what is there, send again what is
// proven absent or still deduplicated, and never guess.
func (r *runner) settle(ctx context.Context) error {
	if err := r.readLaunch(); err != nil {
		return err
	}
	if d := r.notBefore.Sub(r.e.clock.Now()); d > 0 {
		return r.sleep(ctx, d)
	}
	b := r.backoff(200*time.Millisecond, time.Minute)
	for {
		if r.run.State.Terminal() {
			return nil // abandoned
		}
		decision, wait, err := r.lookUp(ctx)
		switch {
		case err != nil:
			return err
		case decision == lookAdopted:
			return nil
		case decision == lookResend && !r.absent && (!r.run.CancelAt.IsZero() || r.startIsOver()) && r.mayAppear():
			// Sending again would make a job only to end it: look for as long as
			// one may come to light. Past that only the token settles it.
			wait = max(wait, time.Second)
		case decision == lookResend:
			if r.absent && (!r.run.CancelAt.IsZero() || r.startIsOver()) {
				half, err := r.adoptHalfMade(ctx)
				if err != nil || half {
					return err
				}
			}
			if r.absent && !r.run.CancelAt.IsZero() {
				return r.endUnsent(ctx, sdk.StateCancelled, sdk.ReasonCancelled, "cancelled; it is proven that nothing was made")
			}
			if r.absent && r.startIsOver() {
				return r.endUnsent(ctx, sdk.StateFailed, sdk.ReasonStartTimeout, "not accepted within the start time-out")
			}
			if err := r.sleep(ctx, b.NextBackOff()); err != nil {
				return err
			}
			r.doubt = !r.absent
			return r.resend(ctx)
		case decision == lookUnconfirmed:
			if err := r.showUnconfirmed(ctx); err != nil {
				return err
			}
		}
		next := b.NextBackOff()
		if decision == lookUnheard {
			next = min(next, slowestUnheard)
		}
		if err := r.sleep(ctx, max(wait, next)); err != nil {
			return err
		}
	}
}

// newestSend is when the attempt was sent last, as far as is known here: from
// then on counts when what was made is surely listed.
func (r *runner) newestSend() time.Time {
	if first := r.attempt().SentAt; first.After(r.lastSent) {
		return first
	}
	return r.lastSent
}

// mayAppear reports whether a search may yet find what the launch in doubt made.
func (r *runner) mayAppear() bool {
	return sdk.Has(r.back.Provider, sdk.Finder().String()) &&
		r.e.clock.Now().Before(r.newestSend().Add(r.back.Info().Guarantees.Found.Within))
}

type lookDecision int

const (
	lookAgain lookDecision = iota
	lookAdopted
	lookResend
	lookUnconfirmed
	// lookUnheard: the backend gave no answer; look again soon.
	lookUnheard
)

// lookUp asks the backend for the launch in doubt, once.
func (r *runner) lookUp(ctx context.Context) (lookDecision, time.Duration, error) {
	rule := r.launch.Resubmit
	// The identical launch may go out again while the backend's token holds,
	// which counts from the first send; a tenth is kept back for the clocks.
	inWindow := rule.Window > 0 && r.e.clock.Now().Before(r.attempt().SentAt.Add(rule.Window*9/10))
	r.absent = false
	finder, ok := sdk.Of(r.back.Provider, sdk.Finder())
	if !ok {
		if inWindow || rule.By == sdk.SubmitByName {
			return lookResend, 0, nil
		}
		return lookUnconfirmed, time.Minute, nil
	}
	req := sdk.FindJobsRequest{Launch: &r.launch, SentAt: r.newestSend(), RunID: r.id, Owner: r.launch.Owner}
	res, err := call(ctx, r.back.callTimeout(), "find", func(ctx context.Context) (sdk.FindJobsResult, error) { return finder.FindJobs(ctx, req) })
	if err != nil {
		if ctx.Err() != nil {
			return lookAgain, 0, errStopped
		}
		if unheard(err) {
			return lookUnheard, sdk.RetryAfter(err), r.silent(ctx, err)
		}
		return lookAgain, sdk.RetryAfter(err), r.silent(ctx, err)
	}
	if res.Outcome != sdk.FindFound { // which shows a state of its own
		if err := r.heard(ctx); err != nil {
			return lookAgain, 0, err
		}
	}
	switch res.Outcome {
	case sdk.FindFound:
		for _, j := range res.Jobs {
			if j.AttemptID == r.launch.AttemptID {
				return lookAdopted, 0, r.accepted(ctx, ledger.KindAdopted, j.Handle, true)
			}
		}
		return lookAgain, 0, sdk.Errorf(sdk.Internal, "find jobs", "provider %s found jobs of other attempts only", r.back.Name)
	case sdk.FindAbsent:
		r.absent = true
		return lookResend, 0, nil
	case sdk.FindNotVisible:
		if inWindow {
			return lookResend, 0, nil
		}
		if wait := res.VisibleAt.Sub(r.e.clock.Now()); !res.VisibleAt.IsZero() && wait > 0 {
			return lookAgain, wait, nil
		}
		return lookUnconfirmed, 0, nil
	}
	return lookAgain, 0, sdk.Errorf(sdk.Internal, "find jobs", "provider %s gave the outcome %q", r.back.Name, res.Outcome)
}

// adoptHalfMade looks by labels for what an interrupted launch left: an object
// that never started is absent as a job, and the same launch sent again would
// start it. Where the attempt is to end instead, it is adopted, so that it is
// ended and cleaned up like any other.
func (r *runner) adoptHalfMade(ctx context.Context) (bool, error) {
	finder, ok := sdk.Of(r.back.Provider, sdk.Finder())
	if !ok {
		return false, nil
	}
	req := sdk.FindJobsRequest{SentAt: r.newestSend(), RunID: r.id, Owner: r.launch.Owner}
	res, err := call(ctx, r.back.callTimeout(), "find", func(ctx context.Context) (sdk.FindJobsResult, error) { return finder.FindJobs(ctx, req) })
	if err != nil {
		if ctx.Err() != nil {
			return false, errStopped
		}
		// settle comes back here.
		return true, errors.Join(r.silent(ctx, err), r.sleep(ctx, max(time.Second, sdk.RetryAfter(err))))
	}
	for _, j := range res.Jobs {
		if res.Outcome == sdk.FindFound && j.AttemptID == r.launch.AttemptID {
			return true, r.accepted(ctx, ledger.KindAdopted, j.Handle, true)
		}
	}
	return false, nil
}

func (r *runner) showUnconfirmed(ctx context.Context) error {
	if r.run.Reason == sdk.ReasonSubmitUnconfirmed {
		return nil
	}
	return r.record(ctx, r.event(ledger.KindObserved, ledger.Change{State: sdk.StateUnknown, Reason: reason(sdk.ReasonSubmitUnconfirmed),
		Message: text("the reply to the launch was lost and the job can't be found; it may run")}))
}

// backoff returns jittered exponential waits without an end.
func (r *runner) backoff(first, most time.Duration) backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = first, most, 2
	b.Reset()
	return b
}

// keepOpen closes a job's input when the run is over, or with the engine: a run
// that was handed over still reads its input here.
func (e *Engine) keepOpen(r *runner, c io.Closer) {
	e.wg.Add(1)
	go func() {
		defer e.wg.Done()
		<-r.gone
		if row, _ := r.row(); !row.State.Terminal() {
			<-e.over
		}
		if err := c.Close(); err != nil {
			e.log.Warn("input not closed", "err", err)
		}
	}()
}

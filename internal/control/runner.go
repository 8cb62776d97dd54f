package control

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windlass-run/windlass/internal/failpoint"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// errStopped ends a runner's work without a word: it was handed over, or
// another holder has taken the run.
var errStopped = errors.New("no longer the holder")

// errOvertaken ends a step whose write came too late: the next one goes by the
// row as it is.
var errOvertaken = errors.New("the run was moved on by somebody else")

// runner drives one run. Its goroutine is the only one that touches the fields
// below mu.
type runner struct {
	e *Engine
	// id and fence don't change while this holder has the run.
	id    sdk.ID
	fence int64
	back  Backend
	spec  sdk.JobSpec
	set   settings

	// cancel ends the context that the run is driven under.
	cancel context.CancelFunc
	gone   chan struct{}
	wake   chan struct{}

	// looked: the backend was asked once, and what it said is on record.
	looked atomic.Bool
	// crashed: a test ended the engine as a kill would.
	crashed atomic.Bool

	req SubmitRequest
	// fresh: the launch was never sent, though the phase is submitting.
	fresh bool
	// absent: a look has proven that the launch in doubt made nothing; doubt:
	// it was sent again without that proof.
	absent, doubt bool

	mu    sync.Mutex
	run   ledger.Run
	marks chan struct{} // closed and replaced at every change of run

	attempts []ledger.Attempt
	launch   sdk.Launch
	// handle is what handleOf holds decoded.
	handle   sdk.JobHandle
	handleOf []byte
	// sent is the number of the attempt that this runner saw accepted: no
	// earlier holder did anything to end it.
	sent int
	// notBefore delays a send in doubt after a take-over.
	notBefore time.Time
	// lastSent is the end of this process's newest send of the attempt, or when it
	// took over one that an earlier holder may have sent.
	lastSent time.Time
	ending   ending
	capture  *capture
	// sawRunning is this process's own sight of running, whose monotonic
	// reading a stepped clock doesn't move.
	sawRunning time.Time
	lastAnswer time.Time
	// notFoundAt is when the backend first didn't find the job, zero when it was found
	// since.
	notFoundAt time.Time
	// renews: the provider can move the expiry of what the attempt made; renewed
	// is when that was last done.
	renews  bool
	renewed time.Time
}

// ending is what the engine itself did to end the attempt.
type ending struct {
	// cause is why: cancelled, timed_out or start_timeout.
	cause sdk.Reason
	// pending is what the backend had said of the wait when the start time-out passed.
	pending string
	// asked is the last cancel call, accepted that one was taken while the job
	// may still have run; killed that grace has passed and it was killed.
	asked    time.Time
	accepted bool
	killed   bool
	failures int
}

func (e *Engine) newRunner(run ledger.Run, attempts []ledger.Attempt, back Backend, spec sdk.JobSpec, set settings) *runner {
	return &runner{e: e, id: run.ID, fence: run.Fence, back: back, spec: spec, set: set, gone: make(chan struct{}),
		wake: make(chan struct{}, 1), run: run, attempts: attempts, marks: make(chan struct{}), lastAnswer: e.clock.Now()}
}

func (r *runner) stop() { r.cancel() }

// poke makes the runner read its row again.
func (r *runner) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// row returns the run as this runner last wrote it, and a channel that is
// closed at its next change.
func (r *runner) row() (ledger.Run, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.run, r.marks
}

func (r *runner) attempt() *ledger.Attempt {
	if len(r.attempts) == 0 {
		return &ledger.Attempt{}
	}
	return &r.attempts[len(r.attempts)-1]
}

// drive takes the run from where it stands to its end.
func (r *runner) drive(ctx context.Context) {
	defer r.cancel()
	err := r.steps(ctx)
	if r.capture != nil {
		r.capture.stop()
	}
	if err != nil && !errors.Is(err, errStopped) && ctx.Err() == nil {
		r.e.warn(r.id, "run %s is left for another holder: %v", r.id.Short(), err)
	}
	if r.run.Open() && !r.crashed.Load() {
		r.release(ctx)
	}
}

func (r *runner) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelCall)
	defer cancel()
	err := r.e.o.Store.Release(ctx, r.id, r.e.self.ID, r.fence)
	if err != nil && !errors.Is(err, sdk.Aborted) {
		r.e.log.Warn("run not released", "run", r.id, "err", err)
	}
}

func (r *runner) steps(ctx context.Context) error {
	if r.req.Park {
		<-ctx.Done()
		return errStopped
	}
	for r.run.Open() {
		if err := ctx.Err(); err != nil {
			return errStopped
		}
		if err := r.step(ctx); err != nil && !errors.Is(err, errOvertaken) {
			return err
		}
	}
	return nil
}

func (r *runner) step(ctx context.Context) error {
	switch phase := r.phase(); phase {
	case ledger.PhaseIntent:
		return r.launchAttempt(ctx)
	case ledger.PhaseSubmitting:
		if r.fresh {
			r.fresh = false
			return r.send(ctx)
		}
		return r.settle(ctx)
	case ledger.PhaseSubmitted, ledger.PhaseRunning:
		return r.observe(ctx)
	case ledger.PhaseEnded:
		return r.drain(ctx)
	case ledger.PhaseDrained:
		return r.clean(ctx)
	case ledger.PhaseCleaned, ledger.PhaseKept:
		return r.next(ctx)
	default:
		return sdk.Errorf(sdk.Internal, "drive run", "phase %q is not known", phase)
	}
}

func (r *runner) phase() ledger.Phase { return r.attempt().Phase }

// record writes events of the run, and keeps at it while the ledger can't take
// them: what runs must be ended on record. It returns errStopped once another
// holder has the run.
func (r *runner) record(ctx context.Context, events ...ledger.NewEvent) error {
	return r.write(ctx, nil, events...)
}

func (r *runner) write(ctx context.Context, admit *ledger.Admission, events ...ledger.NewEvent) error {
	if err := checkSteps(r.phase(), events); err != nil {
		return err
	}
	for i := range events {
		if events[i].Actor == "" {
			events[i].Actor = r.e.o.Actor
		}
		events[i].Change.V = ledger.ChangeVersion
		r.e.redact(&events[i].Change)
	}
	var at time.Time
	w := ledger.Write{Run: r.id, Holder: r.e.self.ID, Fence: r.fence, Admit: admit, Events: events, Stamp: &at}
	wait := 100 * time.Millisecond
	for {
		hits("before", events)
		err := r.e.o.Store.Write(ctx, w)
		if err == nil {
			hits("after", events)
			return r.applied(at, events)
		}
		switch sdk.CodeOf(err) {
		case sdk.Aborted, sdk.NotFound:
			return errStopped
		case sdk.FailedPrecondition:
			if r.overtaken(ctx) {
				return errOvertaken
			}
			return err
		case sdk.InvalidArgument, sdk.Internal:
			return err
		case sdk.ResourceExhausted:
			if admit != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return errStopped
		}
		if wait == 100*time.Millisecond {
			r.e.warn(r.id, "the ledger can't be written, trying again: %v", err)
		}
		if r.e.clock.Sleep(ctx, wait) != nil {
			return errStopped
		}
		wait = min(wait*2, 5*time.Second)
	}
}

func hits(when string, events []ledger.NewEvent) {
	if failpoint.Enabled {
		for _, ev := range events {
			failpoint.Hit("write." + string(ev.Kind) + "." + when)
		}
	}
}

// applied folds what was written at a time into the runner's own copy.
func (r *runner) applied(at time.Time, events []ledger.NewEvent) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	if r.run, r.attempts, err = fold(r.id, r.run, r.attempts, at, events); err != nil {
		return err
	}
	close(r.marks)
	r.marks = make(chan struct{})
	return nil
}

// fold gives the rows as the ledger has them after a write.
func fold(id sdk.ID, run ledger.Run, attempts []ledger.Attempt, at time.Time, events []ledger.NewEvent) (ledger.Run, []ledger.Attempt, error) {
	for _, ev := range events {
		var err error
		run, attempts, err = ledger.Apply(run, attempts, ledger.Event{At: at, Run: id, Attempt: ev.Attempt, Kind: ev.Kind}, ev.Change)
		if err != nil {
			return run, attempts, err
		}
	}
	return run, attempts, nil
}

// overtaken reads the row again after a write that didn't fit it, and reports
// whether somebody else has moved the run on: given it up, while this runner
// was about to write what it had just seen.
func (r *runner) overtaken(ctx context.Context) bool {
	before := r.phase()
	return r.reload(ctx) == nil && r.phase() != before
}

// reload reads the row again, for requests that others have written.
func (r *runner) reload(ctx context.Context) error {
	run, err := r.e.o.Store.Run(ctx, r.id)
	if err != nil {
		if ctx.Err() != nil {
			return errStopped
		}
		return err
	}
	if run.Holder != r.e.self.ID || run.Fence != r.fence {
		return errStopped
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run = run
	if run.Attempt > 0 && run.Phase == ledger.PhaseEnded && r.attempts[len(r.attempts)-1].Phase != ledger.PhaseEnded {
		// Somebody else abandoned the run.
		attempts, err := r.e.o.Store.Attempts(ctx, run.ID)
		if err != nil {
			return err
		}
		r.attempts = attempts
	}
	close(r.marks)
	r.marks = make(chan struct{})
	return nil
}

// decodeHandle returns the handle of the current attempt.
func (r *runner) decodeHandle() (sdk.JobHandle, error) {
	b := r.attempt().Handle
	if len(b) > 0 && bytes.Equal(b, r.handleOf) {
		return r.handle, nil
	}
	h, err := sdk.DecodeHandle(b)
	if err == nil {
		r.handle, r.handleOf = h, b
	}
	return h, err
}

// event makes an event of the current attempt.
func (r *runner) event(kind ledger.Kind, c ledger.Change) ledger.NewEvent {
	return ledger.NewEvent{Attempt: r.attempt().Number, Kind: kind, Change: c}
}

// redact takes secret values out of all texts of a change that come from a
// backend or an error.
func (e *Engine) redact(c *ledger.Change) {
	for _, t := range []*string{c.Message, c.CleanupErr} {
		if t != nil {
			*t = e.o.Redact(*t)
		}
	}
	c.Raw, c.Detail = e.redactMap(c.Raw), e.redactMap(c.Detail)
}

func (e *Engine) redactMap(m map[string]string) map[string]string {
	var out map[string]string
	for k, v := range m {
		clean := e.o.Redact(v)
		if clean == v {
			continue
		}
		if out == nil {
			out = maps.Clone(m)
		}
		out[k] = clean
	}
	if out == nil {
		return m
	}
	return out
}

func reason(v sdk.Reason) *sdk.Reason { return &v }

func text(s string) *string { return &s }

// sleep waits for d, or until the runner is poked; it returns errStopped when
// the run is no longer ours.
func (r *runner) sleep(ctx context.Context, d time.Duration) error {
	done, free := r.e.after(ctx, d)
	defer free()
	select {
	case <-done:
	case <-r.wake:
		return r.reload(ctx)
	case <-ctx.Done():
		return errStopped
	}
	return nil
}

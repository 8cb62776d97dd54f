package control_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// barred refuses sends, by their number from one, before they reach the cloud.
type barred struct {
	sdk.JobRunner
	n    *atomic.Int64
	fail func(n int64) error
}

func (b barred) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	if err := b.fail(b.n.Add(1)); err != nil {
		return sdk.RunJobResult{}, err
	}
	return b.JobRunner.RunJob(ctx, r)
}

func withSends(n *atomic.Int64, fail func(n int64) error) option {
	return func(w *world) {
		w.wrap = func(p sdk.Provider) sdk.Provider {
			jr, _ := sdk.Of(p, sdk.Runner())
			d, err := sdk.Decorate(p, map[string]any{sdk.Runner().String(): barred{jr, n, fail}})
			if err != nil {
				w.t.Fatal(err)
			}
			return d
		}
	}
}

func unreached() error {
	return &sdk.Error{Code: sdk.Unavailable, Op: "run job", Retryable: true, Unreached: true, Err: errors.New("connection refused"), Remedy: "start it"}
}

// row waits until a run's row is as wanted.
func (w *world) row(id sdk.ID, what string, want func(ledger.Run) bool) ledger.Run {
	w.t.Helper()
	var r ledger.Run
	w.until(what, func() bool {
		var err error
		if r, err = w.store.Run(w.t.Context(), id); err != nil {
			w.t.Fatal(err)
		}
		return want(r)
	})
	return r
}

// TestUnreachedEndsAtOnce: where nobody is there and nothing was sent, the run
// fails and says so; a retry is asked for by --retries.
func TestUnreachedEndsAtOnce(t *testing.T) {
	for _, code := range []sdk.Code{sdk.Unavailable, sdk.DeadlineExceeded} {
		var n atomic.Int64
		w := newWorld(t, withSends(&n, func(n int64) error {
			if n > 1 {
				return nil
			}
			var e *sdk.Error
			errors.As(unreached(), &e)
			e.Code = code
			return e
		}))
		e := w.engine()
		r := w.wait(e, w.submit(e, request(spec("true"))), control.MilestoneFinished)
		w.expect(r, sdk.StateFailed, sdk.ReasonInfrastructure)
		if !strings.Contains(r.Message, "connection refused; start it") || n.Load() != 1 || w.cloud.Calls(fake.OpFindJobs) != 0 {
			t.Errorf("%d sends, %d looks: %s", n.Load(), w.cloud.Calls(fake.OpFindJobs), r.Message)
		}
		w.sound(r.ID)
	}
}

// TestUnreachedIsRetried: it counts among the failures that --retries repeats.
func TestUnreachedIsRetried(t *testing.T) {
	var n atomic.Int64
	w := newWorld(t, withSends(&n, func(n int64) error {
		if n > 1 {
			return nil
		}
		return unreached()
	}))
	e := w.engine()
	s := spec("true")
	s.Retries = 1
	r := w.wait(e, w.submit(e, request(s)), control.MilestoneFinished)
	w.expect(r, sdk.StateSucceeded, sdk.ReasonCompleted)
	if r.Attempt != 2 || n.Load() != 2 {
		t.Errorf("%d attempts, %d sends", r.Attempt, n.Load())
	}
}

// TestCancelWhileNobodyAnswers: a cancel that comes while the launch waits for a
// connection in vain has its way.
func TestCancelWhileNobodyAnswers(t *testing.T) {
	var n atomic.Int64
	sent, over := make(chan struct{}), make(chan struct{})
	w := newWorld(t, withSends(&n, func(int64) error {
		close(sent)
		<-over
		return unreached()
	}))
	e := w.engine()
	id := w.submit(e, request(spec("true")))
	<-sent
	if err := e.Cancel(t.Context(), control.CancelRequest{Run: id, Actor: "tester"}); err != nil {
		t.Fatal(err)
	}
	close(over)
	r := w.wait(e, id, control.MilestoneFinished)
	w.expect(r, sdk.StateCancelled, sdk.ReasonCancelled)
	if n.Load() != 1 {
		t.Errorf("%d sends", n.Load())
	}
	w.sound(id)
}

// TestUnreachedLater: an attempt that waits for room outlives an outage, and that
// its latest send found nobody proves nothing of one in doubt.
func TestUnreachedLater(t *testing.T) {
	var n atomic.Int64
	w := newWorld(t, withSends(&n, func(n int64) error {
		switch n {
		case 1:
			return &sdk.Error{Code: sdk.ResourceExhausted, Op: "run job", Retryable: true, Reason: sdk.ReasonCapacity}
		case 2:
			return unreached()
		}
		return nil
	}))
	e := w.engine()
	r := w.wait(e, w.submit(e, request(spec("true"))), control.MilestoneFinished)
	w.expect(r, sdk.StateSucceeded, sdk.ReasonCompleted)
	if n.Load() != 3 {
		t.Errorf("%d sends", n.Load())
	}

	g := tokens(time.Hour)
	var m atomic.Int64
	v := newWorld(t, withSettings(fake.Settings{Guarantees: &g}), withSends(&m, func(n int64) error {
		if n == 2 {
			return unreached()
		}
		return nil
	}))
	v.cloud.Set(fake.Knobs{Visibility: fake.Duration(time.Hour)})
	v.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultLostReply, Times: 1})
	f := v.engine()
	id := v.submit(f, request(spec("true")))
	v.expect(v.wait(f, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
	v.sound(id)
}

// TestUnsentUntilTheStartTimeout: what can't be sent, though somebody is there, is
// tried again in view, until the start time-out or a cancel.
func TestUnsentUntilTheStartTimeout(t *testing.T) {
	unsent := func(int64) error {
		return &sdk.Error{Code: sdk.Aborted, Op: "run job", Retryable: true, Err: errors.New("HTTP 503")}
	}
	var n atomic.Int64
	w := newWorld(t, withSends(&n, unsent))
	e := w.engine()
	s := spec("true")
	s.StartTimeout = time.Hour
	id := w.submit(e, request(s))
	r := w.row(id, "the wait is shown", func(r ledger.Run) bool { return r.Reason != "" })
	w.expect(r, sdk.StatePending, sdk.ReasonInfrastructure)
	w.clock.step(time.Hour + time.Second)
	r = w.wait(e, id, control.MilestoneFinished)
	w.expect(r, sdk.StateFailed, sdk.ReasonStartTimeout)
	if want := "it could not be sent within the start time-out: run job: HTTP 503"; r.Message != want {
		t.Errorf("got %q, want %q", r.Message, want)
	}
	id = w.submit(e, request(spec("true")))
	w.row(id, "the wait is shown", func(r ledger.Run) bool { return r.Reason != "" })
	if err := e.Cancel(w.ctx(), control.CancelRequest{Run: id, Actor: "tester@test"}); err != nil {
		t.Fatal(err)
	}
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateCancelled, sdk.ReasonCancelled)
}

// TestSilenceInDoubtIsShown: a backend that answers neither launch nor look is on
// record soon, with the start time-out once that has passed; its first answer ends
// the run.
func TestSilenceInDoubtIsShown(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	w.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultReset, Times: 1})
	w.cloud.Inject(fake.Fault{Op: fake.OpFindJobs, Kind: fake.FaultError, Status: 503, Times: 1 << 30})
	s := spec("true")
	s.StartTimeout = time.Minute
	id := w.submit(e, request(s))
	w.until("it is looked for", func() bool { return w.cloud.Calls(fake.OpFindJobs) > 0 })
	w.clock.step(control.SilenceLimit)
	r := w.row(id, "the silence is shown", control.Silent)
	w.expect(r, sdk.StatePending, sdk.ReasonUnknown)
	if !strings.Contains(r.Message, "503") || strings.Contains(r.Message, "start time-out") {
		t.Errorf("got %q", r.Message)
	}
	w.clock.step(time.Minute)
	r = w.row(id, "the start time-out is shown", func(r ledger.Run) bool { return strings.Contains(r.Message, "the start time-out has passed") })
	w.expect(r, sdk.StatePending, sdk.ReasonUnknown)
	before := r.Events
	looks := w.cloud.Calls(fake.OpFindJobs)
	w.until("more looks", func() bool { return w.cloud.Calls(fake.OpFindJobs) > looks+1 })
	if r = w.row(id, "the row", func(ledger.Run) bool { return true }); r.Events != before {
		t.Errorf("%d events of one silence", r.Events-before)
	}
	w.cloud.Set(fake.Knobs{})
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateFailed, sdk.ReasonStartTimeout)
	w.sound(id)
}

// TestSilenceEnds: the first answer takes back what was shown, and the run goes
// on; one that was to be cancelled meanwhile ends.
func TestSilenceEnds(t *testing.T) {
	for cancelled, state := range map[bool]sdk.JobState{false: sdk.StateSucceeded, true: sdk.StateCancelled} {
		w := newWorld(t)
		e := w.engine()
		w.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultReset, Times: 1})
		w.cloud.Inject(fake.Fault{Op: fake.OpFindJobs, Kind: fake.FaultError, Status: 503, Times: 1 << 30})
		id := w.submit(e, request(spec("true")))
		w.until("it is looked for", func() bool { return w.cloud.Calls(fake.OpFindJobs) > 0 })
		w.clock.step(control.SilenceLimit)
		w.row(id, "the silence is shown", control.Silent)
		if cancelled {
			if err := e.Cancel(w.ctx(), control.CancelRequest{Run: id, Actor: "tester@test"}); err != nil {
				t.Fatal(err)
			}
		}
		w.cloud.Set(fake.Knobs{})
		r := w.wait(e, id, control.MilestoneFinished)
		if r.State != state || strings.Contains(r.Message, "no answer") {
			t.Errorf("%s, %q; want %s", r.State, r.Message, state)
		}
		w.sound(id)
	}
}

// TestSilenceWhileRunning: a running job stays running while its backend says
// nothing, with the reason beside it, and has none after the next answer.
func TestSilenceWhileRunning(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	id := w.submit(e, request(spec("hang")))
	w.row(id, "the job runs", func(r ledger.Run) bool { return r.State == sdk.StateRunning })
	w.cloud.Inject(fake.Fault{Op: fake.OpJobStatuses, Kind: fake.FaultError, Status: 503, Times: 1 << 30})
	w.clock.step(control.SilenceLimit)
	w.expect(w.row(id, "the silence is shown", control.Silent), sdk.StateRunning, sdk.ReasonUnknown)
	w.cloud.Set(fake.Knobs{})
	w.expect(w.row(id, "the answer is shown", func(r ledger.Run) bool { return !control.Silent(r) }), sdk.StateRunning, "")
	if err := e.Cancel(w.ctx(), control.CancelRequest{Run: id, Actor: "tester@test"}); err != nil {
		t.Fatal(err)
	}
	w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateCancelled, sdk.ReasonCancelled)
}

// TestTakenUpAfterASecondSend: what a second send may have made counts as listed
// from that send on, also for a holder that has not made it.
func TestTakenUpAfterASecondSend(t *testing.T) {
	const within = 500 * time.Millisecond
	g := fake.BestGuarantees()
	g.Submit = sdk.SubmitGuarantee{By: sdk.SubmitBySearch}
	g.Found = sdk.FoundGuarantee{Within: within, Consistent: true}
	w := newWorld(t, withSettings(fake.Settings{Guarantees: &g}))
	w.cloud.Set(fake.Knobs{Visibility: fake.Duration(within)})
	w.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultReset, Nth: 1})
	w.cloud.Inject(fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultLostReply, Nth: 2})
	first := w.engine()
	id := w.submit(first, request(spec("true")))
	w.until("it is sent again", func() bool { return w.cloud.Calls(fake.OpRunJob) == 2 })
	if err := first.HandOver(w.ctx(), id); err != nil {
		t.Fatal(err)
	}
	second := w.engine()
	if err := second.Take(w.ctx(), id); err != nil {
		t.Fatal(err)
	}
	w.expect(w.wait(second, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
	if n := w.cloud.Calls(fake.OpRunJob); n != 2 {
		t.Errorf("sent %d times", n)
	}
	w.sound(id)
}

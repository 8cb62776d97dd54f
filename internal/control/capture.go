package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/windlass-run/windlass/internal/failpoint"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// capture copies one attempt's output from the backend into the log store, from
// the first byte to the end, over broken connections and changes of holder.
type capture struct {
	r   *runner
	h   sdk.JobHandle
	key joblog.Key
	// own: the attempt began here, and so nobody else has captured any of it.
	own bool

	cancel context.CancelFunc
	ended  chan struct{} // closed once the job is over
	once   sync.Once
	done   chan struct{} // closed with the capture

	mu sync.Mutex
	// watch is what the job's end starts, nil once it has.
	watch func()

	// unsaved is done once the user knows that the disk doesn't take output.
	unsaved sync.Once

	// verdict and stopped are set before done is closed.
	verdict sdk.Verdict
	stopped bool // it was told to stop, and the log has no end yet
	err     error
}

const (
	// logRetryMost bounds the waits between attempts to read a log.
	logRetryMost = 15 * time.Second
	// logGiveUp is how long after a job's end a log that can't be read is
	// still tried, where the driver declares no longer settle time.
	logGiveUp = 20 * time.Second
)

func (r *runner) startCapture(ctx context.Context, h sdk.JobHandle) {
	if r.capture != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &capture{r: r, h: h, key: joblog.Key{Run: r.id, Attempt: r.attempt().Number}, own: r.sent == r.attempt().Number, cancel: cancel,
		ended: make(chan struct{}), done: make(chan struct{})}
	r.capture = c
	go func() {
		defer close(c.done)
		c.run(ctx)
	}()
}

// jobEnded tells the capture that no more output is made.
func (c *capture) jobEnded(sdk.JobState) {
	c.once.Do(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		close(c.ended)
		if c.watch != nil {
			go c.watch()
			c.watch = nil
		}
	})
}

// atEnd starts watch in the background once the job is over. Until then undo takes it
// back; it reports whether it did.
func (c *capture) atEnd(watch func()) (undo func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.ended:
		go watch()
		return func() bool { return false }
	default:
	}
	c.watch = watch
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		waits := c.watch != nil
		c.watch = nil
		return waits
	}
}

// stop ends the capture without an end of the log, and waits for it.
func (c *capture) stop() {
	c.cancel()
	<-c.done
}

// soon waits a moment for the log's end.
func (c *capture) soon(ctx context.Context, d time.Duration) (sdk.Verdict, bool) {
	timer, free := c.r.e.after(ctx, d)
	defer free()
	select {
	case <-c.done:
		return c.verdict, !c.stopped && c.err == nil
	case <-timer:
	case <-ctx.Done():
	}
	return "", false
}

// patience is how long after a job's end a log that doesn't end is still read.
func (c *capture) patience() time.Duration {
	return max(c.r.back.Info().Guarantees.Logs.Settle.Max, logGiveUp)
}

// run opens the store's writer, copies, and opens it again after a break: the
// writer drops what lies behind the cursor that the driver resumes from.
func (c *capture) run(ctx context.Context) {
	if !c.own {
		if v, ended, err := c.r.e.o.Logs.Verdict(c.key); err == nil && ended {
			c.verdict = v // an earlier holder came to the end
			return
		}
	}
	logger, ok := sdk.Of(c.r.back.Provider, sdk.Logger())
	if !ok {
		c.finish(sdk.VerdictUnavailable)
		return
	}
	settle := c.r.back.Info().Guarantees.Logs.Settle
	giveUp := c.patience()
	wait, warned := 200*time.Millisecond, false
	var failingSince time.Time
	for {
		var got bool
		verdict, err := shielded("read log", func() (v sdk.Verdict, err error) {
			got, v, err = c.copy(ctx, logger, settle)
			return v, err
		})
		switch {
		case err == nil:
			c.verdict = verdict
			return
		case ctx.Err() != nil || taken(err):
			c.stopped = true
			return
		}
		now := c.r.e.clock.Now()
		if got || failingSince.IsZero() {
			failingSince, wait = now, 200*time.Millisecond
		}
		if !warned && now.Sub(failingSince) > 2*time.Second {
			warned = true
			c.r.e.warn(c.r.id, "run %s: its output can't be read at the moment, trying again: %v", c.r.id.Short(), err)
		}
		select {
		case <-c.ended:
			if now.Sub(failingSince) > giveUp || sdk.CodeOf(err) == sdk.NotFound && now.Sub(failingSince) > settle.Quiet {
				c.giveUp(err)
				return
			}
		default:
		}
		if c.r.e.clock.Sleep(ctx, wait) != nil {
			c.stopped = true
			return
		}
		wait = min(wait*2, logRetryMost)
	}
}

// giveUp ends a log that can't be read to its end.
func (c *capture) giveUp(cause error) {
	verdict := sdk.VerdictUnavailable
	w, err := c.r.e.o.Logs.Writer(c.key, uint64(c.r.fence))
	if err == nil {
		if w.Cursor() != nil {
			verdict = sdk.VerdictGap
			err = w.Append(sdk.LogItem{Gap: &sdk.LogGap{Bytes: -1, Why: c.r.e.o.Redact("the rest could not be read: " + cause.Error())}})
		}
		err = errors.Join(err, w.Close())
	}
	c.r.e.warn(c.r.id, "run %s: its output could not be read to the end: %v", c.r.id.Short(), errors.Join(cause, err))
	c.finish(verdict)
}

func (c *capture) finish(v sdk.Verdict) {
	failpoint.Hit("logs.finish.before")
	w, err := c.r.e.o.Logs.Writer(c.key, uint64(c.r.fence))
	if err == nil {
		c.verdict, err = w.Finish(v)
		err = errors.Join(err, w.Close())
	}
	failpoint.Hit("logs.finish.after")
	if err != nil {
		c.err = fmt.Errorf("finish log: %w", err)
	}
}

// copy reads the log once, from the writer's cursor to its end or a break, and
// finishes it at its end. got says that something came.
func (c *capture) copy(ctx context.Context, logger sdk.JobLogger, settle sdk.LogSettle) (got bool, verdict sdk.Verdict, err error) {
	w, err := c.r.e.o.Logs.Writer(c.key, uint64(c.r.fence))
	if err != nil {
		return false, "", err
	}
	k := newKeepUp(ctx, c, w)
	defer func() {
		k.stop()
		if verdict != "" {
			failpoint.Hit("logs.finish.before")
			verdict, err = w.Finish(verdict)
			failpoint.Hit("logs.finish.after")
			if st := w.Stats(); st.Disk != nil {
				c.notSaved(st.Disk)
			}
		} else if syncErr := w.Sync(); syncErr != nil {
			c.notSaved(syncErr)
		}
		err = errors.Join(err, w.Close())
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := c.quietAfterEnd(ctx, cancel, k, settle)
	defer quiet.stop()
	failpoint.Hit("call.logs.before")
	req := sdk.JobLogsRequest{Handle: c.h, Cursor: w.Cursor(), Follow: true}
	for it, err := range logger.JobLogs(ctx, req) {
		if err != nil {
			if quiet.settled() {
				failpoint.Hit("call.logs.after")
				return got, quiet.verdict(k), nil
			}
			return got, "", err
		}
		got = got || it != (sdk.LogItem{}) // a look that found nothing brought nothing
		if err := k.append(it); err != nil {
			return got, "", err
		}
		if it.End != nil {
			failpoint.Hit("call.logs.after")
			return got, it.End.Verdict, nil
		}
	}
	if quiet.settled() {
		failpoint.Hit("call.logs.after")
		return got, quiet.verdict(k), nil
	}
	return got, "", sdk.Errorf(sdk.Unavailable, "read log", "the stream ended without an end")
}

// quietWatch ends a log whose end can't be proven, once the job is over and the
// log has been silent for the declared window.
type quietWatch struct {
	over chan struct{}
	free context.CancelFunc
	// undo takes the watch back while it hasn't begun; gone is closed with one that has.
	undo func() bool
	gone chan struct{}
	// unread: no look came after the job's end. It is set before over is closed.
	unread bool
}

// verdict is that of a log which has settled. One that nobody looked at is not
// known to be quiet.
func (q *quietWatch) verdict(k *keepUp) sdk.Verdict {
	if !q.unread {
		return sdk.VerdictQuiet
	}
	if err := k.append(sdk.LogItem{Gap: &sdk.LogGap{Bytes: -1, Why: "the log was not looked at again after the job's end"}}); err != nil {
		k.c.r.e.log.Warn("gap not recorded", "run", k.c.r.id, "err", err)
	}
	return sdk.VerdictGap
}

// unreadMost is by how much a drain outlasts its longest time while the driver
// hasn't looked at the log at all: its looks wait for their turn.
const unreadMost = 10

func (q *quietWatch) settled() bool {
	select {
	case <-q.over:
		return true
	default:
		return false
	}
}

func (q *quietWatch) stop() {
	q.free()
	if !q.undo() {
		<-q.gone
	}
}

func (c *capture) quietAfterEnd(ctx context.Context, cancel context.CancelFunc, k *keepUp, settle sdk.LogSettle) *quietWatch {
	wctx, free := context.WithCancel(ctx)
	q := &quietWatch{over: make(chan struct{}), free: free, gone: make(chan struct{})}
	logs := c.r.back.Info().Guarantees.Logs
	clock := c.r.e.clock
	if logs.EndProven {
		q.undo = func() bool { return true }
		return q
	}
	q.undo = c.atEnd(func() {
		defer close(q.gone)
		start := clock.Now()
		for {
			now := clock.Now()
			idle, most := now.Sub(k.last(start)), settle.Max
			if logs.Looks {
				if idle = k.silence(start); idle < 0 {
					most *= unreadMost
				}
			}
			if left := most - now.Sub(start); idle >= settle.Quiet || left <= 0 {
				q.unread = logs.Looks && idle < 0
				close(q.over)
				cancel()
				return
			} else if !c.pause(wctx, k, logs.Looks, settle.Quiet-idle, left) {
				return
			}
		}
	})
	return q
}

// pause waits until the log may have settled: for a while, or until the next
// look where looks are told of. It reports false when ctx has ended.
func (c *capture) pause(ctx context.Context, k *keepUp, looks bool, quiet, left time.Duration) bool {
	if !looks {
		return c.r.e.clock.Sleep(ctx, min(quiet, left)) == nil
	}
	timer, free := c.r.e.after(ctx, left)
	defer free()
	select {
	case <-timer:
	case <-k.looked:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// finishLog ends the log of an attempt that has no capture.
func (r *runner) finishLog(v sdk.Verdict) error {
	w, err := r.e.o.Logs.Writer(joblog.Key{Run: r.id, Attempt: r.attempt().Number}, uint64(r.fence))
	if err == nil {
		_, err = w.Finish(v)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		// A log's failure changes no state.
		r.e.warn(r.id, "run %s: its log can't be ended: %v", r.id.Short(), err)
	}
	return nil
}

// drain waits for the log's end and records it.
func (r *runner) drain(ctx context.Context) error {
	if r.attempt().Handle == nil {
		if err := r.finishLog(sdk.VerdictComplete); err != nil {
			return err
		}
		return r.drained(ctx, sdk.VerdictComplete)
	}
	if r.capture == nil {
		h, err := r.decodeHandle()
		if err != nil {
			return err
		}
		r.startCapture(ctx, h)
	}
	r.capture.jobEnded(r.attempt().State)
	var tooLate <-chan struct{}
	if r.attempt().State == sdk.StateLost {
		// The job may run on, and its log with it.
		timer, free := r.e.after(ctx, r.capture.patience())
		defer free()
		tooLate = timer
	}
	for {
		select {
		case <-tooLate:
			r.capture.stop()
			if r.capture.stopped {
				return r.drained(ctx, r.cutLog("the rest was not read: the run was given up as lost"))
			}
			tooLate = nil
		case <-r.capture.done:
			if r.capture.stopped {
				return errStopped
			}
			if r.capture.err != nil {
				r.e.warn(r.id, "run %s: its log can't be ended: %v", r.id.Short(), r.capture.err)
				return r.drained(ctx, sdk.VerdictGap)
			}
			return r.drained(ctx, r.capture.verdict)
		case <-r.wake:
			if err := r.reload(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return errStopped
		}
	}
}

func (r *runner) drained(ctx context.Context, v sdk.Verdict) error {
	return r.record(ctx, r.event(ledger.KindDrained, ledger.Change{Phase: ledger.PhaseDrained, Verdict: v}))
}

// taken reports whether err is the log's own word that another holder has the run
// now. A provider's conflict has the same code, and passes.
func taken(err error) bool {
	var e *sdk.Error
	return errors.As(err, &e) && e.ID == joblog.ErrIDFenced
}

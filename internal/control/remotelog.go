package control

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// RemoteLogs gives the output of a run's latest attempt, found by labels alone.
// Following ends with the job's output: where the driver can't prove its end,
// once the job is over and the log has been silent for the declared window.
func (e *Engine) RemoteLogs(ctx context.Context, provider string, run sdk.ID, follow bool) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		back, found, err := e.findRemote(ctx, provider, run)
		if err != nil {
			yield(sdk.LogItem{}, err)
			return
		}
		logger, ok := sdk.Of(back.Provider, sdk.Logger())
		if !ok {
			yield(sdk.LogItem{}, back.absent(sdk.Logger().String()))
			return
		}
		f := &remoteFollow{e: e, back: back, h: found.Handle, last: e.clock.Now()}
		if follow && !back.Info().Guarantees.Logs.EndProven {
			var stop func()
			ctx, stop = f.watch(ctx)
			defer stop()
		}
		for it, err := range logger.JobLogs(ctx, sdk.JobLogsRequest{Handle: found.Handle, Follow: follow}) {
			switch {
			case err != nil && errors.Is(context.Cause(ctx), errSettled), err == nil && f.settled(it):
				yield(sdk.LogItem{End: &sdk.LogEnd{Verdict: sdk.VerdictQuiet}}, nil)
				return
			case err == nil && it == (sdk.LogItem{}):
				continue // a look that found nothing is no one's output
			}
			if !yield(it, err) || err != nil {
				return
			}
		}
	}
}

// errSettled ends the reading of a log that has settled.
var errSettled = errors.New("the log has settled")

// remoteFollow tells when a log whose end can't be proven has settled.
type remoteFollow struct {
	e    *Engine
	back Backend
	h    sdk.JobHandle

	mu sync.Mutex
	// last is when the last item came; over when the job was seen to have
	// ended, zero before that.
	last, over time.Time
}

// watch looks at the job until it has ended, and ends the reading where the
// driver doesn't tell of its looks. Stop frees it.
func (f *remoteFollow) watch(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			st, err := f.e.statusOf(ctx, f.back, f.h)
			if ctx.Err() != nil {
				return
			}
			if sdk.CodeOf(err) == sdk.NotFound || err == nil && st.State.Terminal() {
				break
			}
			if f.e.clock.Sleep(ctx, max(f.back.pollInterval(), sdk.RetryAfter(err))) != nil {
				return
			}
		}
		f.mu.Lock()
		f.over = f.e.clock.Now()
		f.mu.Unlock()
		logs := f.back.Info().Guarantees.Logs
		wait := logs.Settle.Max
		if logs.Looks {
			wait *= unreadMost // a look ends it sooner
		}
		if f.e.clock.Sleep(ctx, wait) == nil {
			cancel(errSettled)
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-gone
	}
}

// settled notes an item, and reports whether it is the look that ends the log.
func (f *remoteFollow) settled(it sdk.LogItem) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.e.clock.Now()
	if it != (sdk.LogItem{}) {
		f.last = now
		return false
	}
	if f.over.IsZero() {
		return false
	}
	since := f.last
	if f.over.After(since) {
		since = f.over
	}
	return now.Sub(since) >= f.back.Info().Guarantees.Logs.Settle.Quiet
}

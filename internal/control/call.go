package control

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/failpoint"
	"github.com/windlass-run/windlass/sdk"
)

func (b Backend) callTimeout() time.Duration {
	if b.CallTimeout > 0 {
		return b.CallTimeout
	}
	return DefaultCallTimeout
}

func (b Backend) pollInterval() time.Duration {
	if b.PollInterval > 0 {
		return b.PollInterval
	}
	return DefaultPollInterval
}

func (b Backend) maxInFlight() int {
	if b.MaxInFlight > 0 {
		return b.MaxInFlight
	}
	return b.Info().MaxInFlight
}

// call makes one call to a backend under a time-out of its own, and returns at
// once when ctx ends, even if the provider doesn't. A time-out of ours is
// DeadlineExceeded and retryable: it says nothing of the job.
func call[T any](ctx context.Context, limit time.Duration, op string, fn func(context.Context) (T, error)) (T, error) {
	failpoint.Hit("call." + op + ".before")
	ctx, cancel := context.WithTimeoutCause(ctx, limit, lateError{limit})
	type reply struct {
		v   T
		err error
	}
	ch := make(chan reply, 1)
	go func() {
		defer cancel()
		v, err := shielded(op, func() (T, error) { return fn(ctx) })
		ch <- reply{v, err}
	}()
	select {
	case rep := <-ch:
		failpoint.Hit("call." + op + ".after")
		return rep.v, rep.err
	case <-ctx.Done():
		// The reply may have come in the same instant: it ends ctx, too.
		select {
		case rep := <-ch:
			failpoint.Hit("call." + op + ".after")
			return rep.v, rep.err
		default:
		}
		cancel()
		var zero T
		return zero, &sdk.Error{Code: sdk.CodeOf(ctx.Err()), Op: op, Retryable: true, Err: context.Cause(ctx)}
	}
}

// lateError is the cause of a time-out of ours.
type lateError struct{ limit time.Duration }

func (e lateError) Error() string { return "no answer within " + e.limit.String() }

// Unwrap makes it the context's own error.
func (lateError) Unwrap() error { return context.DeadlineExceeded }

// shielded runs a provider's code. A panic there is that call's error, which
// proves nothing of the job: the process drives others' runs too, and what the
// runtime writes of a crash, with the panic's text in it, passes no redactor.
func shielded[T any](op string, fn func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &sdk.Error{Code: sdk.Internal, Op: op, Remedy: "report it to the author of the driver", Err: fmt.Errorf("the driver panicked at %s: %v", panicked(), p)}
		}
	}()
	return fn()
}

// panicked tells where the panic began that is being recovered.
func panicked() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for begun, more := false, true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.")
		if begun && !inRuntime {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		begun = begun || f.Function == "runtime.gopanic"
	}
	return "an unknown place"
}

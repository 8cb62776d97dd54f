package control

import (
	"context"
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
	ctx, cancel := context.WithTimeout(ctx, limit)
	type reply struct {
		v   T
		err error
	}
	ch := make(chan reply, 1)
	go func() {
		defer cancel()
		v, err := fn(ctx)
		ch <- reply{v, err}
	}()
	select {
	case rep := <-ch:
		failpoint.Hit("call." + op + ".after")
		return rep.v, rep.err
	case <-ctx.Done():
		// The reply may have come in the same instant.
		select {
		case rep := <-ch:
			return rep.v, rep.err
		default:
		}
		cancel()
		var zero T
		return zero, &sdk.Error{Code: sdk.CodeOf(ctx.Err()), Op: op, Retryable: true, Err: context.Cause(ctx)}
	}
}

package sdk

import (
	"context"
	"time"
)

// Clock is where time comes from, so that tests and simulations can bring
// their own. Implementations are safe for concurrent use.
type Clock interface {
	// Now returns the wall time; it may step in either direction.
	Now() time.Time
	// Sleep returns nil after d, or ctx's cause as soon as ctx ends.
	Sleep(ctx context.Context, d time.Duration) error
}

// SystemClock returns the machine's own clock.
func SystemClock() Clock { return systemClock{} }

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

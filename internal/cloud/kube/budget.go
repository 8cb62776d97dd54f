package kube

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/windlass-run/windlass/sdk"
)

// Budgets are the calls a second that a process makes to each API server. It is
// safe for concurrent use; the zero value is ready.
type Budgets struct {
	mu sync.Mutex
	m  map[string]*Budget
}

// Budget is what one API server gets.
type Budget struct{ limit *rate.Limiter }

// For returns the budget of a server, which all that ask share. The last to ask
// sets its size.
func (b *Budgets) For(server string, perSecond int) *Budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.m == nil {
		b.m = map[string]*Budget{}
	}
	got, ok := b.m[server]
	if !ok {
		got = &Budget{limit: rate.NewLimiter(0, perSecond)}
		b.m[server] = got
	}
	got.limit.SetLimit(rate.Limit(perSecond))
	got.limit.SetBurst(2 * perSecond)
	return got
}

// Wait waits for one call's turn, in real time. It returns the context's error
// once that has ended.
func (b *Budget) Wait(ctx context.Context) error {
	r := b.limit.Reserve()
	d := r.Delay()
	if d == 0 {
		return ctx.Err()
	}
	if err := sdk.SystemClock().Sleep(ctx, d); err != nil {
		r.Cancel()
		return err
	}
	return nil
}

// Throttled takes note of a refusal: what was saved up for a burst isn't there.
func (b *Budget) Throttled() {
	if n := int(b.limit.Tokens()); n > 0 {
		b.limit.ReserveN(time.Now(), n)
	}
}

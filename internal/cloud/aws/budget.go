package aws

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/windlass-run/windlass/sdk"
)

// Budgets are the calls that may be made in a second, for each account, region
// and family of calls: AWS counts them so, whoever makes them. One value is
// shared by all sessions that it should hold together. It is safe for
// concurrent use; the zero value is ready.
type Budgets struct {
	mu sync.Mutex
	m  map[budgetKey]*Budget
}

type budgetKey struct{ account, region, endpoint, family string }

// Budget is the budget of one family of calls.
type Budget struct{ limit *rate.Limiter }

// For returns the budget of a family of calls where a session leads. The first
// to ask sets the size, and a later one may raise or lower it.
func (b *Budgets) For(x *Session, family string, perSecond float64, burst int) *Budget {
	key := budgetKey{x.Account, x.Region, x.Endpoint, family}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.m == nil {
		b.m = map[budgetKey]*Budget{}
	}
	got, ok := b.m[key]
	if !ok {
		got = &Budget{limit: rate.NewLimiter(rate.Limit(perSecond), burst)}
		b.m[key] = got
	}
	got.limit.SetLimit(rate.Limit(perSecond))
	got.limit.SetBurst(burst)
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
	// Not by Limiter.Wait: it refuses at once what the deadline might not
	// allow, with an error that is none of the context's.
	if err := sdk.SystemClock().Sleep(ctx, d); err != nil {
		r.Cancel()
		return err
	}
	return nil
}

// Throttled takes note of a refusal: others spend from the same budget, so what
// was saved up for a burst is not there.
func (b *Budget) Throttled() {
	if n := int(b.limit.Tokens()); n > 0 {
		b.limit.ReserveN(time.Now(), n)
	}
}

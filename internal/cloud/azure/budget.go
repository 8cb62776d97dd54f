package azure

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/windlass-run/windlass/sdk"
)

// Budgets are the calls that may be made, for each subscription, region and
// family of calls: Resource Manager counts so, whoever makes them. One value is
// shared by all sessions that it should hold together. It is safe for
// concurrent use; the zero value is ready.
// https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/request-limits-and-throttling
type Budgets struct {
	mu sync.Mutex
	m  map[budgetKey]*Budget
}

type budgetKey struct{ subscription, region, endpoint, family string }

// Budget is the budget of one family of calls.
type Budget struct{ limit *rate.Limiter }

// For returns the budget of a family of calls where a session leads. The last
// to ask sets its size.
func (b *Budgets) For(x *Session, region, family string, perMinute, burst int) *Budget {
	key := budgetKey{x.Subscription, region, x.Endpoint, family}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.m == nil {
		b.m = map[budgetKey]*Budget{}
	}
	got, ok := b.m[key]
	if !ok {
		got = &Budget{limit: rate.NewLimiter(0, burst)}
		b.m[key] = got
	}
	got.limit.SetLimit(rate.Limit(float64(perMinute) / 60))
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
	if err := sdk.SystemClock().Sleep(ctx, d); err != nil {
		r.Cancel()
		return err
	}
	return nil
}

// Throttled takes note of a refusal: others spend from the same quota, so what
// was saved up for a burst is not there.
func (b *Budget) Throttled() {
	if n := int(b.limit.Tokens()); n > 0 {
		b.limit.ReserveN(time.Now(), n)
	}
}

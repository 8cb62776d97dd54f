// Package budget keeps the calls of a process within what a cloud allows an
// account, whoever of its providers makes them.
package budget

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/windlass-run/windlass/sdk"
)

// Key is what a cloud counts calls by: an account (a project, subscription or
// token), a region or none, and a family of calls. Endpoint tells pocket clouds
// apart.
type Key struct{ Account, Region, Endpoint, Family string }

// Budgets are the budgets of all that should hold together. It is safe for
// concurrent use; the zero value is ready.
type Budgets struct {
	mu sync.Mutex
	m  map[Key]*Budget
}

// Budget is that of one key: a bucket that holds a burst of calls and refills at
// a rate. It is safe for concurrent use.
type Budget struct {
	limit *rate.Limiter
	// left is held from reading the bucket until what is too much is taken out:
	// replies come many at once, and each would take it.
	left sync.Mutex
}

// For returns the budget of a key, full when it is new. The last to ask sets its
// size.
func (b *Budgets) For(k Key, perSecond float64, burst int) *Budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.m == nil {
		b.m = map[Key]*Budget{}
	}
	got, ok := b.m[k]
	if !ok {
		got = &Budget{limit: rate.NewLimiter(rate.Limit(perSecond), burst)}
		b.m[k] = got
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
	// Not by Limiter.Wait: it refuses at once what the deadline might not allow,
	// with an error that is none of the context's.
	if err := sdk.SystemClock().Sleep(ctx, d); err != nil {
		r.Cancel()
		return err
	}
	return nil
}

// Throttled takes note of a refusal: others spend from the same quota, so what
// was saved up for a burst is not there.
func (b *Budget) Throttled() { b.Left(0) }

// Left takes note of how many calls the cloud itself says are left, where the
// bucket holds more.
func (b *Budget) Left(n int) {
	b.left.Lock()
	defer b.left.Unlock()
	if over := int(b.limit.Tokens()) - n; over > 0 {
		b.limit.ReserveN(time.Now(), over)
	}
}

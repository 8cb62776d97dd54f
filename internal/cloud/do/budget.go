package do

import (
	"cmp"
	"context"
	"crypto/sha256"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/windlass-run/windlass/sdk"
)

// A token has 250 calls a minute and 5,000 an hour. A part is left to others who
// use it.
// https://docs.digitalocean.com/reference/api/intro/
const (
	DefaultPerMinute = 225
	DefaultPerHour   = 4500
)

// Budgets are the calls that tokens may make: DigitalOcean counts them by token,
// whoever makes them. One value is shared by all sessions that it should hold
// together. It is safe for concurrent use; the zero value is ready.
type Budgets struct {
	mu sync.Mutex
	m  map[[sha256.Size]byte]*budget
}

// budget is that of one token. Each limit is a bucket whose size and refill add
// up to the limit in any window of its length.
type budget struct{ minute, hour *rate.Limiter }

// of returns a token's budget. The last to ask sets its size.
func (b *Budgets) of(token, endpoint string, perMinute, perHour int) *budget {
	if b == nil {
		b = &Budgets{}
	}
	key := sha256.Sum256([]byte(endpoint + "\n" + token))
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.m == nil {
		b.m = map[[sha256.Size]byte]*budget{}
	}
	perMinute, perHour = cmp.Or(perMinute, DefaultPerMinute), cmp.Or(perHour, DefaultPerHour)
	got, ok := b.m[key]
	if !ok {
		got = &budget{limiter(perMinute, time.Minute), limiter(perHour, time.Hour)}
		b.m[key] = got
		return got
	}
	resize(got.minute, perMinute, time.Minute)
	resize(got.hour, perHour, time.Hour)
	return got
}

func limiter(limit int, window time.Duration) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(Rate(limit, window)), Burst(limit))
}

func resize(l *rate.Limiter, limit int, window time.Duration) {
	l.SetLimit(rate.Limit(Rate(limit, window)))
	l.SetBurst(Burst(limit))
}

// Burst is how many calls of a limit may come at once; the rest is spread over
// the window, so that a spent hour slows calls down and doesn't stop them.
func Burst(limit int) int { return max(limit/5, 1) }

// Rate is how many calls a second a limit refills.
func Rate(limit int, window time.Duration) float64 {
	return float64(max(limit-Burst(limit), 1)) / window.Seconds()
}

// wait waits for one call's turn, in real time. It returns the context's error
// once that has ended.
func (b *budget) wait(ctx context.Context) error {
	for _, l := range []*rate.Limiter{b.hour, b.minute} {
		// Not by Limiter.Wait: it refuses at once what the deadline might not
		// allow, with an error that is none of the context's.
		r := l.Reserve()
		if d := r.Delay(); d > 0 {
			if err := sdk.SystemClock().Sleep(ctx, d); err != nil {
				r.Cancel()
				return err
			}
		}
	}
	return ctx.Err()
}

// heard takes note of what a reply says is left of the hour, and of a refusal:
// others spend from the same token.
func (b *budget) heard(r *http.Response) {
	if r.StatusCode == http.StatusTooManyRequests {
		drain(b.minute, 0)
	}
	if left, err := strconv.Atoi(r.Header.Get("RateLimit-Remaining")); err == nil && left >= 0 {
		drain(b.hour, left)
	}
}

// drain takes what a bucket has beyond a number of calls.
func drain(l *rate.Limiter, left int) {
	if n := int(l.Tokens()) - left; n > 0 {
		l.ReserveN(time.Now(), n)
	}
}

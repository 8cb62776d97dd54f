package do

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/budget"
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
type Budgets struct{ all budget.Budgets }

// allowance is that of one token. Each limit is a bucket whose size and refill add
// up to the limit in any window of its length.
type allowance struct{ minute, hour *budget.Budget }

// of returns a token's allowance. The last to ask sets its size. No token is kept.
func (b *Budgets) of(token, endpoint string, perMinute, perHour int) *allowance {
	if b == nil {
		b = &Budgets{}
	}
	sum := sha256.Sum256([]byte(token))
	account := hex.EncodeToString(sum[:])
	part := func(family string, limit int, window time.Duration) *budget.Budget {
		return b.all.For(budget.Key{Account: account, Endpoint: endpoint, Family: family}, Rate(limit, window), Burst(limit))
	}
	return &allowance{minute: part("minute", cmp.Or(perMinute, DefaultPerMinute), time.Minute), hour: part("hour", cmp.Or(perHour, DefaultPerHour), time.Hour)}
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
func (a *allowance) wait(ctx context.Context) error {
	if err := a.hour.Wait(ctx); err != nil {
		return err
	}
	return a.minute.Wait(ctx)
}

// heard takes note of what a reply says is left of the hour, and of a refusal:
// others spend from the same token.
func (a *allowance) heard(r *http.Response) {
	if r.StatusCode == http.StatusTooManyRequests {
		a.minute.Throttled()
	}
	if left, err := strconv.Atoi(r.Header.Get("RateLimit-Remaining")); err == nil && left >= 0 {
		a.hour.Left(left)
	}
}

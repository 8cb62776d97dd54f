package control

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// queue orders the runs of one provider within this process, first in, first
// out; the ledger's admission rule orders processes.
type queue struct {
	mu    sync.Mutex
	line  []*runner
	limit *rate.Limiter
}

func (e *Engine) queue(back Backend) *queue {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := e.queues[back.Name]
	if q == nil {
		limit := rate.Inf
		if back.SubmitRate > 0 {
			limit = rate.Limit(back.SubmitRate)
		}
		q = &queue{limit: rate.NewLimiter(limit, 1)}
		e.queues[back.Name] = q
	}
	return q
}

// enter puts r in line, by age of its run, once.
func (q *queue) enter(r *runner) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := len(q.line)
	for i, x := range q.line {
		if x == r {
			return
		}
		if at == len(q.line) && r.id.String() < x.id.String() {
			at = i
		}
	}
	q.line = append(q.line[:at], append([]*runner{r}, q.line[at:]...)...)
}

func (q *queue) leave(r *runner) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, x := range q.line {
		if x == r {
			q.line = append(q.line[:i], q.line[i+1:]...)
			break
		}
	}
	if len(q.line) > 0 {
		q.line[0].poke()
	}
}

// forward puts a run at the head of the line, if it is there: runs may have been
// recorded in another order than that of their IDs, and the ledger's counts.
func (q *queue) forward(run sdk.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, x := range q.line {
		if x.id == run {
			copy(q.line[1:], q.line[:i])
			q.line[0] = x
			x.poke()
			return
		}
	}
}

func (q *queue) first(r *runner) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.line) == 0 || q.line[0] == r
}

// admitted writes the first send of an attempt once there is a place for it.
// false without an error means that the run's row has news to look at.
func (r *runner) admitted(ctx context.Context, first ledger.NewEvent) (bool, error) {
	q := r.e.queue(r.back)
	most := r.back.maxInFlight()
	if most <= 0 {
		if err := r.submitTurn(ctx, q); err != nil {
			return false, err
		}
		return true, r.record(ctx, first)
	}
	q.enter(r)
	defer q.leave(r)
	words := waitWords(nil)
	for {
		if q.first(r) {
			if err := r.submitTurn(ctx, q); err != nil {
				return false, err
			}
			first.Change.SentAt = r.e.clock.Now().UTC()
			err := r.write(ctx, &ledger.Admission{Provider: r.back.Name, Max: most}, first)
			if err == nil {
				return true, nil
			}
			var e *sdk.Error
			if !errors.As(err, &e) || e.ID != "queue.full" {
				return false, err
			}
			var behind *ledger.BehindError
			if errors.As(err, &behind) {
				q.forward(behind.Ahead)
			}
			words = r.e.o.Redact(waitWords(err))
		}
		if r.run.Reason != sdk.ReasonQueued || r.run.Message != words {
			ev := r.event(ledger.KindWaiting, ledger.Change{State: sdk.StatePending, Reason: reason(sdk.ReasonQueued), Message: text(words)})
			if err := r.record(ctx, ev); err != nil {
				return false, err
			}
		}
		// A place may be taken by a run whose holder died. The first in line looks
		// for all: each look reads every open run.
		if q.first(r) {
			if _, err := r.e.Recover(ctx, r.back.Name); err != nil && ctx.Err() == nil {
				r.e.log.Warn("recovery failed", "err", err)
			}
		}
		if err := r.waitChange(ctx, time.Second); err != nil {
			return false, err
		}
		if !r.run.CancelAt.IsZero() {
			return false, nil
		}
	}
}

// waitWords says what a run waits for. They change only with the run that keeps its
// place in vain, so that a long wait leaves few events.
func waitWords(err error) string {
	const words = "waits for one of the provider's places"
	var full *ledger.FullError
	if !errors.As(err, &full) || full.Stuck.IsZero() {
		return words
	}
	return fmt.Sprintf("%s; run %s has ended, and keeps one until its clean-up succeeds, which is tried again: %s", words, full.Stuck.Short(), full.Why)
}

// submitTurn waits for the provider's submit rate.
func (r *runner) submitTurn(ctx context.Context, q *queue) error {
	if q.limit.Limit() == rate.Inf {
		return nil
	}
	if q.limit.Wait(ctx) != nil {
		return errStopped
	}
	return nil
}

// waitChange waits for any change of the ledger, at most d.
func (r *runner) waitChange(ctx context.Context, d time.Duration) error {
	timer, free := r.e.after(ctx, d)
	defer free()
	select {
	case <-r.e.o.Store.Changed():
	case <-timer:
	case <-r.wake:
		return r.reload(ctx)
	case <-ctx.Done():
		return errStopped
	}
	return nil
}

// jitter returns a random part of d.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(rand.Int64N(int64(d)))
}

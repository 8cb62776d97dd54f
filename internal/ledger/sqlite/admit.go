package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

const (
	takenPlaces = "SELECT count(*) FROM workload_runs WHERE finished_at IS NULL AND provider=? AND phase IN ('submitting','submitted','running','ended','drained') AND id<>?"
	// stuck finds the oldest of the runs that keep a place because what they made
	// can't be removed. It is asked for only where no place is free.
	stuck = "SELECT r.id,a.cleanup_err FROM workload_runs r JOIN run_attempts a ON a.run=r.id AND a.number=r.attempt" +
		" WHERE r.finished_at IS NULL AND r.provider=? AND r.phase='drained' AND r.id<>? AND a.cleanup_err<>'' ORDER BY r.num LIMIT 1"
	// olderWaiting finds the run that is first in the queue, in the order in
	// which they were recorded. A run whose holder's lease has lapsed keeps
	// nobody waiting. The index gives the oldest first, and ends at the run
	// itself: a long queue behind it costs nothing.
	olderWaiting = "SELECT id FROM workload_runs WHERE finished_at IS NULL AND provider=? AND phase='intent'" +
		" AND num<coalesce((SELECT num FROM workload_runs WHERE id=?), 9223372036854775807)" +
		" AND (not_before IS NULL OR not_before<=?) AND cancel_at IS NULL AND holder IN (SELECT id FROM holders WHERE expires>?) ORDER BY num LIMIT 1"
)

// admit lets a run through when it is its turn: inside the transaction that
// writes its first send, so that no two processes take one place.
func (t *tx) admit(op string, run sdk.ID, a *ledger.Admission) error {
	if a == nil {
		return nil
	}
	ctx := context.Background()
	var taken int64
	var older sdk.ID
	err := t.count(ctx, takenPlaces, &taken, a.Provider, run.String())
	full := &ledger.FullError{Provider: a.Provider, Taken: int(taken), Max: a.Max}
	switch {
	case err != nil:
	case taken >= int64(a.Max):
		_, err = t.w.c.one(ctx, stuck, []driver.Value{a.Provider, run.String()}, func(r row) (err error) {
			full.Stuck, err = r.id(0)
			full.Why = r.text(1)
			return err
		})
	default:
		now := t.w.s.opts.Clock.Now().UnixNano()
		_, err = t.w.c.one(ctx, olderWaiting, []driver.Value{a.Provider, run.String(), now, now}, func(r row) (err error) {
			older, err = r.id(0)
			return err
		})
	}
	if err != nil {
		return err
	}
	switch {
	case taken >= int64(a.Max):
		return &sdk.Error{Code: sdk.ResourceExhausted, Op: op, ID: "queue.full", Retryable: true, Err: full}
	case !older.IsZero():
		return &sdk.Error{Code: sdk.ResourceExhausted, Op: op, ID: "queue.full", Retryable: true,
			Err: &ledger.BehindError{Provider: a.Provider, Ahead: older}}
	}
	return nil
}

func (t *tx) count(ctx context.Context, text string, into *int64, args ...driver.Value) error {
	_, err := t.w.c.one(ctx, text, args, func(r row) error {
		*into = r.int(0)
		return nil
	})
	return err
}

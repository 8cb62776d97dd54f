package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

const (
	takenPlaces = "SELECT count(*) FROM workload_runs WHERE finished_at IS NULL AND provider=? AND phase IN ('submitting','submitted','running') AND id<>?"
	// olderWaiting counts the runs that are ahead in the queue. IDs sort by
	// time. A run whose holder's lease has lapsed keeps nobody waiting.
	olderWaiting = "SELECT count(*) FROM workload_runs WHERE finished_at IS NULL AND provider=? AND phase='intent' AND id<?" +
		" AND (not_before IS NULL OR not_before<=?) AND cancel_at IS NULL AND holder IN (SELECT id FROM holders WHERE expires>?)"
)

// admit lets a run through when it is its turn: inside the transaction that
// writes its first send, so that no two processes take one place.
func (t *tx) admit(op string, run sdk.ID, a *ledger.Admission) error {
	if a == nil {
		return nil
	}
	ctx := context.Background()
	var taken, older int64
	err := t.count(ctx, takenPlaces, &taken, a.Provider, run.String())
	if err == nil && taken < int64(a.Max) {
		now := t.w.s.opts.Clock.Now().UnixNano()
		err = t.count(ctx, olderWaiting, &older, a.Provider, run.String(), now, now)
	}
	if err != nil {
		return err
	}
	switch {
	case taken >= int64(a.Max):
		return &sdk.Error{Code: sdk.ResourceExhausted, Op: op, ID: "queue.full", Retryable: true,
			Err: fmt.Errorf("provider %s has %d of its %d places taken", a.Provider, taken, a.Max)}
	case older > 0:
		return &sdk.Error{Code: sdk.ResourceExhausted, Op: op, ID: "queue.full", Retryable: true,
			Err: fmt.Errorf("provider %s has %d older runs waiting", a.Provider, older)}
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

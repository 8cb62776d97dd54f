package control_test

import (
	"sync"
	"testing"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/sdk"
)

// TestQueueKeepsTheLedgersOrder: runs that are submitted at once may be recorded in
// another order than that of their IDs. Whoever is first in the ledger goes first,
// so that none waits for another that waits for it.
func TestQueueKeepsTheLedgersOrder(t *testing.T) {
	const runs = 200
	w := newWorld(t, withBackend(func(b *control.Backend) { b.MaxInFlight = 50 }))
	e := w.engine()
	ids := make([]sdk.ID, runs)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			s, err := e.Submit(w.ctx(), request(spec("true")))
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = s.Run.ID
		})
	}
	wg.Wait()
	for _, id := range ids {
		w.expect(w.wait(e, id, control.MilestoneFinished), sdk.StateSucceeded, sdk.ReasonCompleted)
	}
	w.sound(ids[0])
}

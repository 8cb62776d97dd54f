package control_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// hasty is a ledger in which a person's request comes right before a write of
// the run's holder.
type hasty struct {
	ledger.Store
	// before, when set, is made before the next write of what was observed.
	before atomic.Pointer[ledger.Write]
}

func (h *hasty) Write(ctx context.Context, w ledger.Write) error {
	if w.Events[0].Kind == ledger.KindObserved {
		if first := h.before.Swap(nil); first != nil {
			if err := h.Store.Write(ctx, *first); err != nil {
				return err
			}
		}
	}
	return h.Store.Write(ctx, w)
}

// TestAbandonBeforeAWrite: a run that is given up at the moment in which its
// holder writes what it has just seen is driven on to its end.
func TestAbandonBeforeAWrite(t *testing.T) {
	w := newWorld(t)
	var h *hasty
	w.count = func(s ledger.Store) ledger.Store {
		h = &hasty{Store: s}
		return h
	}
	e := w.engine()
	id := w.submit(e, request(spec("hang")))
	w.until("running", func() bool {
		r, err := w.store.Run(t.Context(), id)
		return err == nil && r.State == sdk.StateRunning
	})
	fail := func(status int) {
		for _, op := range []fake.Op{fake.OpJobStatus, fake.OpJobStatuses} {
			w.cloud.Inject(fake.Fault{Op: op, Kind: fake.FaultError, Status: status, Times: 100000})
		}
	}
	why := sdk.ReasonLost
	h.before.Store(&ledger.Write{Run: id, Events: []ledger.NewEvent{{Attempt: 1, Kind: ledger.KindAbandoned, Actor: "tester@test",
		Change: ledger.Change{V: ledger.ChangeVersion, Phase: ledger.PhaseEnded, State: sdk.StateLost, Reason: &why}}}})
	fail(403)
	w.expect(w.wait(e, id, control.MilestoneEnded), sdk.StateLost, sdk.ReasonLost)
	// Its log ends with its job, which nobody else would see.
	for _, job := range w.cloud.Jobs() {
		w.cloud.Vanish(job)
	}
	w.wait(e, id, control.MilestoneDrained)
}

package control_test

import (
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// TestParked: a parked run isn't sent by who submitted it, can be handed over at
// once, and is sent by who takes it.
func TestParked(t *testing.T) {
	w := newWorld(t)
	a, b := w.engine(), w.engine()
	req := request(spec("cat", ";", "exit", "3"))
	req.Spec.Stdin, req.Stdin, req.Park = sdk.StdinSpooled, strings.NewReader("input"), true
	id := w.submit(a, req)
	if r := w.wait(a, id, control.MilestoneMovable); r.Phase != ledger.PhaseIntent || r.State != sdk.StatePending {
		t.Errorf("a parked run is %s in phase %s", r.State, r.Phase)
	}
	if err := a.HandOver(w.ctx(), id); err != nil {
		t.Fatal(err)
	}
	if at := w.attempts(id); len(at) != 1 || at[0].Phase != ledger.PhaseIntent || !at[0].SentAt.IsZero() {
		t.Errorf("%+v", at)
	}
	if err := b.Take(w.ctx(), id); err != nil {
		t.Fatal(err)
	}
	w.expect(w.wait(b, id, control.MilestoneFinished), sdk.StateFailed, sdk.ReasonNonzeroExit)
	w.sound(id)
}

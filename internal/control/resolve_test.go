package control_test

import (
	"testing"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// TestResolve: a name that several runs have had means the open one, or the
// newest; more than one open run is never guessed between.
func TestResolve(t *testing.T) {
	w := newWorld(t)
	ids := sdk.NewIDSource(w.clock)
	add := func(name string, state sdk.JobState) sdk.ID {
		t.Helper()
		id := ids.NewID()
		events := []ledger.NewEvent{{Kind: ledger.KindRequested, Actor: "a", Change: ledger.Change{Requested: &ledger.Requested{Actor: "a", Action: "run", Provider: "fake", Name: name}}}}
		if state != "" {
			c := ledger.Change{State: state, Reason: new(sdk.ReasonCompleted), Finished: true}
			events = append(events, ledger.NewEvent{Kind: ledger.KindFinished, Actor: "a", Change: c})
		}
		if err := w.store.Write(w.ctx(), ledger.Write{Run: id, Events: events}); err != nil {
			t.Fatal(err)
		}
		return id
	}
	const over = sdk.StateSucceeded
	one := add("one", over)
	for range 6 {
		add("nightly", over)
	}
	nightly := add("nightly", over)
	busy := add("busy", "")
	for range 6 {
		add("busy", over)
	}
	add("torn", "")
	torn := add("torn", "")
	for ref, want := range map[string]sdk.ID{"one": one, one.String(): one, one.Short(): one, "nightly": nightly, "busy": busy, torn.String(): torn} {
		if r, err := control.ResolveRun(w.ctx(), w.store, ref); err != nil || r.ID != want {
			t.Errorf("%s is %s, want %s: %v", ref, r.ID, want, err)
		}
	}
	for ref, want := range map[string]sdk.Code{"torn": sdk.InvalidArgument, "none": sdk.NotFound, "": sdk.NotFound, "zzzzzzz": sdk.NotFound} {
		if r, err := control.ResolveRun(w.ctx(), w.store, ref); sdk.CodeOf(err) != want {
			t.Errorf("%q is %s, %v; want %v", ref, r.ID, err, want)
		}
	}
}

// Package ledgertest is the suite that every store of the ledger passes: the
// promises of ledger.Store, over restarts, crashes, races and other processes.
//
// It is imported by tests alone.
package ledgertest

import (
	"context"
	"testing"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// Opener opens the ledger at a place, which is a store's own notion: a
// directory, or an address.
type Opener func(ctx context.Context, where string) (ledger.Store, error)

// Harness is one fresh ledger.
type Harness struct {
	// Where the ledger lies; it doesn't exist yet.
	Where string
	Open  Opener
	// Tear returns the places of copies of the ledger as a crash of the machine
	// could have left it, at many moments. Nil when the store can't say.
	Tear func(t testing.TB, where string, each func(where string))
}

// Run runs the suite. Each test gets a fresh Harness. The test binary's
// TestMain calls Main, so that the suite can start further processes.
func Run(t *testing.T, fresh func(t testing.TB) Harness) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"Life", testLife},
		{"Stamp", testStamp},
		{"Requests", testRequests},
		{"Refusals", testRefusals},
		{"AnyText", testAnyText},
		{"Restart", testRestart},
		{"Crash", testCrash},
		{"Cancel", testCancel},
		{"F46TerminalIsFinal", testTerminal},
		{"F81Fences", testFences},
		{"F81ClaimAllRace", testClaimAllRace},
		{"ClaimAll", testClaimAll},
		{"Holders", testHolders},
		{"CountOpen", testCountOpen},
		{"Admission", testAdmission},
		{"AdmissionRace", testAdmissionRace},
		{"Filters", testFilters},
		{"Paging", testPaging},
		{"NestedReads", testNestedReads},
		{"ManyRows", testManyRows},
		{"Changed", testChanged},
		{"Concurrent", testConcurrent},
		{"Processes", testProcesses},
		{"CreateRace", testCreateRace},
		{"Killed", testKilled},
		{"Torn", testTorn},
		{"Heads", testHeads},
		{"Prune", testPrune},
		{"Export", testExport},
		{"AfterClose", testAfterClose},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, fresh(t))
		})
	}
}

func (h Harness) open(t testing.TB) ledger.Store {
	t.Helper()
	s, err := h.Open(t.Context(), h.Where)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func mustWrite(t testing.TB, s ledger.Store, writes ...ledger.Write) {
	t.Helper()
	for _, w := range writes {
		if err := s.Write(context.Background(), w); err != nil {
			t.Fatalf("write %s: %v", w.Events[0].Kind, err)
		}
	}
}

func mustRun(t testing.TB, s ledger.Store, id sdk.ID) ledger.Run {
	t.Helper()
	r, err := s.Run(context.Background(), id)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return r
}

func wantCode(t testing.TB, err error, code sdk.Code, what string) {
	t.Helper()
	if got := sdk.CodeOf(err); got != code {
		t.Fatalf("%s: got %v (%v), want %v", what, got, err, code)
	}
}

// sound verifies the ledger against its own head and returns the report.
func sound(t testing.TB, s ledger.Store) ledger.Report {
	t.Helper()
	head, err := s.Head(context.Background())
	if err != nil {
		t.Fatalf("head: %v", err)
	}
	rep, err := s.Verify(context.Background(), &head)
	if err != nil {
		t.Fatalf("verify: %v", err)
	}
	for _, f := range rep.Faults {
		t.Errorf("fault: event %d, run %s, %s: %s", f.Seq, f.Run, f.What, f.Detail)
	}
	if rep.Head != head {
		t.Errorf("verify saw head %v, there was %v", rep.Head, head)
	}
	return rep
}

func runs(t testing.TB, s ledger.Store, f ledger.RunFilter) []ledger.Run {
	t.Helper()
	var out []ledger.Run
	for r, err := range s.Runs(context.Background(), f) {
		if err != nil {
			t.Fatalf("runs: %v", err)
		}
		out = append(out, r)
	}
	return out
}

func events(t testing.TB, s ledger.Store, f ledger.EventFilter) []ledger.Event {
	t.Helper()
	var out []ledger.Event
	for ev, err := range s.Events(context.Background(), f) {
		if err != nil {
			t.Fatalf("events: %v", err)
		}
		out = append(out, ev)
	}
	return out
}

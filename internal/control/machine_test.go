package control

import (
	"slices"
	"testing"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

func phases() []ledger.Phase {
	return []ledger.Phase{"", ledger.PhaseIntent, ledger.PhaseSubmitting, ledger.PhaseSubmitted, ledger.PhaseRunning, ledger.PhaseEnded,
		ledger.PhaseDrained, ledger.PhaseCleaned, ledger.PhaseKept}
}

// TestMachine walks every step that can be thought of: what the table has is
// taken, by the engine's check and by the ledger's fold, and nothing else is.
func TestMachine(t *testing.T) {
	legal := map[ledger.Kind]map[ledger.Phase]map[ledger.Phase]bool{}
	for _, tr := range Transitions() {
		if tr.Doc == "" {
			t.Errorf("%s has no words", tr.Kind)
		}
		if legal[tr.Kind] == nil {
			legal[tr.Kind] = map[ledger.Phase]map[ledger.Phase]bool{}
		}
		for _, f := range tr.From {
			if legal[tr.Kind][f] == nil {
				legal[tr.Kind][f] = map[ledger.Phase]bool{}
			}
			legal[tr.Kind][f][tr.To] = true
		}
	}
	for kind := range legal {
		if kind == ledger.KindIntent {
			continue
		}
		for _, from := range phases() {
			for _, to := range phases() {
				if to == "" {
					continue
				}
				err := checkSteps(from, []ledger.NewEvent{{Kind: kind, Change: ledger.Change{Phase: to}}})
				if want := legal[kind][from][to]; (err == nil) != want {
					t.Errorf("%s from %q to %q: %v, want legal %v", kind, from, to, err, want)
				}
			}
		}
	}
}

func TestPhasesOnlyGrow(t *testing.T) {
	for _, tr := range Transitions() {
		for _, from := range tr.From {
			if from == "" {
				continue
			}
			if slices.Index(phases(), tr.To) < slices.Index(phases(), from) {
				t.Errorf("%s goes back from %s to %s", tr.Kind, from, tr.To)
			}
		}
	}
}

func TestEveryPhaseLeadsToTheEnd(t *testing.T) {
	for _, p := range phases() {
		if p == "" || p.Final() {
			continue
		}
		found := false
		for _, tr := range Transitions() {
			found = found || slices.Contains(tr.From, p) && tr.To != p
		}
		if !found {
			t.Errorf("nothing leads out of %s", p)
		}
	}
}

func TestRefusalReasonsAreLegal(t *testing.T) {
	for _, c := range sdk.Codes() {
		r := refusalReason(sdk.Errorf(c, "run", "no"))
		if !sdk.LegalReason(sdk.StateFailed, r) {
			t.Errorf("%s becomes %s, which can't stand beside failed", c, r)
		}
	}
}

func TestRetryWait(t *testing.T) {
	var got []int
	for n := 1; n <= 8; n++ {
		got = append(got, int(retryWait(n).Seconds()))
	}
	if want := []int{1, 2, 4, 8, 16, 32, 60, 60}; !slices.Equal(got, want) {
		t.Fatalf("waits %v, want %v", got, want)
	}
}

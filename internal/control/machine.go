package control

import (
	"fmt"
	"sync"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// Transition is one row of the state machine: an event of Kind may take an
// attempt from any of From to To.
type Transition struct {
	Kind ledger.Kind
	// From are phases; the empty phase is "no attempt yet, or the last one is
	// over".
	From []ledger.Phase
	To   ledger.Phase
	// Doc says when it happens.
	Doc string
}

// Transitions returns the state machine: the only source of
// docs/state-machine.md, of the check before every write, and of the crash
// harness's failpoints.
func Transitions() []Transition {
	ph := func(p ...ledger.Phase) []ledger.Phase { return p }
	const (
		none       = ledger.Phase("")
		intent     = ledger.PhaseIntent
		submitting = ledger.PhaseSubmitting
		submitted  = ledger.PhaseSubmitted
		running    = ledger.PhaseRunning
		ended      = ledger.PhaseEnded
		drained    = ledger.PhaseDrained
		cleaned    = ledger.PhaseCleaned
		kept       = ledger.PhaseKept
	)
	return []Transition{
		{ledger.KindIntent, ph(none), intent, "The launch is stored; nothing was sent."},
		{ledger.KindSubmitting, ph(intent, submitting), submitting, "The launch is about to be sent, for the first time or again."},
		{ledger.KindSubmitted, ph(submitting), submitted, "The backend accepted it and gave a handle."},
		{ledger.KindAdopted, ph(intent, submitting), submitted, "Its job was found on the backend."},
		{ledger.KindRefused, ph(intent, submitting), ended, "The backend, or its provider, refused for good; there is no object."},
		{ledger.KindRunning, ph(submitted), running, "The job was seen running."},
		{ledger.KindEnded, ph(intent, submitting, submitted, running), ended, "The end is proven, or the evidence is gone."},
		{ledger.KindAbandoned, ph(intent, submitting, submitted, running), ended, "A person gave the run up as lost."},
		{ledger.KindDrained, ph(ended), drained, "The captured output is synced."},
		{ledger.KindCleaned, ph(drained), cleaned, "Nothing of the attempt is left on the backend."},
		{ledger.KindKept, ph(drained), kept, "What it made stays there, as asked."},
	}
}

// step is one way through the state machine.
type step struct {
	kind     ledger.Kind
	from, to ledger.Phase
}

// legalSteps is Transitions, made into a set once: every event is looked up.
var legalSteps = sync.OnceValue(func() map[step]bool {
	set := map[step]bool{}
	for _, t := range Transitions() {
		for _, from := range t.From {
			set[step{t.Kind, from, t.To}] = true
		}
	}
	return set
})

// legalStep reports whether kind may take an attempt from one phase to another.
func legalStep(kind ledger.Kind, from, to ledger.Phase) bool {
	return legalSteps()[step{kind, from, to}]
}

// checkSteps refuses a write whose events leave the state machine.
func checkSteps(phase ledger.Phase, events []ledger.NewEvent) error {
	for _, ev := range events {
		to := ev.Change.Phase
		if ev.Kind == ledger.KindIntent {
			if phase != "" && !phase.Final() {
				return sdk.Errorf(sdk.Internal, "record "+string(ev.Kind), "a new attempt can't follow phase %s", phase)
			}
			phase, to = "", ledger.PhaseIntent
		}
		if to == "" {
			continue
		}
		if !legalStep(ev.Kind, phase, to) {
			return sdk.Errorf(sdk.Internal, "record "+string(ev.Kind), "phase %s can't follow %s", to, phase)
		}
		phase = to
	}
	return nil
}

// Calls are the provider calls around which a process may die.
func calls() []string {
	return []string{"prepare", "run", "find", "status", "cancel", "clean", "logs"}
}

// Failpoints returns the name of every boundary of the engine: before and after
// the write of each transition, and before and after each call.
func Failpoints() []string {
	var out []string
	for _, t := range Transitions() {
		out = append(out, fmt.Sprintf("write.%s.before", t.Kind), fmt.Sprintf("write.%s.after", t.Kind))
	}
	for _, c := range calls() {
		out = append(out, "call."+c+".before", "call."+c+".after")
	}
	return append(out, "logs.finish.before", "logs.finish.after")
}

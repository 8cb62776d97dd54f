package control

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// SilenceLimit is how long a backend may give no answer of use before that is
// shown beside a run's state.
const SilenceLimit = 10 * time.Second

// silence begins the message of a run whose backend doesn't answer.
const silence = "no answer since "

// Silent reports whether a run is one whose backend doesn't answer at present, as
// its message says.
func Silent(r ledger.Run) bool {
	return !r.State.Terminal() && r.Reason == sdk.ReasonUnknown && strings.HasPrefix(r.Message, silence)
}

// silent shows a backend that has not answered: after SilenceLimit beside the
// state as it was last seen, after ContactLimit as unknown. Once for each, since
// what the errors say may differ each time.
func (r *runner) silent(ctx context.Context, err error) error {
	quiet := r.e.clock.Now().Sub(r.lastAnswer)
	a := r.attempt()
	state, late := a.State, r.startIsOver() && a.SeenRunning.IsZero()
	switch {
	case quiet < SilenceLimit:
		return nil
	case quiet >= ContactLimit:
		state = sdk.StateUnknown
	case a.State == sdk.StateUnknown:
		return nil // it says more than silence would
	}
	if a.State == state && a.Reason == sdk.ReasonUnknown && strings.HasPrefix(a.Message, silence) && strings.Contains(a.Message, startPassed) == late {
		return nil
	}
	msg := silence + r.lastAnswer.UTC().Format(time.RFC3339)
	if late {
		msg += startPassed
	}
	return r.show(ctx, state, sdk.ReasonUnknown, fmt.Sprintf("%s: %v", msg, err), nil)
}

// startPassed says why a run goes on past its start time-out.
const startPassed = "; the start time-out has passed, and the run ends as soon as the backend tells what became of the launch"

// heard notes an answer, and takes back what the silence before it has shown of a
// launch in doubt.
func (r *runner) heard(ctx context.Context) error {
	r.lastAnswer = r.e.clock.Now()
	if !Silent(r.run) {
		return nil
	}
	return r.show(ctx, sdk.StatePending, "", "", nil)
}

// missing begins the message of a run whose job the backend doesn't find.
const missing = "not found since "

// Missing reports whether a run is one whose job the backend doesn't find at present, as
// its message says, and that isn't lost yet.
func Missing(r ledger.Run) bool {
	return !r.State.Terminal() && r.Reason == sdk.ReasonUnknown && strings.HasPrefix(r.Message, missing)
}

// missed shows a job that its backend doesn't find, and when its run ends, as what: at once
// one that was seen running, any other after SilenceLimit, since what is new may not be
// visible yet. The state stays as it was last seen.
func (r *runner) missed(ctx context.Context, err error, as sdk.JobState, over time.Time) error {
	now, a := r.e.clock.Now(), r.attempt()
	if r.notFoundAt.IsZero() {
		r.notFoundAt = now
	}
	if a.SeenRunning.IsZero() && now.Sub(r.notFoundAt) < SilenceLimit {
		return nil
	}
	if a.Reason == sdk.ReasonUnknown && strings.HasPrefix(a.Message, missing) {
		return nil // an earlier holder may have missed it first
	}
	msg := fmt.Sprintf("%s%s, and %s if it isn't found by %s: %v", missing, r.notFoundAt.UTC().Format(time.RFC3339), as, over.UTC().Format(time.RFC3339), err)
	return r.show(ctx, a.State, sdk.ReasonUnknown, msg, nil)
}

package ecs

import (
	"context"
	"errors"
	"testing"
	"time"

	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketecs "github.com/windlass-run/windlass/internal/pocket/ecs"
	"github.com/windlass-run/windlass/sdk"
)

// TestNewRevisionUnknown: a revision that was registered and that RunTask doesn't
// know yet is waited for; it is no fault of the job's.
func TestNewRevisionUnknown(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	w.cloud.ECS().TuneKnobs(func(k *pocketecs.Knobs) { k.DefinitionDelay = time.Second })
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("exit 3")))
	if st := w.Ended(p, h); st.State != sdk.StateFailed || st.ExitCode == nil || *st.ExitCode != 3 {
		t.Errorf("%s: %s, %s", st.State, st.Reason, st.Message)
	}
	if n := w.Count("ecs:RegisterTaskDefinition"); n > 2 {
		t.Errorf("%d registrations", n)
	}
}

// TestSubmitBudget: RunTask keeps to a rate of the account's, whichever provider
// calls it; a launch whose turn doesn't come was not sent, and says so.
func TestSubmitBudget(t *testing.T) {
	w := newWorld(t, pocket.Options{}, map[string]any{"submit_limit": 1})
	d := Driver()
	p, q := w.OpenOn(d), w.OpenOn(d)
	for range submitBurst {
		w.Run(p, w.Plan(p, shell("true")))
	}
	l := w.Plan(q, shell("true"))
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // its turn comes in a second
	defer cancel()
	_, err := q.RunJob(ctx, sdk.RunJobRequest{Launch: l})
	var e *sdk.Error
	if !errors.As(err, &e) || e.Code != sdk.ResourceExhausted || e.Reason != sdk.ReasonQueued || !sdk.IsRetryable(err) || !sdk.IsClear(err) {
		t.Errorf("one too many: %v", err)
	}
	if n := w.Count("ecs:RunTask"); n != submitBurst {
		t.Errorf("%d calls", n)
	}
}

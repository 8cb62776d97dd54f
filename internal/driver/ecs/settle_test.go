package ecs

import (
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

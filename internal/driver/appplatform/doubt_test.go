package appplatform

import (
	"encoding/json"
	"testing"
	"time"

	pocket "github.com/windlass-run/windlass/internal/pocket/digitalocean"
	"github.com/windlass-run/windlass/sdk"
)

// TestRefusedInDoubt: that a launch made nothing is proven also where the
// platform would refuse it now.
func TestRefusedInDoubt(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	spec := shell("true")
	spec.Options = json.RawMessage(`{"region":"nowhere"}`)
	l := w.Plan(p, spec)
	got, err := p.FindJobs(t.Context(), sdk.FindJobsRequest{Launch: &l, RunID: l.RunID, Owner: l.Owner, SentAt: time.Now().Add(-time.Hour)})
	if err != nil || got.Outcome != sdk.FindAbsent {
		t.Errorf("%s, %v", got.Outcome, err)
	}
	if _, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); !sdk.IsClear(err) || sdk.IsRetryable(err) {
		t.Errorf("refused: %v", err)
	}
}

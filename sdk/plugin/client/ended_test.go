package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// TestEndedContextSendsNothing launches with a context that has ended, often: now and
// then, one such launch was carried out.
func TestEndedContextSendsNothing(t *testing.T) {
	made := make(chan struct{}, 1000)
	s := &scripted{run: func(context.Context, sdk.RunJobRequest) (sdk.RunJobResult, error) {
		made <- struct{}{}
		return sdk.RunJobResult{Handle: sdk.JobHandle{V: 1, ID: "x"}}, nil
	}}
	r := of(t, open(t, s), sdk.Runner())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range cap(made) / 2 {
		if _, err := r.RunJob(ctx, sdk.RunJobRequest{}); !errors.Is(err, context.Canceled) || !errors.Is(err, sdk.Canceled) || sdk.IsRetryable(err) {
			t.Fatalf("got %v", err)
		}
	}
	// The one that may be sent comes behind all others on the connection.
	if _, err := r.RunJob(t.Context(), sdk.RunJobRequest{}); err != nil {
		t.Fatal(err)
	}
	if n := len(made); n != 1 {
		t.Errorf("%d launches were carried out, 1 was to be", n)
	}
}

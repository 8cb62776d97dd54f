package aws

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/smithy-go"

	"github.com/windlass-run/windlass/sdk"
)

// TestPaced: calls keep to their budget, a refusal spends what was saved up for a
// burst, and who waits goes with his context.
func TestPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &Session{timeout: time.Minute, provider: "prod"}
		var budgets Budgets
		b := budgets.For(x, "reads", 1, 3)
		answer := error(nil)
		took := func(ctx context.Context) (time.Duration, error) {
			begun := time.Now()
			err := x.Paced(ctx, b, "look", func(context.Context) error { return answer })
			return time.Since(begun), err
		}
		for i, want := range []time.Duration{0, 0, 0, time.Second} {
			if d, err := took(t.Context()); err != nil || d != want {
				t.Errorf("call %d took %s, %v; want %s", i, d, err, want)
			}
		}
		time.Sleep(3 * time.Second)
		answer = &smithy.GenericAPIError{Code: "ThrottlingException", Message: "Rate exceeded"}
		if d, err := took(t.Context()); d != 0 || sdk.CodeOf(err) != sdk.ResourceExhausted || !sdk.IsRetryable(err) {
			t.Errorf("throttled after %s: %v", d, err)
		}
		answer = nil
		if d, err := took(t.Context()); err != nil || d != time.Second {
			t.Errorf("after a refusal the next took %s, %v", d, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var e *sdk.Error
		if d, err := took(ctx); d != 100*time.Millisecond || !errors.As(err, &e) || e.Code != sdk.DeadlineExceeded || e.Provider != "prod" {
			t.Errorf("with a context that ends: %s, %v", d, err)
		}
	})
}

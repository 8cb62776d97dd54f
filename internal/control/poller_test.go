package control

import (
	"fmt"
	"testing"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// TestWaitsAfterFailures: looks that tell nothing become rare, but where the backend
// gives no answer at all they stay so frequent that one that answers again is seen
// soon. What it asks for itself holds.
func TestWaitsAfterFailures(t *testing.T) {
	unavailable := sdk.Errorf(sdk.Unavailable, "status", "connection refused")
	late := fmt.Errorf("status: %w", sdk.Errorf(sdk.DeadlineExceeded, "status", "no answer"))
	for _, c := range []struct {
		interval time.Duration
		fails    int
		err      error
		least    time.Duration
		most     time.Duration
	}{
		{2 * time.Second, 1, unavailable, time.Second, 2 * time.Second},
		{2 * time.Second, 3, unavailable, 4 * time.Second, 8 * time.Second},
		{2 * time.Second, 4, unavailable, 7500 * time.Millisecond, 15 * time.Second},
		{2 * time.Second, 1 << 20, unavailable, 7500 * time.Millisecond, 15 * time.Second},
		{2 * time.Second, 1 << 20, late, 7500 * time.Millisecond, 15 * time.Second},
		{20 * time.Second, 9, unavailable, 10 * time.Second, 20 * time.Second},
		{2 * time.Second, 9, nil, 30 * time.Second, time.Minute}, // the state is unknown
		{2 * time.Second, 9, sdk.Errorf(sdk.PermissionDenied, "status", "no"), 30 * time.Second, time.Minute},
		{2 * time.Second, 9, &sdk.Error{Code: sdk.Unavailable, RetryAfter: 40 * time.Second}, 40 * time.Second, 40 * time.Second},
	} {
		for range 200 {
			if got := failedWait(c.interval, c.fails, c.err); got < c.least || got > c.most {
				t.Errorf("interval %s, failure %d, %v: %s is not within %s and %s", c.interval, c.fails, c.err, got, c.least, c.most)
				break
			}
		}
	}
}

package drivertest

import (
	"errors"
	"sync"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// SharesDefinition checks that many equal launches at once register one definition,
// that the last clean-up takes it away, and that it is registered again when it is
// wanted again. Register and deregister are the calls for it.
func SharesDefinition[P Provider](t *testing.T, w *World[P], register, deregister string) {
	const n = 50
	p := w.Open()
	launches, handles := make([]sdk.Launch, n), make([]sdk.JobHandle, n)
	for i := range launches {
		launches[i] = w.Plan(p, Shell("true"))
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i, l := range launches {
		wg.Go(func() { handles[i], errs[i] = send(t.Context(), p, l) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if got := w.Count(register); got != 1 {
		t.Errorf("%d registrations of one definition", got)
	}
	for _, h := range handles {
		w.Ended(p, h)
	}
	for i, h := range handles {
		res, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h})
		if err != nil {
			t.Fatal(err)
		}
		if last := i == n-1; (len(res.Removed) > 0) != last {
			t.Errorf("clean-up %d removed %q", i, res.Removed)
		}
	}
	if got := w.Count(deregister); got != 1 {
		t.Errorf("%d definitions deregistered", got)
	}
	w.Ended(p, w.Run(p, w.Plan(p, Shell("true"))))
	if got := w.Count(register); got != 2 {
		t.Errorf("%d registrations", got)
	}
}

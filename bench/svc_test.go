package bench

import (
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/sdk"
)

// changes are a workload that we change and its twin, "theirs", that the vendor's
// client changes.
type changes struct {
	w      *control.WorkloadRuntime
	target sdk.Target
	// faults make calls take as long as over a network while they are timed.
	faults *fault.Plan
	// settled, when not nil, waits for the end of the change before.
	settled func(name string)
	// scale and restart are the vendor's client's.
	scale   func(n int32) error
	restart func() error
}

// timed is one change, once the one before it is over.
func (c changes) timed(b *testing.B, name string, f func() error) time.Duration {
	b.Helper()
	if c.settled != nil {
		c.settled(name)
	}
	remove := c.faults.Add(fault.Rule{Effect: fault.Effect{Latency: 50 * time.Millisecond}})
	defer remove()
	begun := time.Now()
	if err := f(); err != nil {
		b.Fatal(err)
	}
	return time.Since(begun)
}

// scales measures scaling to "accepted", between one and two.
func (c changes) scales(b *testing.B) {
	n := int32(1)
	pair(b, func() time.Duration {
		n = 3 - n
		return c.timed(b, "ours", func() error {
			_, err := c.w.Scale(b.Context(), control.ChangeRequest{Target: c.target, Actor: "bench"}, int(n))
			return err
		})
	}, func() time.Duration {
		return c.timed(b, "theirs", func() error { return c.scale(n) })
	})
}

// restarts measures restarting to "accepted".
func (c changes) restarts(b *testing.B) {
	pair(b, func() time.Duration {
		return c.timed(b, "ours", func() error {
			_, err := c.w.Restart(b.Context(), control.ChangeRequest{Target: c.target, Actor: "bench"})
			return err
		})
	}, func() time.Duration { return c.timed(b, "theirs", c.restart) })
}

// workloadsOf is the runtime of live workloads of one provider, with a durable ledger.
func workloadsOf(b *testing.B, d sdk.Driver, p sdk.Provider) *control.WorkloadRuntime {
	b.Helper()
	return engineOf(b, d, 0, func(string) sdk.Provider { return p }).Workloads()
}

// forever is an executor whose jobs go on.
func forever() run.Executor {
	return run.NewScripted(func(run.Spec) run.Play { return run.Play{For: -1} })
}

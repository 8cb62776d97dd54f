package bench

import (
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/driver/ecs"
	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketecs "github.com/windlass-run/windlass/internal/pocket/ecs"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/sdk"
)

const (
	// submits is how many tasks BenchmarkECSSubmit runs, submitters how many are
	// submitted at a time, lookEvery the pause between looks.
	submits    = 500
	submitters = 20
	lookEvery  = 100 * time.Millisecond
)

// BenchmarkECSSubmit runs tasks that end at once on pocket ECS, from the first
// submit until the last is known to have ended, with the ledger and capture on,
// beside the vendor's client alone: on a cloud that answers at once, and on one
// whose calls take as long as over a network.
func BenchmarkECSSubmit(b *testing.B) {
	if testing.Short() {
		b.Skip("needs seconds: left out by -short")
	}
	b.Run("at-once", func(b *testing.B) { submitOnECS(b, 0) })
	b.Run("50ms-a-call", func(b *testing.B) { submitOnECS(b, 50*time.Millisecond) })
}

func submitOnECS(b *testing.B, latency time.Duration) {
	executor := func() run.Executor {
		return run.NewScripted(func(run.Spec) run.Play { return run.Play{Stdout: []byte("hello\n")} })
	}
	atOnce := func(c *pocket.Server) {
		c.Faults().Add(fault.Rule{Effect: fault.Effect{Latency: latency}})
		c.ECS().TuneKnobs(func(k *pocketecs.Knobs) {
			k.Pace = pocketecs.Pace{Provisioning: 1, Pending: 1, Activating: 1, Deactivating: 1, Stopping: 1, Deprovisioning: 1}
		})
	}
	engine, cloud := engineOn(b, ecs.Driver(), executor(), map[string]any{"subnets": []string{"subnet-0123456789abcdef0"}, "describe_rate": 1000, "log_rate": 1000, "submit_limit": 10000, "log_quiet": "1s"}, lookEvery)
	atOnce(cloud)
	bare, err := pocket.New(pocket.Options{Executor: executor()})
	if err != nil {
		b.Fatal(err)
	}
	atOnce(bare)
	web := httptest.NewServer(bare)
	b.Cleanup(func() {
		web.Close()
		if err := bare.Close(); err != nil {
			b.Error(err)
		}
	})
	client := newRaw(web.URL)
	client.define(b)
	ours := func() time.Duration {
		begun := time.Now()
		var wg sync.WaitGroup
		slots := make(chan struct{}, submitters)
		for n := range submits {
			slots <- struct{}{}
			wg.Go(func() {
				s, err := engine.Submit(b.Context(), control.SubmitRequest{Provider: ecs.Kind, Actor: "bench", Spec: sdk.JobSpec{Image: "img", Args: sdk.Argv{"hello", strconv.Itoa(n)}}})
				if err == nil {
					_, err = engine.Wait(b.Context(), s.Run.ID, control.MilestoneSubmitted)
				}
				<-slots
				if err == nil {
					_, err = engine.Wait(b.Context(), s.Run.ID, control.MilestoneEnded)
				}
				if err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
		return time.Since(begun)
	}
	x, y := pair(b, ours, func() time.Duration { return client.run(b, submits, submitters, lookEvery) })
	b.ReportMetric(submits/x.Seconds(), "runs/s")
	b.ReportMetric(submits/y.Seconds(), "plain-runs/s")
}

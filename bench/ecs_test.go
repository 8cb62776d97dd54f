package bench

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/driver/ecs"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/sdk"
)

// inFlight is how many jobs BenchmarkECSInFlight has at once.
const inFlight = 10000

// BenchmarkECSInFlight has ten thousand jobs in flight on pocket ECS with a
// scripted executor, capture on, under the budgets that AWS gives. It reports
// the looks at tasks a second and how long after its end a job is known to have
// ended.
func BenchmarkECSInFlight(b *testing.B) {
	if testing.Short() {
		b.Skip("needs minutes: left out by -short")
	}
	for range b.N {
		inFlightOnECS(b)
	}
}

// ends are the times at which containers end, by task.
type ends struct {
	mu sync.Mutex
	at map[string]time.Time
}

func inFlightOnECS(b *testing.B) {
	e := ends{at: map[string]time.Time{}}
	var release time.Time
	var once sync.Once
	executor := run.NewScripted(func(s run.Spec) run.Play {
		// All jobs run until all have been submitted, and then end within a
		// minute.
		once.Do(func() { release = time.Now().Add(2 * time.Minute) })
		e.mu.Lock()
		defer e.mu.Unlock()
		d := time.Until(release) + time.Duration(len(e.at)%600)*100*time.Millisecond
		task, _, _ := strings.Cut(s.Name, "-")
		e.at[task] = time.Now().Add(d)
		return run.Play{Stdout: []byte("hello\n"), For: max(d, 0)}
	})
	cloud, err := pocket.New(pocket.Options{Executor: executor})
	if err != nil {
		b.Fatal(err)
	}
	web := httptest.NewServer(cloud)
	defer func() {
		web.Close()
		if err := cloud.Close(); err != nil {
			b.Error(err)
		}
	}()
	dir := b.TempDir()
	store, err := sqlite.Open(b.Context(), dir, sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	logs, err := joblog.Open(filepath.Join(dir, "logs"), joblog.Options{})
	if err != nil {
		b.Fatal(err)
	}
	raw, err := json.Marshal(map[string]any{"region": pocket.Region, "endpoint": web.URL, "subnets": []string{"subnet-0123456789abcdef0"},
		"execution_role": "arn:aws:iam::" + pocket.Account + ":role/execution"})
	if err != nil {
		b.Fatal(err)
	}
	d := ecs.Driver()
	p, err := d.Open(b.Context(), sdk.OpenRequest{Name: "aws-ecs", Config: raw, Clock: sdk.SystemClock(), IDs: sdk.NewIDSource(sdk.SystemClock()),
		Credentials: map[string]string{"AWS_ACCESS_KEY_ID": "pocket", "AWS_SECRET_ACCESS_KEY": "pocket"}, Log: slog.New(slog.DiscardHandler),
		Owner: "bench", LedgerID: store.ID(), StateDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	back := control.Backend{Name: "aws-ecs", Provider: p, Driver: &d}
	engine, err := control.New(b.Context(), control.Options{Store: store, Logs: logs, Providers: one{back}, StateDir: dir, Actor: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	begun := time.Now()
	var lag []time.Duration
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, 100)
	for range inFlight {
		slots <- struct{}{}
		s, err := engine.Submit(b.Context(), control.SubmitRequest{Provider: "aws-ecs", Actor: "bench", Spec: sdk.JobSpec{Image: "img", Args: sdk.Argv{"hello"}}})
		if err != nil {
			b.Fatal(err)
		}
		wg.Go(func() {
			_, err := engine.Wait(b.Context(), s.Run.ID, control.MilestoneSubmitted)
			<-slots
			if err != nil {
				b.Error(err)
				return
			}
			row, err := engine.Wait(b.Context(), s.Run.ID, control.MilestoneEnded)
			seen := time.Now()
			if err != nil || row.State != sdk.StateSucceeded {
				b.Errorf("%s %v", row.State, err)
				return
			}
			attempts, err := engine.Attempts(b.Context(), s.Run.ID)
			if err != nil || len(attempts) != 1 {
				b.Errorf("%d attempts, %v", len(attempts), err)
				return
			}
			h, err := sdk.DecodeHandle(attempts[0].Handle)
			if err != nil {
				b.Error(err)
				return
			}
			e.mu.Lock()
			at := e.at[h.Name]
			e.mu.Unlock()
			mu.Lock()
			defer mu.Unlock()
			lag = append(lag, seen.Sub(at))
		})
	}
	b.Logf("%d submitted in %s", inFlight, time.Since(begun).Round(time.Millisecond))
	wg.Wait()
	took := time.Since(begun)
	counts := cloud.Calls().Counts()
	slices.Sort(lag)
	b.ReportMetric(float64(counts["ecs:DescribeTasks"]+counts["ecs:ListTasks"])/took.Seconds(), "looks/s")
	b.ReportMetric(float64(counts["logs:GetLogEvents"])/took.Seconds(), "logreads/s")
	b.ReportMetric(lag[len(lag)*99/100].Seconds(), "p99-lag-s")
	b.Logf("%s in all; lag p50 %s, p99 %s, most %s; %v", took.Round(time.Second), lag[len(lag)/2], lag[len(lag)*99/100], lag[len(lag)-1], counts)
	if err := engine.Close(context.Background()); err != nil {
		b.Error(err)
	}
	if err := p.Close(); err != nil {
		b.Error(err)
	}
	if err := store.Close(); err != nil {
		b.Error(err)
	}
}

package bench

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/driver/batch"
	"github.com/windlass-run/windlass/internal/driver/ecs"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketbatch "github.com/windlass-run/windlass/internal/pocket/batch"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/sdk"
)

// inFlight is how many jobs are in flight at once.
const inFlight = 10000

// BenchmarkECSInFlight has ten thousand jobs in flight on pocket ECS with a
// scripted executor, capture on, under the budgets that AWS gives for looks and
// logs. It reports the looks at tasks a second, how long after its end a job is
// known to have ended, and how long after the last end all output was kept.
func BenchmarkECSInFlight(b *testing.B) {
	inFlightOn(b, ecs.Driver(), 2*time.Minute, "ecs:DescribeTasks", "ecs:ListTasks", map[string]any{"subnets": []string{"subnet-0123456789abcdef0"}, "submit_limit": 1000})
}

// BenchmarkBatchInFlight does so on pocket AWS Batch.
func BenchmarkBatchInFlight(b *testing.B) {
	inFlightOn(b, batch.Driver(), 4*time.Minute, "batch:DescribeJobs", "batch:ListJobs", map[string]any{"queue": pocketbatch.DefaultQueue, "submit_limit": 1000})
}

// ends are the times at which containers end, by job.
type ends struct {
	// after is how long the first runs: until then all have been submitted.
	after time.Duration

	mu      sync.Mutex
	release time.Time
	at      map[int]time.Time
}

// play lets all jobs run until all have been submitted, and end within a minute
// then.
func (e *ends) play(s run.Spec) run.Play {
	n, err := strconv.Atoi(s.Command[len(s.Command)-1])
	if err != nil {
		return run.Play{Start: &run.StartError{Text: err.Error()}}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.release.IsZero() {
		e.release = time.Now().Add(e.after)
	}
	at := e.release.Add(time.Duration(n%600) * 100 * time.Millisecond)
	e.at[n] = time.Now().Add(max(time.Until(at), 0))
	return run.Play{Stdout: []byte("hello from " + s.Name + "\n"), For: max(time.Until(at), 0)}
}

func (e *ends) of(n int) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.at[n]
}

func inFlightOn(b *testing.B, d sdk.Driver, after time.Duration, describe, list string, config map[string]any) {
	if testing.Short() {
		b.Skip("needs minutes: left out by -short")
	}
	for range b.N {
		e := &ends{after: after, at: map[int]time.Time{}}
		engine, cloud := engineOn(b, d, run.NewScripted(e.play), config, 0)
		var limits []pocket.Limit
		for _, l := range pocket.ECSLimits() {
			if slices.Contains(l.Actions, describe) || strings.HasPrefix(l.Actions[0], "logs:") {
				limits = append(limits, l)
			}
		}
		cloud.SetLimits(limits)
		begun := time.Now()
		var lag []time.Duration
		var last time.Time
		var mu sync.Mutex
		var wg sync.WaitGroup
		slots := make(chan struct{}, 100)
		for n := range inFlight {
			slots <- struct{}{}
			s, err := engine.Submit(b.Context(), control.SubmitRequest{Provider: d.Kind, Actor: "bench", Spec: sdk.JobSpec{Image: "img", Args: sdk.Argv{"hello", strconv.Itoa(n)}}})
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
				mu.Lock()
				lag = append(lag, seen.Sub(e.of(n)))
				if at := e.of(n); at.After(last) {
					last = at
				}
				mu.Unlock()
				if row, err = engine.Wait(b.Context(), s.Run.ID, control.MilestoneDrained); err != nil || row.Verdict != sdk.VerdictQuiet {
					b.Errorf("log: %s, %v", row.Verdict, err)
				}
			})
		}
		b.Logf("%d submitted in %s", inFlight, time.Since(begun).Round(time.Millisecond))
		if late := time.Since(begun); late > after {
			b.Logf("the first ended %s before the last was submitted: they were not in flight together", late-after)
		}
		wg.Wait()
		took := time.Since(begun)
		counts := cloud.Calls().Counts()
		slices.Sort(lag)
		b.ReportMetric(float64(counts[describe]+counts[list])/took.Seconds(), "looks/s")
		b.ReportMetric(float64(counts["logs:GetLogEvents"])/took.Seconds(), "getlogs/s")
		b.ReportMetric(float64(counts["logs:FilterLogEvents"])/took.Seconds(), "filterlogs/s")
		b.ReportMetric(lag[len(lag)*99/100].Seconds(), "p99-lag-s")
		b.ReportMetric(time.Since(last).Seconds(), "drained-s")
		b.Logf("%s in all; lag p50 %s, p99 %s, most %s; %v", took.Round(time.Second), lag[len(lag)/2], lag[len(lag)*99/100], lag[len(lag)-1], counts)
	}
}

// engineOn returns an engine with a provider of one of AWS's kinds on a pocket
// cloud. A poll interval of 0 is the usual one.
func engineOn(b *testing.B, d sdk.Driver, executor run.Executor, config map[string]any, poll time.Duration) (*control.Engine, *pocket.Server) {
	b.Helper()
	cloud, err := pocket.New(pocket.Options{Executor: executor})
	if err != nil {
		b.Fatal(err)
	}
	web := httptest.NewServer(cloud)
	b.Cleanup(func() {
		web.Close()
		if err := cloud.Close(); err != nil {
			b.Error(err)
		}
	})
	return engineOf(b, d, poll, func(ledger string) sdk.Provider { return awsProvider(b, d, web.URL, ledger, config) }), cloud
}

// engineOf returns an engine with one provider, which open makes for the ledger of an
// ID. A poll interval of 0 is the usual one.
func engineOf(b *testing.B, d sdk.Driver, poll time.Duration, open func(ledger string) sdk.Provider) *control.Engine {
	b.Helper()
	return engineWith(b, func(ledger string) control.Providers {
		return one{control.Backend{Name: d.Kind, Provider: open(ledger), Driver: &d, PollInterval: poll}}
	})
}

// engineWith is an engine with a durable ledger and the providers that open gives.
func engineWith(b *testing.B, open func(ledger string) control.Providers) *control.Engine {
	b.Helper()
	dir := b.TempDir()
	store, err := sqlite.Open(b.Context(), dir, sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	logs, err := joblog.Open(filepath.Join(dir, "logs"), joblog.Options{})
	if err != nil {
		b.Fatal(err)
	}
	engine, err := control.New(b.Context(), control.Options{Store: store, Logs: logs, Providers: open(store.ID()),
		StateDir: dir, Actor: "bench", Owner: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := engine.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return engine
}

// awsProvider opens a provider on a pocket AWS.
func awsProvider(b *testing.B, d sdk.Driver, url, ledger string, config map[string]any) sdk.Provider {
	b.Helper()
	all := map[string]any{"region": pocket.Region, "account": pocket.Account, "endpoint": url, "execution_role": "arn:aws:iam::" + pocket.Account + ":role/execution"}
	for k, v := range config {
		all[k] = v
	}
	raw, err := json.Marshal(all)
	if err != nil {
		b.Fatal(err)
	}
	return providerFor(b, ledger, d, map[string]string{"AWS_ACCESS_KEY_ID": "pocket", "AWS_SECRET_ACCESS_KEY": "pocket"}, string(raw))
}

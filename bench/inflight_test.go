package bench

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
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

// inFlightRuns is how many jobs are in flight at once, unless WINDLASS_BENCH_RUNS says otherwise.
const inFlightRuns = 10_000

// runsOr is how many runs a benchmark has: what WINDLASS_BENCH_RUNS says, or n.
func runsOr(tb testing.TB, n int) int {
	tb.Helper()
	text := os.Getenv("WINDLASS_BENCH_RUNS")
	if text == "" {
		return n
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		tb.Fatalf("WINDLASS_BENCH_RUNS=%q is no number of runs", text)
	}
	return n
}

// profileHere writes what is in memory at the moment, and all goroutines, to the folder
// WINDLASS_BENCH_PROFILES, if that is set.
func profileHere(b *testing.B, name string) {
	b.Helper()
	dir := os.Getenv("WINDLASS_BENCH_PROFILES")
	if dir == "" {
		return
	}
	runtime.GC() // the profile is as of the last collection
	for _, kind := range []string{"heap", "goroutine"} {
		f, err := os.Create(filepath.Join(dir, name+"."+kind))
		if err != nil {
			b.Fatal(err)
		}
		if err := errors.Join(pprof.Lookup(kind).WriteTo(f, 0), f.Close()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkECSInFlight has ten thousand jobs in flight on pocket ECS with a
// scripted executor, capture on, under the budgets that AWS gives for looks and
// logs. It reports the looks at tasks a second, how long after its end a job is
// known to have ended, how long after the last end all output was kept, and what
// this process took of memory and of a core: while all were in flight, and in all.
func BenchmarkECSInFlight(b *testing.B) {
	inFlightOn(b, ecs.Driver(), 2*time.Minute, "ecs:DescribeTasks", "ecs:ListTasks", map[string]any{"subnets": []string{"subnet-0123456789abcdef0"}, "submit_limit": 1000})
}

// BenchmarkBatchInFlight does so on pocket AWS Batch.
func BenchmarkBatchInFlight(b *testing.B) {
	inFlightOn(b, batch.Driver(), 4*time.Minute, "batch:DescribeJobs", "batch:ListJobs", map[string]any{"queue": pocketbatch.DefaultQueue, "submit_limit": 1000})
}

// inFlightOn has the pocket cloud in a process of its own, so that processor time and
// memory are those of the engine, with what the benchmark itself keeps of each run. As a
// keeper does, it looks for runs whose holders died all the while.
func inFlightOn(b *testing.B, d sdk.Driver, after time.Duration, describe, list string, config map[string]any) {
	if testing.Short() {
		b.Skip("needs minutes: left out by -short")
	}
	for range b.N {
		inFlightOnce(b, d, after, describe, list, config)
	}
}

func inFlightOnce(b *testing.B, d sdk.Driver, after time.Duration, describe, list string, config map[string]any) {
	inFlight := runsOr(b, inFlightRuns)
	after = max(after*time.Duration(inFlight)/inFlightRuns, 15*time.Second)
	cloud := startApart(b, after, describe)
	engine := engineOf(b, d, 0, func(ledger string) sdk.Provider { return awsProvider(b, d, cloud.url, ledger, config) })
	forgetPeak(b)
	empty, _ := memory(b)
	defer keepRecovering(b, engine)()
	begun, cpu := time.Now(), cpuTime(b)
	seen := make([]time.Time, inFlight)
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
			seen[n] = time.Now()
			if err != nil || row.State != sdk.StateSucceeded {
				b.Errorf("%s %v", row.State, err)
				return
			}
			if row, err = engine.Wait(b.Context(), s.Run.ID, control.MilestoneDrained); err != nil || row.Verdict != sdk.VerdictQuiet {
				b.Errorf("log: %s, %v", row.Verdict, err)
			}
		})
	}
	submitted, cpuSubmitted := time.Now(), cpuTime(b)
	profileHere(b, d.Kind)
	b.Logf("%d submitted in %s", inFlight, submitted.Sub(begun).Round(time.Millisecond))
	if late := submitted.Sub(begun); late > after {
		b.Logf("the first ended %s before the last was submitted: they were not in flight together", late-after)
	} else {
		// All are in flight, and nothing ends, until a moment before the first does.
		if err := sdk.SystemClock().Sleep(b.Context(), after-late-after/20); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(share(cpuTime(b)-cpuSubmitted, time.Since(submitted)), "core-in-flight")
		now, peak := memory(b)
		b.ReportMetric(float64(now)/1e6, "MB-in-flight")
		b.Logf("in flight: %d goroutines, %d files, %.0f MB, at most %.0f MB so far, %.0f MB before the first", runtime.NumGoroutine(), openFiles(b), float64(now)/1e6, float64(peak)/1e6, float64(empty)/1e6)
	}
	wg.Wait()
	took, drained := time.Since(begun), time.Now()
	b.ReportMetric(share(cpuTime(b)-cpu, took), "core-in-all")
	_, peak := memory(b)
	b.ReportMetric(float64(peak)/1e6, "MB-peak")
	at, counts := cloud.ends(b), cloud.counts(b)
	lag := make([]time.Duration, inFlight)
	var last time.Time
	for n := range lag {
		lag[n] = seen[n].Sub(at[n])
		if at[n].After(last) {
			last = at[n]
		}
	}
	slices.Sort(lag)
	b.ReportMetric(float64(counts[describe]+counts[list])/took.Seconds(), "looks/s")
	b.ReportMetric(float64(counts["logs:GetLogEvents"])/took.Seconds(), "getlogs/s")
	b.ReportMetric(float64(counts["logs:FilterLogEvents"])/took.Seconds(), "filterlogs/s")
	b.ReportMetric(lag[len(lag)*99/100].Seconds(), "p99-lag-s")
	b.ReportMetric(drained.Sub(last).Seconds(), "drained-s")
	b.Logf("%s in all, %s of processor time; lag p50 %s, p99 %s, most %s; %v", took.Round(time.Second), (cpuTime(b) - cpu).Round(time.Millisecond), lag[len(lag)/2], lag[len(lag)*99/100], lag[len(lag)-1], counts)
}

// share is a processor time as a part of one core.
func share(cpu, took time.Duration) float64 { return cpu.Seconds() / took.Seconds() }

// keepRecovering looks for runs of holders that died as often as a keeper does, until
// the returned function is called.
func keepRecovering(b *testing.B, engine *control.Engine) (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for sdk.SystemClock().Sleep(ctx, 5*time.Second) == nil {
			if _, err := engine.Recover(ctx, ""); err != nil && ctx.Err() == nil {
				b.Error(err)
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
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

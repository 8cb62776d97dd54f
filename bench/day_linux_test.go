//go:build !race

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/sdk"
)

const (
	// dayRuns is how many runs the simulated time has unless WINDLASS_BENCH_RUNS says
	// otherwise; dayRate how many begin in a second of it, which is 1,000,000 in a day.
	dayRuns = 1500
	dayRate = 1_000_000.0 / 86_400
	// dayTick is how often runs begin, as timers and schedulers have it.
	dayTick = 10 * time.Second
	// daySamples is how many times things are measured.
	daySamples = 48
)

// TestDay is a day of a million runs, or the first minutes of it, in simulated time:
// the real engine, ledger and logs on a real disk, a backend with the scripted
// executor. Nothing may grow with the number of runs that have ended but the disk.
// WINDLASS_BENCH_PICTURE names a file for a picture of the day (SVG), with its numbers
// beside it (CSV).
func TestDay(t *testing.T) {
	dir := t.TempDir()
	d := &day{runs: runsOr(t, dayRuns), dir: dir, begun: realTime(t)}
	synctest.Test(t, d.simulate)
	if t.Failed() {
		return
	}
	d.report(t)
	if path := os.Getenv("WINDLASS_BENCH_PICTURE"); path != "" {
		if err := d.draw(path); err != nil {
			t.Error(err)
		}
	}
}

// day is the simulation and what it measured.
type day struct {
	runs    int
	dir     string
	begun   time.Duration
	samples []daySample

	mu    sync.Mutex
	ended []sdk.ID
	lags  []time.Duration
	// logBytes is what the output of runs that have ended takes on the disk.
	logBytes int64
}

// daySample is the state at one moment of the day.
type daySample struct {
	at         time.Duration // since the beginning, simulated
	runs       int           // ended so far
	inFlight   int
	goroutines int
	files      int
	heap       int64 // live, after a collection
	stacks     int64
	rss        int64
	ledger     int64 // bytes on the disk
	logs       int64
	p50, p99   time.Duration // of the time from a job's end until it is known, simulated
	cpu        time.Duration // of each run since the last sample, real
	list       time.Duration // of listing the open runs, real
}

func (d *day) simulate(t *testing.T) {
	ctx := t.Context()
	store, err := sqlite.Open(ctx, d.dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	logs, err := joblog.Open(filepath.Join(d.dir, "logs"), joblog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cloud := newDayCloud()
	driver := cloud.driver()
	p, err := driver.Open(ctx, sdk.OpenRequest{Name: "day", Clock: sdk.SystemClock(), IDs: sdk.NewIDSource(sdk.SystemClock()), Log: slog.New(slog.DiscardHandler), Owner: store.ID(), LedgerID: store.ID(), StateDir: d.dir})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := control.New(ctx, control.Options{Store: store, Logs: logs, Providers: one{control.Backend{Name: "day", Provider: p, Driver: &driver}}, StateDir: d.dir, Actor: "bench"})
	if err != nil {
		t.Fatal(err)
	}
	length := time.Duration(float64(d.runs) / dayRate * float64(time.Second))
	begun, cpu, seen := time.Now(), cpuTime(t), 0
	next := length / daySamples
	var all sync.WaitGroup
	for n := 0; n < d.runs; {
		due := min(int(dayRate*(time.Since(begun)+dayTick).Seconds()), d.runs)
		for ; n < due; n++ {
			all.Go(func() { d.one(t, engine, cloud, n) })
		}
		time.Sleep(dayTick) //sleep: inside the bubble, where it takes no time
		if time.Since(begun) >= next {
			next += length / daySamples
			d.sample(t, store, engine, time.Since(begun), &cpu, &seen)
		}
	}
	all.Wait()
	d.sample(t, store, engine, time.Since(begun), &cpu, &seen)
	if held := engine.Held(); len(held) > 0 {
		t.Errorf("%d runs are held after the last has ended", len(held))
	}
	if left := cloud.left(); left > 0 {
		t.Errorf("%d jobs are left on the backend", left)
	}
	before, was := realTime(t), d.logBytes
	done, err := engine.Retain(ctx, control.Retention{Logs: 30 * 24 * time.Hour}, "bench")
	if err != nil {
		t.Error(err)
	}
	_, peak := memory(t)
	t.Logf("retention as configured by default: %s, %.1f MB of output looked through, %.1f packed into %.1f MB; memory at most %.0f MB in all", (realTime(t) - before).Round(time.Millisecond),
		float64(was)/1e6, float64(done.Packed.Before)/1e6, float64(done.Packed.After)/1e6, float64(peak)/1e6)
	if err := engine.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// one takes a run from submit to finished.
func (d *day) one(t *testing.T, e *control.Engine, cloud *dayCloud, n int) {
	s, err := e.Submit(t.Context(), control.SubmitRequest{Provider: "day", Actor: "bench", Spec: sdk.JobSpec{Image: "img", Args: sdk.Argv{"work", strconv.Itoa(n)}}})
	if err != nil {
		t.Error(err)
		return
	}
	row, err := e.Wait(t.Context(), s.Run.ID, control.MilestoneEnded)
	known := time.Now()
	if err != nil || row.State != sdk.StateSucceeded || row.ExitCode == nil || *row.ExitCode != 0 {
		t.Errorf("%s %v", row.State, err)
		return
	}
	lag := known.Sub(row.EndedAt)
	row, err = e.Wait(t.Context(), s.Run.ID, control.MilestoneFinished)
	if err != nil || row.Verdict != sdk.VerdictComplete {
		t.Errorf("%s %v", row.Verdict, err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = append(d.ended, s.Run.ID)
	d.lags = append(d.lags, lag)
}

// sample measures.
func (d *day) sample(t *testing.T, store ledger.Store, e *control.Engine, at time.Duration, cpu *time.Duration, seen *int) {
	s := daySample{at: at, inFlight: len(e.Held()), goroutines: runtime.NumGoroutine(), files: openFiles(t)}
	used := cpuTime(t)
	d.mu.Lock()
	ended, lags := d.ended, d.lags
	d.ended, d.lags = nil, nil
	d.mu.Unlock()
	if len(ended) > 0 {
		s.cpu = (used - *cpu) / time.Duration(len(ended))
		slices.Sort(lags)
		s.p50, s.p99 = lags[len(lags)/2], lags[len(lags)*99/100]
	}
	*seen += len(ended)
	s.runs = *seen
	for _, id := range ended {
		d.logBytes += onDisk(t, filepath.Join(d.dir, "logs", id.String()))
	}
	s.logs = d.logBytes
	for _, name := range []string{"ledger.db", "ledger.db-wal"} {
		s.ledger += onDisk(t, filepath.Join(d.dir, name))
	}
	before := realTime(t)
	for _, err := range store.Runs(t.Context(), ledger.RunFilter{Open: true}) {
		if err != nil {
			t.Error(err)
		}
	}
	s.list = realTime(t) - before
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.heap, s.stacks = int64(m.HeapAlloc), int64(m.StackInuse)
	s.rss, _ = memory(t)
	d.samples = append(d.samples, s)
	*cpu = cpuTime(t) // the measuring isn't the day's
}

// report says what grew, and fails where something did that must not.
func (d *day) report(t *testing.T) {
	first, last := d.samples[len(d.samples)/4], d.samples[len(d.samples)-1]
	steady := d.samples[len(d.samples)-2]
	per := func(a, b int64) float64 { return float64(b-a) / float64(last.runs-first.runs) }
	t.Logf("%d runs in %s simulated, %s real: %.1f KB of ledger and %.1f KB of output on the disk for each", last.runs, last.at.Round(time.Second), (realTime(t) - d.begun).Round(time.Second),
		per(first.ledger, last.ledger)/1e3, per(first.logs, last.logs)/1e3)
	for _, s := range []daySample{first, steady, last} {
		t.Logf("after %s: %d ended, %d in flight, %d goroutines, %d files, heap %.1f MB, stacks %.1f MB, RSS %.0f MB, ledger %.0f MB, output %.0f MB, known after p50 %s p99 %s, %s of processor a run, open runs listed in %s",
			s.at.Round(time.Second), s.runs, s.inFlight, s.goroutines, s.files, mb(s.heap), mb(s.stacks), mb(s.rss), mb(s.ledger), mb(s.logs), s.p50.Round(time.Millisecond), s.p99.Round(time.Millisecond),
			s.cpu.Round(time.Microsecond), s.list.Round(10*time.Microsecond))
	}
	// The last sample is without a run in flight. Two megabytes are what caches and the
	// collector may differ by; ten bytes of each run would be a leak.
	if grown := last.heap - first.heap; grown > 2<<20+10*int64(last.runs-first.runs) {
		t.Errorf("the heap grew by %d bytes over %d runs that have all ended", grown, last.runs-first.runs)
	}
	// Of each run the engine has two, this test one and the executor one.
	if first.goroutines > 4*first.inFlight+100 {
		t.Errorf("%d goroutines while %d runs were in flight", first.goroutines, first.inFlight)
	}
	if last.goroutines > 60 {
		t.Errorf("%d goroutines after the last run", last.goroutines)
	}
	if last.files > 40 {
		t.Errorf("%d files are open after the last run", last.files)
	}
}

func mb(n int64) float64 { return float64(n) / 1e6 }

// onDisk is what a file or a folder takes on the disk; one that isn't there takes nothing.
func onDisk(t *testing.T, path string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			n += st.Blocks * 512
		}
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		t.Error(err)
	}
	return n
}

// realTime is the machine's monotonic clock, which no simulation moves.
func realTime(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// dayCloud is a backend whose containers the scripted executor plays. It keeps nothing of
// a job that was removed.
type dayCloud struct {
	exec *run.Scripted
	mu   sync.Mutex
	jobs map[string]*dayJob
}

type dayJob struct {
	c              run.Container
	out            bytes.Buffer
	started, ended time.Time
}

func newDayCloud() *dayCloud {
	c := &dayCloud{jobs: map[string]*dayJob{}}
	c.exec = run.NewScripted(func(s run.Spec) run.Play {
		return run.Play{Stdout: []byte("hello from " + s.Name + "\n"), For: dayLasts(s.Command)}
	})
	return c
}

// dayLasts is how long a job runs: 5 to 65 seconds.
func dayLasts(args []string) time.Duration {
	n, err := strconv.Atoi(args[len(args)-1])
	if err != nil {
		return 0
	}
	return 5*time.Second + time.Duration(n*7919%60_000)*time.Millisecond
}

func (c *dayCloud) left() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.jobs)
}

func (c *dayCloud) job(id string) *dayJob {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.jobs[id]
}

func (c *dayCloud) driver() sdk.Driver {
	g := sdk.Guarantees{Submit: sdk.SubmitGuarantee{By: sdk.SubmitByName}, Found: sdk.FoundGuarantee{Consistent: true}, Argv: sdk.ArgvExact, ExitCode: sdk.ExitCodeProcess,
		Logs: sdk.LogGuarantee{Fidelity: sdk.LogBytes, Apart: true, EndProven: true, Live: true}, CancelReadBack: true, Secrets: sdk.SecretFile}
	return sdk.Driver{Kind: "day", Doc: "scripted", Guarantees: g, Capabilities: sdk.CapabilitiesOf[*dayProvider](),
		Open: func(_ context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
			return &dayProvider{cloud: c, open: r, info: sdk.Info{Name: "day", Kind: "day", Identity: sdk.Identity{Kind: "day"}, Guarantees: g, BatchMax: 100}}, nil
		}}
}

// dayProvider is the driver's side of it.
type dayProvider struct {
	cloud *dayCloud
	open  sdk.OpenRequest
	info  sdk.Info
}

func (p *dayProvider) Info() sdk.Info { return p.info }

func (p *dayProvider) Check(context.Context, sdk.CheckRequest) (sdk.CheckResult, error) {
	return sdk.CheckResult{}, nil
}

func (p *dayProvider) Close() error { return p.cloud.exec.Close() }

func (p *dayProvider) PrepareJob(_ context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	args := make([]string, len(r.Spec.Args))
	for i, a := range r.Spec.Args {
		args[i] = string(a)
	}
	raw, err := sdk.EncodeCanonical(args)
	return sdk.Launch{V: sdk.LaunchVersion, Kind: "day", Identity: p.info.Identity, RunID: r.RunID, AttemptID: r.AttemptID, Attempt: r.Attempt, Owner: p.open.Owner, LedgerID: p.open.LedgerID,
		Names: map[string]string{"job": r.AttemptID.String()}, Request: raw, Resubmit: sdk.ResubmitRule{By: sdk.SubmitByName}, Expires: r.Expires}, err
}

func (p *dayProvider) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	var args []string
	if err := json.Unmarshal(r.Launch.Request, &args); err != nil {
		return sdk.RunJobResult{}, err
	}
	id := r.Launch.AttemptID.String()
	j := &dayJob{started: time.Now()}
	j.ended = j.started.Add(dayLasts(args))
	c, err := p.cloud.exec.Start(ctx, run.Spec{Name: id, Command: args, Stdout: &j.out, Stderr: &j.out})
	if err != nil {
		return sdk.RunJobResult{}, err
	}
	j.c = c
	p.cloud.mu.Lock()
	defer p.cloud.mu.Unlock()
	p.cloud.jobs[id] = j
	return sdk.RunJobResult{Handle: sdk.JobHandle{V: sdk.HandleVersion, Kind: "day", Identity: p.info.Identity, ID: id}}, nil
}

func (p *dayProvider) JobStatus(_ context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	j := p.cloud.job(r.Handle.ID)
	if j == nil {
		return sdk.JobStatusResult{}, sdk.Errorf(sdk.NotFound, "read job", "there is none")
	}
	res := sdk.JobStatusResult{State: sdk.StateRunning, Launches: 1, CreatedAt: j.started, StartedAt: j.started}
	select {
	case <-j.c.Done():
		code := j.c.Exit().Code
		res.State, res.Reason, res.ExitCode, res.EndedAt = sdk.StateSucceeded, sdk.ReasonCompleted, &code, j.ended
	default:
	}
	return res, nil
}

func (p *dayProvider) JobStatuses(ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	var out sdk.JobStatusesResult
	for _, h := range r.Handles {
		res, err := p.JobStatus(ctx, sdk.JobStatusRequest{Handle: h})
		out.Items = append(out.Items, sdk.JobStatusItem{Result: res, Err: err})
	}
	return out, nil
}

func (p *dayProvider) FindJobs(_ context.Context, r sdk.FindJobsRequest) (sdk.FindJobsResult, error) {
	if r.Launch == nil || p.cloud.job(r.Launch.AttemptID.String()) == nil {
		return sdk.FindJobsResult{Outcome: sdk.FindAbsent}, nil
	}
	return sdk.FindJobsResult{Outcome: sdk.FindFound, Jobs: []sdk.FoundJob{{Handle: sdk.JobHandle{V: sdk.HandleVersion, Kind: "day", Identity: p.info.Identity, ID: r.Launch.AttemptID.String()},
		RunID: r.Launch.RunID, AttemptID: r.Launch.AttemptID, Attempt: r.Launch.Attempt, Owner: r.Launch.Owner}}}, nil
}

func (p *dayProvider) CancelJob(_ context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	j := p.cloud.job(r.Handle.ID)
	if j == nil {
		return sdk.CancelJobResult{Gone: true}, nil
	}
	j.c.Stop(0)
	<-j.c.Done()
	return sdk.CancelJobResult{Accepted: true, Gone: true}, nil
}

func (p *dayProvider) CleanupJob(_ context.Context, r sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
	p.cloud.mu.Lock()
	defer p.cloud.mu.Unlock()
	delete(p.cloud.jobs, r.Handle.ID)
	return sdk.CleanupJobResult{}, nil
}

func (p *dayProvider) JobLogs(ctx context.Context, r sdk.JobLogsRequest) iter.Seq2[sdk.LogItem, error] {
	return func(yield func(sdk.LogItem, error) bool) {
		j := p.cloud.job(r.Handle.ID)
		if j == nil {
			yield(sdk.LogItem{}, sdk.Errorf(sdk.NotFound, "read log", "there is no job"))
			return
		}
		// The executor has written all before the job is listed.
		if r.Cursor == nil {
			c := &sdk.LogCursor{V: sdk.CursorVersion, Kind: "day", Position: map[string]string{"at": "end"}}
			if !yield(sdk.LogItem{Entry: &sdk.LogChunk{Time: j.started, Stream: sdk.StreamStdout, LineEnd: sdk.LineEndKept, Data: j.out.Bytes()}, Cursor: c}, nil) {
				return
			}
		}
		select {
		case <-j.c.Done():
		case <-ctx.Done():
			yield(sdk.LogItem{}, context.Cause(ctx))
			return
		}
		yield(sdk.LogItem{End: &sdk.LogEnd{Verdict: sdk.VerdictComplete}}, nil)
	}
}

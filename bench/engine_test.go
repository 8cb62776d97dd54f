package bench

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// rig is an engine over the fake backend and a real ledger.
type rig struct {
	dir   string
	cloud *fake.Cloud
	store *sqlite.Store
	logs  *joblog.Store
	back  control.Backend
	seen  *sightings
}

// sightings counts the jobs whose state was asked for since a reset.
type sightings struct {
	sdk.JobBatcher
	mu   sync.Mutex
	jobs map[string]bool
}

func (s *sightings) JobStatuses(ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	res, err := s.JobBatcher.JobStatuses(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range r.Handles {
		s.jobs[h.ID] = true
	}
	return res, err
}

func (s *sightings) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.jobs)
}

func (s *sightings) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.jobs)
}

func newRig(tb testing.TB) *rig {
	tb.Helper()
	r := &rig{dir: tb.TempDir()}
	r.cloud = fake.NewCloud(fake.Options{})
	r.open(tb)
	return r
}

func (r *rig) open(tb testing.TB) {
	tb.Helper()
	var err error
	if r.store, err = sqlite.Open(tb.Context(), r.dir, sqlite.Options{}); err != nil {
		tb.Fatal(err)
	}
	if r.logs, err = joblog.Open(filepath.Join(r.dir, "logs"), joblog.Options{}); err != nil {
		tb.Fatal(err)
	}
	d := fake.NewDriver(r.cloud, fake.Settings{BatchMax: 100})
	p, err := d.Open(tb.Context(), sdk.OpenRequest{Name: "fake", Clock: sdk.SystemClock(), IDs: sdk.NewIDSource(sdk.SystemClock()),
		Log: slog.New(slog.DiscardHandler), Owner: r.store.ID(), LedgerID: r.store.ID(), StateDir: r.dir})
	if err != nil {
		tb.Fatal(err)
	}
	inner, ok := sdk.Of(p, sdk.Batcher())
	if !ok {
		tb.Fatal("the fake backend has no batches")
	}
	r.seen = &sightings{JobBatcher: inner, jobs: map[string]bool{}}
	if p, err = sdk.Decorate(p, map[string]any{sdk.Batcher().String(): r.seen}); err != nil {
		tb.Fatal(err)
	}
	r.back = control.Backend{Name: "fake", Provider: p, Driver: &d}
}

// run takes one job from submit to finished.
func (r *rig) run(tb testing.TB, e *control.Engine) {
	s, err := e.Submit(tb.Context(), fakeRequest("echo", "hello"))
	if err != nil {
		tb.Error(err)
		return
	}
	run, err := e.Wait(tb.Context(), s.Run.ID, control.MilestoneFinished)
	if err != nil || run.State != sdk.StateSucceeded {
		tb.Errorf("%s %v", run.State, err)
	}
}

func (r *rig) engine(tb testing.TB) *control.Engine {
	tb.Helper()
	e, err := control.New(tb.Context(), control.Options{Store: r.store, Logs: r.logs, Providers: one{r.back}, StateDir: r.dir, Actor: "bench"})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func (r *rig) shut(tb testing.TB, e *control.Engine) {
	tb.Helper()
	if err := e.Close(context.Background()); err != nil {
		tb.Error(err)
	}
	if err := r.store.Close(); err != nil {
		tb.Error(err)
	}
}

type one struct{ b control.Backend }

func (o one) Backend(context.Context, string) (control.Backend, error) { return o.b, nil }

func (o one) BackendFor(context.Context, ledger.Run) (control.Backend, error) { return o.b, nil }

func (o one) Names() []string { return []string{o.b.Name} }

func fakeRequest(args ...string) control.SubmitRequest {
	return control.SubmitRequest{Provider: "fake", Spec: sdk.JobSpec{Image: "img", Args: args}, Actor: "bench"}
}

// BenchmarkEngine runs jobs from submit to finished on the fake backend, 100 at
// a time, every intent durable.
func BenchmarkEngine(b *testing.B) {
	r := newRig(b)
	e := r.engine(b)
	b.ResetTimer()
	begin := time.Now()
	work := make(chan struct{})
	var wg sync.WaitGroup
	for range 100 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range work {
				r.run(b, e)
			}
		}()
	}
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	b.ReportMetric(float64(b.N)/time.Since(begin).Seconds(), "runs/s")
	b.StopTimer()
	r.shut(b, e)
}

// BenchmarkRecover is a new holder that takes up 10,000 runs whose holder has
// gone, until each of them has been seen alive again.
func BenchmarkRecover(b *testing.B) {
	const runs = 10_000
	r := newRig(b)
	first := r.engine(b)
	var wg sync.WaitGroup
	work := make(chan struct{})
	for range 100 {
		wg.Go(func() {
			for range work {
				s, err := first.Submit(b.Context(), fakeRequest("hang"))
				if err == nil {
					_, err = first.Wait(b.Context(), s.Run.ID, control.MilestoneSubmitted)
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	for range runs {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	if err := first.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		e := r.engine(b)
		r.seen.reset()
		begin := time.Now()
		n, err := e.Recover(b.Context(), "")
		if err != nil || n != runs {
			b.Fatalf("recovered %d: %v", n, err)
		}
		for r.seen.count() < runs {
			if err := sdk.SystemClock().Sleep(b.Context(), time.Millisecond); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(time.Since(begin).Seconds(), "s/10k-runs")
		b.StopTimer()
		if err := e.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.StopTimer()
	if err := r.store.Close(); err != nil {
		b.Error(err)
	}
}

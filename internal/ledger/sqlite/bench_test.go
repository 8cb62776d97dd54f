package sqlite_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/sdk"
)

func open(t testing.TB, dir string, o sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func ptr[T any](v T) *T { return &v }

// life is the writes of a run from its request to its end, as the engine makes
// them.
func life(ids sdk.IDSource, holder sdk.ID) []ledger.Write {
	run, attempt := ids.NewID(), ids.NewID()
	spec := []byte(`{"args":["ZWNobw==","aGVsbG8="],"image":"registry.example.com/team/app:1.4","labels":{"team":"payments"},"v":1}`)
	launch := []byte(fmt.Sprintf(`{"attempt":1,"attempt_id":%q,"identity":{"kind":"fake"},"kind":"fake","ledger_id":"x","owner":"o","request":{"image":"registry.example.com/team/app:1.4"},"resubmit":{"by":"name"},"run_id":%q,"v":1}`, attempt, run))
	handle := []byte(fmt.Sprintf(`{"id":%q,"identity":{"kind":"fake"},"kind":"fake","v":1}`, attempt))
	now := time.Now()
	w := func(ev ...ledger.NewEvent) ledger.Write {
		return ledger.Write{Run: run, Holder: holder, Fence: 1, Events: ev}
	}
	first := w(ledger.NewEvent{Kind: ledger.KindRequested, Actor: "ann@host", Change: ledger.Change{Requested: &ledger.Requested{Actor: "ann@host", Action: "run",
		Target: "registry.example.com/team/app:1.4", Provider: "fake", Identity: sdk.Identity{Kind: "fake"}, SpecHash: sdk.HashCanonical(spec), Spec: spec}}},
		ledger.NewEvent{Kind: ledger.KindIntent, Actor: "ann@host", Attempt: 1, Change: ledger.Change{Launched: &ledger.Launched{ID: attempt, Launch: launch}}})
	first.Claim = true
	return []ledger.Write{
		first,
		w(ledger.NewEvent{Kind: ledger.KindSubmitting, Actor: "command", Attempt: 1, Change: ledger.Change{Phase: ledger.PhaseSubmitting, SentAt: now}}),
		w(ledger.NewEvent{Kind: ledger.KindSubmitted, Actor: "command", Attempt: 1, Change: ledger.Change{Phase: ledger.PhaseSubmitted, Handle: handle}}),
		w(ledger.NewEvent{Kind: ledger.KindRunning, Actor: "command", Attempt: 1, Change: ledger.Change{Phase: ledger.PhaseRunning, State: sdk.StateRunning, StartedAt: now, SeenRunning: now}}),
		w(ledger.NewEvent{Kind: ledger.KindEnded, Actor: "command", Attempt: 1, Change: ledger.Change{Phase: ledger.PhaseEnded, State: sdk.StateSucceeded, Reason: ptr(sdk.ReasonCompleted), ExitCode: ptr(0), EndedAt: now}}),
		w(ledger.NewEvent{Kind: ledger.KindDrained, Actor: "command", Attempt: 1, Change: ledger.Change{Phase: ledger.PhaseDrained, Verdict: sdk.VerdictComplete}}),
		w(ledger.NewEvent{Kind: ledger.KindCleaned, Actor: "command", Attempt: 1, Change: ledger.Change{Phase: ledger.PhaseCleaned}},
			ledger.NewEvent{Kind: ledger.KindFinished, Actor: "command", Change: ledger.Change{Finished: true}}),
	}
}

// BenchmarkWriteParallel is lives of runs by 100 concurrent writers.
func BenchmarkWriteParallel(b *testing.B) {
	s := open(b, b.TempDir(), sqlite.Options{})
	ids := sdk.NewIDSource(sdk.SystemClock())
	holder := ids.NewID()
	ctx := context.Background()
	jobs := make(chan struct{})
	done := make(chan error, 100)
	b.ReportAllocs()
	b.ResetTimer()
	used := cpuTime()
	for range 100 {
		go func() {
			var err error
			for range jobs {
				for _, w := range life(ids, holder) {
					if werr := s.Write(ctx, w); werr != nil && err == nil {
						err = werr
					}
				}
			}
			done <- err
		}()
	}
	const writes = 7
	for i := 0; i < b.N; i += writes {
		jobs <- struct{}{}
	}
	close(jobs)
	for range 100 {
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
	b.ReportMetric(float64((cpuTime()-used).Microseconds())/float64(b.N), "cpu-µs/write")
	b.ReportMetric(float64(sqlite.Commits(s))/float64(b.N), "commits/write")
}

// fill writes n whole lives.
func fill(b testing.TB, s *sqlite.Store, n int) {
	b.Helper()
	ids := sdk.NewIDSource(sdk.SystemClock())
	holder := ids.NewID()
	jobs := make(chan struct{})
	const workers = 64
	done := make(chan error, workers)
	for range workers {
		go func() {
			var err error
			for range jobs {
				for _, w := range life(ids, holder) {
					if werr := s.Write(context.Background(), w); werr != nil && err == nil {
						err = werr
					}
				}
			}
			done <- err
		}()
	}
	for range n {
		jobs <- struct{}{}
	}
	close(jobs)
	for range workers {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen opens and closes a ledger that exists: every command pays it.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	s := open(b, dir, sqlite.Options{})
	fill(b, s, 1000)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	var opening time.Duration
	for b.Loop() {
		start := time.Now()
		s, err := sqlite.Open(context.Background(), dir, sqlite.Options{})
		if err != nil {
			b.Fatal(err)
		}
		opening += time.Since(start)
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(opening.Microseconds())/float64(b.N), "µs/open-alone")
}

// BenchmarkCreate makes a ledger: the first command in a state directory.
func BenchmarkCreate(b *testing.B) {
	dir := b.TempDir()
	for i := 0; b.Loop(); i++ {
		s, err := sqlite.Open(context.Background(), fmt.Sprintf("%s/%d", dir, i), sqlite.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCommand is what one short `windlass run` asks of its ledger.
func BenchmarkCommand(b *testing.B) {
	dir := b.TempDir()
	ids := sdk.NewIDSource(sdk.SystemClock())
	ctx := context.Background()
	fill(b, open(b, dir, sqlite.Options{}), 1000)
	for b.Loop() {
		s, err := sqlite.Open(ctx, dir, sqlite.Options{})
		if err != nil {
			b.Fatal(err)
		}
		for _, w := range life(ids, ids.NewID()) {
			if err := s.Write(ctx, w); err != nil {
				b.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkClaimAll takes over 10,000 open runs, as after a crash.
func BenchmarkClaimAll(b *testing.B) {
	s := open(b, b.TempDir(), sqlite.Options{})
	ids := sdk.NewIDSource(sdk.SystemClock())
	dead := ids.NewID()
	results := make(chan error)
	const n = 10_000
	for range n {
		w := life(ids, dead)[0]
		go func() { results <- s.Write(context.Background(), w) }()
	}
	for range n {
		if err := <-results; err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		taker := ids.NewID()
		runs, err := s.ClaimAll(context.Background(), taker, []sdk.ID{dead}, 0)
		if err != nil || len(runs) != n {
			b.Fatal(len(runs), err)
		}
		dead = taker
	}
}

// BenchmarkListRuns lists 10,000 runs.
func BenchmarkListRuns(b *testing.B) {
	s := open(b, b.TempDir(), sqlite.Options{})
	fill(b, s, 10_000)
	for b.Loop() {
		n := 0
		for _, err := range s.Runs(context.Background(), ledger.RunFilter{}) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 10_000 {
			b.Fatal(n)
		}
	}
}

// BenchmarkVerify verifies 10,000 runs with 90,000 events.
func BenchmarkVerify(b *testing.B) {
	s := open(b, b.TempDir(), sqlite.Options{})
	fill(b, s, 10_000)
	for b.Loop() {
		rep, err := s.Verify(context.Background(), nil)
		if err != nil || len(rep.Faults) > 0 {
			b.Fatal(err, rep.Faults)
		}
	}
}

package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/sdk"
)

// BenchmarkRetention is what a state folder takes before and after its runs' output
// is compressed, and before and after the record of half of them is cut: 2,000 runs
// with 200 lines each, as a program with a structured log writes them.
func BenchmarkRetention(b *testing.B) {
	if testing.Short() {
		b.Skip("it writes 2,000 runs")
	}
	const runs, lines = 2000, 200
	for b.Loop() {
		ctx, dir := b.Context(), b.TempDir()
		store, err := sqlite.Open(ctx, dir, sqlite.Options{})
		if err != nil {
			b.Fatal(err)
		}
		logs, err := joblog.Open(filepath.Join(dir, "logs"), joblog.Options{})
		if err != nil {
			b.Fatal(err)
		}
		ids := sdk.NewIDSource(sdk.SystemClock())
		var all []sdk.ID
		var half time.Time
		for i := range runs {
			if i == runs/2 {
				half = time.Now()
			}
			id := ids.NewID()
			all = append(all, id)
			if err := recordRun(ctx, store, id, ids.NewID()); err != nil {
				b.Fatal(err)
			}
			if err := writeLog(logs, id, lines); err != nil {
				b.Fatal(err)
			}
		}
		var packed joblog.Packed
		for _, id := range all {
			p, err := logs.Pack(ctx, id)
			if err != nil {
				b.Fatal(err)
			}
			packed.Before += p.Before
			packed.After += p.After
		}
		b.ReportMetric(float64(packed.Before), "output-B")
		b.ReportMetric(float64(packed.After), "packed-B")
		before := ledgerBytes(b, dir)
		if n, err := store.Prune(ctx, half, "bench"); err != nil || n != runs/2 {
			b.Fatal(n, err)
		}
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(before), "ledger-B")
		b.ReportMetric(float64(ledgerBytes(b, dir)), "pruned-B")
	}
}

func recordRun(ctx context.Context, s ledger.Store, run, attempt sdk.ID) error {
	spec := []byte(`{"args":["ZWNobw==","aGVsbG8="],"image":"registry.example.com/team/app:1.4","v":1}`)
	now, why, zero := time.Now(), sdk.ReasonCompleted, 0
	ev := func(kind ledger.Kind, attempt int, c ledger.Change) ledger.NewEvent {
		return ledger.NewEvent{Kind: kind, Actor: "ann@host", Attempt: attempt, Change: c}
	}
	for _, events := range [][]ledger.NewEvent{
		{ev(ledger.KindRequested, 0, ledger.Change{Requested: &ledger.Requested{Actor: "ann@host", Action: "run", Target: "registry.example.com/team/app:1.4", Provider: "fake",
			Identity: sdk.Identity{Kind: "fake"}, SpecHash: sdk.HashCanonical(spec), Spec: spec}}),
			ev(ledger.KindIntent, 1, ledger.Change{Launched: &ledger.Launched{ID: attempt, Launch: spec}})},
		{ev(ledger.KindSubmitting, 1, ledger.Change{Phase: ledger.PhaseSubmitting, SentAt: now})},
		{ev(ledger.KindSubmitted, 1, ledger.Change{Phase: ledger.PhaseSubmitted, Handle: spec})},
		{ev(ledger.KindRunning, 1, ledger.Change{Phase: ledger.PhaseRunning, State: sdk.StateRunning, StartedAt: now, SeenRunning: now})},
		{ev(ledger.KindEnded, 1, ledger.Change{Phase: ledger.PhaseEnded, State: sdk.StateSucceeded, Reason: &why, ExitCode: &zero, EndedAt: now})},
		{ev(ledger.KindDrained, 1, ledger.Change{Phase: ledger.PhaseDrained, Verdict: sdk.VerdictComplete})},
		{ev(ledger.KindCleaned, 1, ledger.Change{Phase: ledger.PhaseCleaned}), ev(ledger.KindFinished, 0, ledger.Change{Finished: true})},
	} {
		if err := s.Write(ctx, ledger.Write{Run: run, Events: events}); err != nil {
			return err
		}
	}
	return nil
}

func writeLog(s *joblog.Store, run sdk.ID, lines int) error {
	w, err := s.Writer(joblog.Key{Run: run, Attempt: 1}, 1)
	if err != nil {
		return err
	}
	for i := range lines {
		at := time.Now()
		line := fmt.Sprintf(`{"time":%q,"level":"info","msg":"request served","path":"/v1/items/%d","status":200,"took_ms":%d}`+"\n", at.Format(time.RFC3339Nano), i*7919%1000, i*31%97)
		if err := w.Append(sdk.LogItem{Entry: &sdk.LogChunk{Stream: sdk.StreamStdout, Data: []byte(line), Time: at, LineEnd: sdk.LineEndKept}}); err != nil {
			return err
		}
	}
	if _, err := w.Finish(sdk.VerdictComplete); err != nil {
		return err
	}
	return w.Close()
}

// ledgerBytes is what the database takes with its log.
func ledgerBytes(b *testing.B, dir string) (n int64) {
	b.Helper()
	for _, name := range []string{"ledger.db", "ledger.db-wal"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err == nil {
			n += st.Size()
		}
	}
	return n
}

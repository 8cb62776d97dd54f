package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/sdk"
)

// ledgerRows is how many rows BenchmarkLedgerRows has, of which openRows have
// something left to do, and how many the ledger has that it is compared with.
const (
	ledgerRows = 100_000
	fewRows    = 20
	openRows   = 10
)

// BenchmarkLedgerRows is commands of the real program, each started anew, on a ledger
// of 100,000 rows, in turn with the same command on one of 20: what a row costs those who don't ask for
// it. The files are in the system's cache but for ps-cold.
func BenchmarkLedgerRows(b *testing.B) {
	if testing.Short() {
		b.Skip("it writes 100,000 rows")
	}
	bin := build(b)
	begun := time.Now()
	n := runsOr(b, ledgerRows)
	many, few := newRows(b, n), newRows(b, fewRows)
	b.Logf("%d rows written in %s: %d MB", n, time.Since(begun).Round(time.Second), ledgerBytes(b, many.dir)>>20)
	compare := func(name string, args ...string) {
		b.Run(name, func(b *testing.B) {
			pair(b, func() time.Duration { return many.time(b, bin, args...) }, func() time.Duration { return few.time(b, bin, args...) })
		})
	}
	compare("ps", "ps")
	b.Run("ps-cold", func(b *testing.B) {
		cold := func(r *rows) time.Duration {
			r.forget(b)
			return r.time(b, bin, "ps")
		}
		pair(b, func() time.Duration { return cold(many) }, func() time.Duration { return cold(few) })
	})
	compare("ps-last", "ps", "-n", "50")
	compare("ps-failed", "ps", "--filter", "state=failed", "-n", "50")
	compare("ps-name", "ps", "-a", "--filter", "name=nightly")
	compare("ps-all-quiet", "ps", "-a", "-q")
	compare("ps-all", "ps", "-a")
	b.Run("status", func(b *testing.B) {
		pair(b, func() time.Duration { return many.time(b, bin, "status", many.oldest.Short()) }, func() time.Duration { return few.time(b, bin, "status", few.oldest.Short()) })
	})
	compare("status-name", "status", "nightly")
	compare("ledger-log", "ledger", "log", "--since", "1h", "-n", "50")
	compare("doctor", "doctor")
	compare("reap", "reap", "--on", "local", "--dry-run")
	compare("run", "run", "--", "true")
	compare("ledger-verify", "ledger", "verify")
}

// rows is a state folder whose ledger has many rows.
type rows struct {
	dir    string
	env    []string
	oldest sdk.ID
}

// newRows makes one with n rows. The open ones are held by this process, as a keeper would
// hold them.
func newRows(b *testing.B, n int) *rows {
	b.Helper()
	env := state(b)
	r := &rows{dir: env[0][len("WINDLASS_STATE="):], env: append(env, "WINDLASS_KEEPER=off", "DOCKER_HOST=unix:///nowhere/docker.sock")}
	ctx := b.Context()
	store, err := sqlite.Open(ctx, r.dir, sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	ids := sdk.NewIDSource(sdk.SystemClock())
	r.oldest = ids.NewID()
	h := ledger.Holder{ID: ids.NewID(), Kind: "keeper", PID: os.Getpid(), Host: "bench", LockFile: filepath.Join(r.dir, "holders", "bench.lock"), Started: time.Now(), Expires: time.Now().Add(24 * time.Hour)}
	if err := os.MkdirAll(filepath.Dir(h.LockFile), 0o700); err != nil {
		b.Fatal(err)
	}
	lock := flock.New(h.LockFile)
	if ok, err := lock.TryLock(); err != nil || !ok {
		b.Fatal(ok, err)
	}
	b.Cleanup(func() {
		if err := lock.Close(); err != nil {
			b.Error(err)
		}
	})
	if err := store.PutHolder(ctx, h); err != nil {
		b.Fatal(err)
	}
	if err := store.Write(ctx, wholeRun(r.oldest, ids.NewID(), h.ID, 0, true)); err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	work := make(chan int)
	for range 64 {
		wg.Go(func() {
			for i := range work {
				if err := store.Write(ctx, wholeRun(ids.NewID(), ids.NewID(), h.ID, i, i < n-openRows)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := 1; i < n; i++ {
		work <- i
	}
	close(work)
	wg.Wait()
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
	return r
}

// wholeRun is all that a run has on record, in one write: of a hundred runs one has the
// name of a job of every night, and one in twenty failed.
func wholeRun(run, attempt, holder sdk.ID, i int, ended bool) ledger.Write {
	spec := fmt.Appendf(nil, `{"args":["ZWNobw==","aGVsbG8="],"env":{"ITEM":"%d"},"image":"registry.example.com/team/app:1.4","v":1}`, i)
	launch := fmt.Appendf(nil, `{"attempt":1,"attempt_id":%q,"identity":{"kind":"local"},"kind":"local","ledger_id":"x","owner":"o","request":{"image":"registry.example.com/team/app:1.4"},"resubmit":{"by":"name"},"run_id":%q,"v":1}`, attempt, run)
	handle := fmt.Appendf(nil, `{"id":%q,"identity":{"kind":"local"},"kind":"local","v":1}`, attempt)
	name := ""
	if i%100 == 0 {
		name = "nightly"
	}
	now, state, why, code := time.Now(), sdk.StateSucceeded, sdk.ReasonCompleted, 0
	if i%20 == 0 {
		state, why, code = sdk.StateFailed, sdk.ReasonNonzeroExit, 1
	}
	ev := func(kind ledger.Kind, attempt int, c ledger.Change) ledger.NewEvent {
		return ledger.NewEvent{Kind: kind, Actor: "ann@host", Attempt: attempt, Change: c}
	}
	events := []ledger.NewEvent{
		ev(ledger.KindRequested, 0, ledger.Change{Requested: &ledger.Requested{Actor: "ann@host", Action: "run", Name: name, Target: "registry.example.com/team/app:1.4", Provider: "local",
			Identity: sdk.Identity{Kind: "local"}, SpecHash: sdk.HashCanonical(spec), Spec: spec}}),
		ev(ledger.KindIntent, 1, ledger.Change{Launched: &ledger.Launched{ID: attempt, Launch: launch}}),
		ev(ledger.KindSubmitting, 1, ledger.Change{Phase: ledger.PhaseSubmitting, SentAt: now}),
		ev(ledger.KindSubmitted, 1, ledger.Change{Phase: ledger.PhaseSubmitted, Handle: handle}),
		ev(ledger.KindRunning, 1, ledger.Change{Phase: ledger.PhaseRunning, State: sdk.StateRunning, StartedAt: now, SeenRunning: now}),
	}
	if ended {
		events = append(events,
			ev(ledger.KindEnded, 1, ledger.Change{Phase: ledger.PhaseEnded, State: state, Reason: &why, ExitCode: &code, EndedAt: now}),
			ev(ledger.KindDrained, 1, ledger.Change{Phase: ledger.PhaseDrained, Verdict: sdk.VerdictComplete}),
			ev(ledger.KindCleaned, 1, ledger.Change{Phase: ledger.PhaseCleaned}),
			ev(ledger.KindFinished, 0, ledger.Change{Finished: true}))
	}
	return ledger.Write{Run: run, Holder: holder, Claim: true, Events: events}
}

// time is how long a command takes on the folder.
func (r *rows) time(b *testing.B, bin string, args ...string) time.Duration {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), bin, args...)
	cmd.Env = append(os.Environ(), r.env...)
	var told bytes.Buffer
	cmd.Stderr = &told
	out, err := os.CreateTemp(r.dir, "out-")
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = out.Close()
		_ = os.Remove(out.Name())
	}()
	cmd.Stdout = out
	begun := time.Now()
	if err := cmd.Run(); err != nil {
		b.Fatalf("%s: %v\n%s", cmd, err, told.String())
	}
	return time.Since(begun)
}

// forget puts the folder's files out of the system's cache.
func (r *rows) forget(b *testing.B) {
	b.Helper()
	list, err := os.ReadDir(r.dir)
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range list {
		if !e.Type().IsRegular() {
			continue
		}
		if err := forgetFile(filepath.Join(r.dir, e.Name())); err != nil {
			b.Fatal(err)
		}
	}
}

func forgetFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	// What isn't written yet stays in the cache.
	if err := f.Sync(); err != nil {
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

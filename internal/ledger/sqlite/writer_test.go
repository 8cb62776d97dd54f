package sqlite_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/ledgertest"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

const patience = time.Minute

func lock(t testing.TB, dir string) (unlock func()) {
	t.Helper()
	release, err := sqlite.Lock(context.Background(), dbPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	done := false
	unlock = func() {
		if !done {
			done = true
			if err := release(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(unlock)
	return unlock
}

// TestGroupCommit: what waits together is committed, and so synced, once.
func TestGroupCommit(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, sqlite.Options{})
	ids := sdk.NewIDSource(sdk.SystemClock())
	const writers = 100
	unlock := lock(t, dir)
	results := make(chan error, writers)
	for range writers {
		w := ledgertest.NewScript(ids, sdk.ID{}, nil).Writes[0]
		go func() { results <- s.Write(context.Background(), w) }()
	}
	// The first is already in the writer's hands.
	testwait.Until(t, patience, "queue of writers", func() bool { return sqlite.Queued(s) == writers-1 })
	before := sqlite.Commits(s)
	unlock()
	for range writers {
		if err := testwait.Receive(t, patience, "write", results); err != nil {
			t.Error(err)
		}
	}
	if n := sqlite.Commits(s) - before; n != 1 {
		t.Errorf("%d writes took %d commits, want 1", writers, n)
	}
	// One writer alone has one commit per write, and a refused one has none.
	before = sqlite.Commits(s)
	sc := ledgertest.NewScript(ids, sdk.ID{}, nil)
	for _, w := range sc.Writes {
		if err := s.Write(t.Context(), w); err != nil {
			t.Error(err)
		}
	}
	if err := s.Write(t.Context(), sc.Writes[0]); !errors.Is(err, sdk.AlreadyExists) {
		t.Error(err)
	}
	if n := sqlite.Commits(s) - before; n != int64(len(sc.Writes)) {
		t.Errorf("%d writes one by one took %d commits", len(sc.Writes), n)
	}
}

// TestBadCallSpoilsNobody: a call that fails in the middle of a shared
// transaction takes its own changes with it, and nobody else's.
func TestBadCallSpoilsNobody(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, sqlite.Options{})
	if _, err := sqlite.Exec(t.Context(), dbPath(dir), "CREATE TRIGGER bad AFTER INSERT ON holders WHEN NEW.kind='bad' BEGIN SELECT raise(ABORT,'bad holder'); END"); err != nil {
		t.Fatal(err)
	}
	ids := sdk.NewIDSource(sdk.SystemClock())
	const calls = 30
	type result struct {
		i   int
		err error
	}
	unlock := lock(t, dir)
	results := make(chan result, calls)
	var want []sdk.ID
	for i := range calls {
		sc := ledgertest.NewScript(ids, sdk.ID{}, nil)
		if i%3 != 0 {
			want = append(want, sc.Run)
		}
		go func() {
			if i%3 == 0 {
				results <- result{i, s.PutHolder(context.Background(), ledger.Holder{ID: ids.NewID(), Kind: "bad"})}
			} else {
				results <- result{i, s.Write(context.Background(), sc.Writes[0])}
			}
		}()
	}
	testwait.Until(t, patience, "queue of calls", func() bool { return sqlite.Queued(s) == calls-1 })
	unlock()
	for range calls {
		r := testwait.Receive(t, patience, "call", results)
		if (r.err != nil) != (r.i%3 == 0) {
			t.Errorf("call %d: %v", r.i, r.err)
		}
	}
	for _, id := range want {
		if _, err := s.Run(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if h, err := s.Holders(t.Context()); err != nil || len(h) != 0 {
		t.Errorf("holders: %v, %v", h, err)
	}
	if rep, err := s.Verify(t.Context(), nil); err != nil || len(rep.Faults) != 0 || rep.Runs != int64(len(want)) {
		t.Errorf("%+v, %v", rep, err)
	}
}

// TestBusy: another process that writes is waited for, but not for ever, and
// not when the caller goes away.
func TestBusy(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, sqlite.Options{})
	short := open(t, dir, sqlite.Options{BusyTimeout: 30 * time.Millisecond})
	ids := sdk.NewIDSource(sdk.SystemClock())
	first := func() ledger.Write { return ledgertest.NewScript(ids, sdk.ID{}, nil).Writes[0] }
	unlock := lock(t, dir)

	isError(t, short.Write(t.Context(), first()), sdk.Unavailable, "ledger.busy", dir)
	if _, err := short.Run(t.Context(), ids.NewID()); !errors.Is(err, sdk.NotFound) {
		t.Errorf("reading waits for a writer: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	gone := first()
	if err := s.Write(ctx, gone); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("write whose caller went away: %v", err)
	}
	waiting := make(chan error, 1)
	kept := first()
	go func() { waiting <- s.Write(context.Background(), kept) }()
	unlock()
	if err := testwait.Receive(t, patience, "write", waiting); err != nil {
		t.Error(err)
	}
	if _, err := s.Run(t.Context(), gone.Run); !errors.Is(err, sdk.NotFound) {
		t.Errorf("the write whose caller went away: %v", err)
	}
	if err := short.Write(t.Context(), first()); err != nil {
		t.Error(err)
	}
}

// TestOpenWhileBusy: a process that writes doesn't keep others from opening.
func TestOpenWhileBusy(t *testing.T) {
	dir, _ := written(t, 1)
	defer lock(t, dir)()
	open(t, dir, sqlite.Options{})
}

// TestPollsOnlyWhileAwaited: an idle ledger costs nothing.
func TestPollsOnlyWhileAwaited(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir, sqlite.Options{}), open(t, dir, sqlite.Options{})
	if sqlite.Polling(s) {
		t.Error("it polls before anybody waits")
	}
	c := s.Changed()
	testwait.Until(t, patience, "polling", func() bool { return sqlite.Polling(s) })
	fill(t, other, 1)
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal("the change was not seen")
	}
	testwait.Until(t, patience, "end of polling", func() bool { return !sqlite.Polling(s) })
}

// TestForeignCommitsBetween: two handles write to one run in turns.
func TestForeignCommitsBetween(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir, sqlite.Options{}), open(t, dir, sqlite.Options{})
	ids := sdk.NewIDSource(sdk.SystemClock())
	sc := ledgertest.NewScript(ids, ids.NewID(), nil)
	for i, w := range sc.Writes {
		if err := a.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		// b's writes to the same run must not be lost on a, which knows the run.
		if i%2 == 0 {
			if err := b.Write(t.Context(), ledger.Write{Run: sc.Run, Events: []ledger.NewEvent{{Kind: ledger.KindCancelAsk, Actor: "bob", Change: ledger.Change{CancelBy: "bob"}}}}); err != nil {
				t.Fatal(err)
			}
		} else {
			fill(t, b, 1)
		}
	}
	run, err := a.Run(t.Context(), sc.Run)
	if err != nil || run.CancelBy != "bob" || run.Events != sc.Events()+4 {
		t.Errorf("%+v, %v", run, err)
	}
	if rep, err := a.Verify(t.Context(), nil); err != nil || len(rep.Faults) != 0 {
		t.Errorf("%+v, %v", rep, err)
	}
}

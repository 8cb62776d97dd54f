package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	osexec "os/exec"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/sdk"
)

// size is the size of a ledger's file once its log is moved into it.
func size(t testing.TB, dir string) int64 {
	t.Helper()
	if _, err := sqlite.Exec(context.Background(), dbPath(dir), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(dbPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	return st.Size()
}

func TestPruneGivesSpaceBack(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, sqlite.Options{})
	empty := size(t, dir)
	fill(t, s, 200)
	full := size(t, dir)
	if full < 2*empty {
		t.Fatalf("200 runs take %d bytes, none %d", full, empty)
	}
	if n, err := s.Prune(t.Context(), time.Now().Add(time.Hour), "ann"); n != 200 || err != nil {
		t.Fatal(n, err)
	}
	if got := size(t, dir); got > empty+64<<10 {
		t.Errorf("pruned, the ledger takes %d bytes; empty it took %d, full %d", got, empty, full)
	}
	if rep, err := s.Verify(t.Context(), nil); err != nil || len(rep.Faults) != 0 || rep.Runs != 0 {
		t.Errorf("%+v, %v", rep, err)
	}
	fill(t, s, 1)
}

// TestOldLedgerGivesSpaceBack: a ledger of the first schema, whose file can't give
// pages back, can after its migration.
func TestOldLedgerGivesSpaceBack(t *testing.T) {
	dir := t.TempDir()
	old := open(t, dir, first(t))
	fill(t, old, 200)
	head, err := old.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", dbPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	for _, text := range []string{"PRAGMA auto_vacuum=NONE", "VACUUM"} {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	full := size(t, dir)
	s := open(t, dir, sqlite.Options{})
	if rep, err := s.Verify(t.Context(), &head); err != nil || len(rep.Faults) != 0 || rep.Head != head {
		t.Errorf("after the migration: %+v, %v", rep, err)
	}
	if n, err := s.Prune(t.Context(), time.Now().Add(time.Hour), "ann"); n != 200 || err != nil {
		t.Fatal(n, err)
	}
	if got := size(t, dir); got > full/2 {
		t.Errorf("pruned, the ledger takes %d bytes of %d", got, full)
	}
}

const (
	pruneChild = "prune-child"
	killBatch  = 5
)

// hangs is a clock that stops a pruning in the middle of a transaction: the time is
// asked for when its rows are gone and its checkpoint is about to be written.
type hangs struct {
	sdk.Clock
	left int
}

func (c *hangs) Now() time.Time {
	if c.left--; c.left == 0 {
		fmt.Println("rows are gone")
		select {}
	}
	return c.Clock.Now()
}

// pruneMain is the process that is killed.
func pruneMain() {
	if len(os.Args) != 3 || os.Args[1] != pruneChild {
		return
	}
	s, err := sqlite.Open(context.Background(), os.Args[2], sqlite.Options{Clock: &hangs{sdk.SystemClock(), 3}}.WithPruneRuns(killBatch))
	if err == nil {
		_, err = s.Prune(context.Background(), time.Now().Add(time.Hour), "ann")
	}
	fmt.Fprintln(os.Stderr, "it wasn't killed:", err)
	os.Exit(1)
}

// TestKilledPrune: a pruning that is killed in the middle of a transaction leaves
// that one undone, those before it done, and the chain whole.
func TestKilledPrune(t *testing.T) {
	const runs = 4 * killBatch
	dir, head := written(t, runs)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := osexec.CommandContext(t.Context(), exe, pruneChild, dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if kerr := cmd.Process.Kill(); kerr != nil {
		t.Fatal(kerr)
	}
	_ = cmd.Wait()
	if err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	s := open(t, dir, sqlite.Options{})
	if rep, err := s.Verify(t.Context(), &head); err != nil || len(rep.Faults) != 0 || rep.Runs != runs-2*killBatch {
		t.Errorf("after the kill: %+v, %v", rep, err)
	}
	if n, err := s.Prune(t.Context(), time.Now().Add(time.Hour), "bob"); n != runs-2*killBatch || err != nil {
		t.Errorf("pruned on: %d, %v", n, err)
	}
	if rep, err := s.Verify(t.Context(), &head); err != nil || len(rep.Faults) != 0 || rep.Runs != 0 {
		t.Errorf("in the end: %+v, %v", rep, err)
	}
}

package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/ledgertest"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// refused opens a ledger that must be refused, and returns the error.
func refused(t testing.TB, dir string, o sqlite.Options, code sdk.Code, id string, words ...string) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), dir, o)
	if err == nil {
		_ = s.Close()
		t.Fatal("it was opened")
	}
	isError(t, err, code, id, words...)
}

func isError(t testing.TB, err error, code sdk.Code, id string, words ...string) {
	t.Helper()
	var e *sdk.Error
	if !errors.As(err, &e) || e.Code != code || e.ID != id {
		t.Fatalf("%v (%v), want %v %s", err, sdk.CodeOf(err), code, id)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q doesn't say %q", err, w)
		}
	}
	if e.Remedy == "" {
		t.Errorf("%q says no remedy", err)
	}
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes")
	}
	dir := filepath.Join(t.TempDir(), "a b%?#c", "state") // what a path may hold, a URI must escape
	s := open(t, dir, sqlite.Options{})
	fill(t, s, 3)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, sqlite.Options{HeadInterval: time.Hour})
	fill(t, s, 3)
	var names []string
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		names = append(names, d.Name())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(names, " "), "state ledger.ballast ledger.db ledger.db-shm ledger.db-wal ledger.head ledger.turn"; got != want {
		t.Errorf("files: %s, want %s", got, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dbPath(dir), 0o644); err != nil {
		t.Fatal(err)
	}
	open(t, dir, sqlite.Options{})
	if info, err := os.Stat(dbPath(dir)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a loosened mode stays: %v, %v", info.Mode(), err)
	}
}

func TestNetworkFileSystemRefused(t *testing.T) {
	o := sqlite.Options{}.WithNetwork(func(string) (string, error) { return "nfs", nil })
	dir := t.TempDir()
	refused(t, dir, o, sdk.FailedPrecondition, "ledger.network", dir, "nfs", "WINDLASS_STATE")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("files were made: %v, %v", entries, err)
	}
}

// TestStaleFilesGo: what killed processes left is removed, what may be in use
// is not.
func TestStaleFilesGo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "od[d]*")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-2 * time.Hour)
	for _, name := range []string{"ledger.head.1", "ledger.db.new.2", "ledger.ballast.3"} {
		write(t, filepath.Join(dir, name), nil)
		write(t, filepath.Join(dir, name+"new"), nil)
		if err := os.Chtimes(filepath.Join(dir, name), long, long); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir, sqlite.Options{})
	fill(t, s, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ledger.head.1", "ledger.db.new.2", "ledger.ballast.3"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s stays", name)
		}
		if _, err := os.Stat(filepath.Join(dir, name+"new")); err != nil {
			t.Errorf("%snew went: %v", name, err)
		}
	}
}

// TestHeadFileFollows: it is written some time after a commit, too.
func TestHeadFileFollows(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, sqlite.Options{HeadInterval: time.Millisecond})
	fill(t, s, 3)
	want, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, 20*time.Second, "head file at the end of the chain", func() bool {
		got, err := ledger.ReadHead(filepath.Join(dir, ledger.HeadFile))
		return err == nil && got != nil && *got == want
	})
}

func TestHeadFile(t *testing.T) {
	dir, head := written(t, 2)
	path := filepath.Join(dir, ledger.HeadFile)
	kept, err := ledger.ReadHead(path)
	if err != nil || *kept != head {
		t.Fatalf("after close the head file says %v (%v), want %v", kept, err, head)
	}
	var raw map[string]any
	if err := json.Unmarshal(read(t, path), &raw); err != nil || len(raw) != 3 {
		t.Errorf("%s: %v", read(t, path), err)
	}
	put := func(h ledger.Head) {
		t.Helper()
		if err := ledger.WriteHead(path, h); err != nil {
			t.Fatal(err)
		}
	}
	put(ledger.Head{LedgerID: head.LedgerID, Count: 3, Hash: "whatever"}) // an older one is accepted
	if err := open(t, dir, sqlite.Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]ledger.Head{
		"further":        {LedgerID: head.LedgerID, Count: head.Count + 1, Hash: head.Hash},
		"other end":      {LedgerID: head.LedgerID, Count: head.Count, Hash: strings.Repeat("0", 64)},
		"another ledger": {LedgerID: sdk.ID{1}.String(), Count: 1, Hash: head.Hash},
	} {
		t.Run(name, func(t *testing.T) {
			put(h)
			refused(t, dir, sqlite.Options{}, sdk.DataLoss, "ledger.behind", "windlass ledger verify", ledger.HeadFile)
			s := open(t, dir, sqlite.Options{Inspect: true})
			if rep, err := s.Verify(t.Context(), &h); err != nil || len(rep.Faults) == 0 {
				t.Errorf("verify: %+v, %v", rep, err)
			}
			err := s.PutHolder(t.Context(), ledger.Holder{ID: sdk.ID{1}})
			isError(t, err, sdk.DataLoss, "ledger.behind")
		})
	}
	write(t, path, []byte("{"))
	refused(t, dir, sqlite.Options{}, sdk.DataLoss, "", "ledger.head")
	open(t, dir, sqlite.Options{Inspect: true})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	open(t, dir, sqlite.Options{})
}

// TestHeadFileNeverGoesBack: two processes, of which the one that is behind
// writes last.
func TestHeadFileNeverGoesBack(t *testing.T) {
	dir, _ := written(t, 1)
	o := sqlite.Options{HeadInterval: time.Hour}
	slow, fast := open(t, dir, o), open(t, dir, o)
	fill(t, slow, 1)
	fill(t, fast, 1)
	if err := fast.Close(); err != nil {
		t.Fatal(err)
	}
	want, _ := ledger.ReadHead(filepath.Join(dir, ledger.HeadFile))
	if err := slow.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := ledger.ReadHead(filepath.Join(dir, ledger.HeadFile)); err != nil || *got != *want {
		t.Errorf("the head file went from %v to %v (%v)", want, got, err)
	}
}

// emptyLog moves everything into the database's main file.
func emptyLog(t testing.TB, dir string) {
	t.Helper()
	if _, err := sqlite.Exec(t.Context(), dbPath(dir), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dbPath(dir) + "-wal"); err == nil {
		t.Fatal("the log is still there")
	}
}

// TestLogIsLeftAndTakenUp: a small log outlives its process, a large one goes.
func TestLogIsLeftAndTakenUp(t *testing.T) {
	dir, head := written(t, 3)
	if info, err := os.Stat(dbPath(dir) + "-wal"); err != nil || info.Size() == 0 {
		t.Errorf("the small log: %v, %v", info, err)
	}
	s := open(t, dir, sqlite.Options{})
	if rep, err := s.Verify(t.Context(), &head); err != nil || rep.Head != head || len(rep.Faults) != 0 {
		t.Errorf("%+v, %v", rep, err)
	}
	fill(t, s, 300)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dbPath(dir) + "-wal"); err == nil {
		t.Errorf("a log of %d bytes was left", info.Size())
	}
	open(t, dir, sqlite.Options{})
}

func TestDamagedFiles(t *testing.T) {
	for _, tc := range []struct {
		name   string
		damage func(b []byte) []byte
	}{
		{"empty", func([]byte) []byte { return nil }},
		{"text", func([]byte) []byte { return []byte(strings.Repeat("not a database\n", 500)) }},
		{"no header", func(b []byte) []byte { clear(b[:100]); return b }},
		{"half a page", func(b []byte) []byte { return b[:2048] }},
		{"schema page", func(b []byte) []byte { clear(b[100:4096]); return b }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, _ := written(t, 20)
			emptyLog(t, dir)
			write(t, dbPath(dir), tc.damage(read(t, dbPath(dir))))
			refused(t, dir, sqlite.Options{}, sdk.DataLoss, "ledger.damaged", "windlass ledger verify", "backup")
		})
	}
	t.Run("a page inside", func(t *testing.T) {
		dir, _ := written(t, 20)
		emptyLog(t, dir)
		b := read(t, dbPath(dir))
		for i := 2 * 4096; i < len(b); i++ {
			b[i] ^= 0x5a
		}
		write(t, dbPath(dir), b)
		s, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
		if err != nil {
			isError(t, err, sdk.DataLoss, "ledger.damaged")
			return
		}
		_, err = s.Verify(t.Context(), nil)
		isError(t, err, sdk.DataLoss, "ledger.damaged")
		_ = s.Close()
	})
	t.Run("another database", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dbPath(dir), nil)
		if _, err := sqlite.Exec(t.Context(), dbPath(dir), "CREATE TABLE x (y)"); err != nil {
			t.Fatal(err)
		}
		refused(t, dir, sqlite.Options{}, sdk.DataLoss, "ledger.damaged", "not a ledger")
	})
}

// with is the present schema and one more migration.
func with(t testing.TB, more string) sqlite.Options {
	t.Helper()
	files := fstest.MapFS{}
	for i, name := range migrations(t) {
		data, err := fs.ReadFile(sqlite.Migrations(), name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: data}
		if i+1 == present {
			files[fmt.Sprintf("%05d_more.sql", present+1)] = &fstest.MapFile{Data: []byte("-- +goose Up\n" + more)}
		}
	}
	return sqlite.Options{}.WithSchema(files, present+1, "9.9.9")
}

// present is the schema that this program writes.
const present = 2

func migrations(t testing.TB) []string {
	t.Helper()
	names, err := fs.Glob(sqlite.Migrations(), "*.sql")
	if err != nil || len(names) != present {
		t.Fatalf("migrations: %v, %v", names, err)
	}
	return names
}

// next is the schema of a release to come.
func next(t testing.TB) sqlite.Options {
	t.Helper()
	return with(t, fmt.Sprintf("ALTER TABLE holders ADD COLUMN mood TEXT;\nPRAGMA user_version = %d;\n", present+1))
}

// first is the schema of the first release.
func first(t testing.TB) sqlite.Options {
	t.Helper()
	name := migrations(t)[0]
	data, err := fs.ReadFile(sqlite.Migrations(), name)
	if err != nil {
		t.Fatal(err)
	}
	return sqlite.Options{}.WithSchema(fstest.MapFS{name: {Data: data}}, 1, "0.1.0")
}

func TestMigrationWithCopy(t *testing.T) {
	dir, head := written(t, 5)
	old := open(t, dir, sqlite.Options{}) // an older program that is still running
	fill(t, old, 1)
	before, err := old.Head(t.Context())
	if err != nil || before.Count <= head.Count {
		t.Fatal(before, err)
	}
	// Several newer programs come at once.
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := sqlite.Open(context.Background(), dir, next(t))
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			if err := s.PutHolder(context.Background(), ledger.Holder{ID: sdk.ID{1}}); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := open(t, dir, next(t))
	if rep, err := s.Verify(t.Context(), &before); err != nil || len(rep.Faults) != 0 || rep.Head != before {
		t.Errorf("after the migration: %+v, %v", rep, err)
	}
	refused(t, dir, sqlite.Options{}, sdk.FailedPrecondition, "ledger.newer", "9.9.9", "schema 3", dbPath(dir))
	err = old.Write(t.Context(), ledgertest.NewScript(sdk.NewIDSource(sdk.SystemClock()), sdk.ID{}, nil).Writes[0])
	isError(t, err, sdk.FailedPrecondition, "ledger.newer", "9.9.9")

	copies, err := filepath.Glob(filepath.Join(dir, "ledger.db.v2-*.bak"))
	if err != nil || len(copies) != 1 {
		t.Fatalf("copies: %v, %v", copies, err)
	}
	if info, err := os.Stat(copies[0]); err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("the copy has mode %v, %v", info.Mode(), err)
	}
	// The copy is the ledger as it was: put back, the older program works on.
	back := t.TempDir()
	write(t, dbPath(back), read(t, copies[0]))
	restored := open(t, back, sqlite.Options{})
	if rep, err := restored.Verify(t.Context(), &before); err != nil || len(rep.Faults) != 0 || rep.Head != before {
		t.Errorf("the copy: %+v, %v", rep, err)
	}
	fill(t, restored, 1)
}

func TestFailedMigrationChangesNothing(t *testing.T) {
	dir, head := written(t, 2)
	broken := with(t, fmt.Sprintf("ALTER TABLE holders ADD COLUMN mood TEXT;\nPRAGMA user_version = %d;\nSELECT nonsense;\n", present+1))
	if s, err := sqlite.Open(t.Context(), dir, broken); err == nil {
		_ = s.Close()
		t.Fatal("it was opened")
	}
	s := open(t, dir, sqlite.Options{})
	if rep, err := s.Verify(t.Context(), &head); err != nil || len(rep.Faults) != 0 {
		t.Errorf("%+v, %v", rep, err)
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	dir, _ := written(t, 1)
	empty := t.TempDir()
	if os.Geteuid() == 0 {
		// Modes don't stop root: a read-only mount does.
		readOnlyMount(t, dir)
		readOnlyMount(t, empty)
	} else {
		for _, d := range []string{dir, empty} {
			if err := os.Chmod(d, 0o500); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(d, 0o700) })
		}
	}
	for _, d := range []string{dir, empty, filepath.Join(empty, "new")} {
		refused(t, d, sqlite.Options{}, sdk.FailedPrecondition, "ledger.readonly", d, "writable", "WINDLASS_STATE")
	}
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, nil)
	refused(t, file, sqlite.Options{}, sdk.FailedPrecondition, "ledger.readonly", file)
}

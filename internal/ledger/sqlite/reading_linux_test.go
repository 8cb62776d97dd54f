package sqlite_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/sdk"
)

// readOnly returns a path at which a folder can be read and not be written:
// for root a read-only mount of it, for others the folder without the right.
func readOnly(t *testing.T, dir string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Chmod(dir, 0o700); err != nil {
				t.Error(err)
			}
		})
		return dir
	}
	at := t.TempDir()
	if err := unix.Mount(dir, at, "", unix.MS_BIND, ""); err != nil {
		testneed.Missing(t, "the right to mount", err, "run the tests in a container with CAP_SYS_ADMIN")
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	return at
}

// snapshotDir copies what a folder holds, as a backup would.
func snapshotDir(t *testing.T, dir string, names ...string) string {
	t.Helper()
	to := t.TempDir()
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		out = append(out, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestReadingWithoutWriting reads a ledger that can't be written, in each form in
// which its log may be there.
func TestReadingWithoutWriting(t *testing.T) {
	live := t.TempDir()
	s := open(t, live, sqlite.Options{})
	fill(t, s, 5)
	head, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	whole := snapshotDir(t, live, "ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.head")
	log := snapshotDir(t, live, "ledger.db", "ledger.db-wal", "ledger.head")
	merged, mergedHead := written(t, 2)
	exec(t, merged, "PRAGMA wal_checkpoint(TRUNCATE); UPDATE meta SET needs=needs")
	exec(t, merged, "PRAGMA wal_checkpoint(TRUNCATE); UPDATE meta SET needs=needs")
	alone := snapshotDir(t, merged, "ledger.db", "ledger.head")
	for _, tc := range []struct {
		name, dir string
		head      ledger.Head
	}{
		{"while another process may write", live, head},
		{"a copy with log and index", whole, head},
		{"a copy with the log", log, head},
		{"a copy without a log", alone, mergedHead},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := names(t, tc.dir)
			dir, temp := readOnly(t, tc.dir), t.TempDir()
			t.Setenv("TMPDIR", temp)
			refused(t, dir, sqlite.Options{}, sdk.FailedPrecondition, "ledger.readonly", dir)
			ro, err := sqlite.Open(t.Context(), dir, sqlite.Options{Reading: true})
			if err != nil {
				t.Fatal(err)
			}
			isError(t, ro.Writable(), sdk.FailedPrecondition, "ledger.readonly", dir)
			rep, err := ro.Verify(t.Context(), nil)
			if err != nil || len(rep.Faults) > 0 || rep.Head != tc.head {
				t.Errorf("verify: %+v, %v; want the head %+v", rep, err, tc.head)
			}
			isError(t, ro.PutHolder(t.Context(), ledger.Holder{ID: sdk.ID{1}}), sdk.FailedPrecondition, "ledger.readonly", dir)
			if tc.dir == live {
				// What is written meanwhile is seen, and noticed.
				changed := ro.Changed()
				fill(t, s, 1)
				<-changed
				now, err := ro.Head(t.Context())
				if err != nil || now.Count <= head.Count {
					t.Errorf("after a change: %+v, %v", now, err)
				}
			}
			if err := ro.Close(); err != nil {
				t.Error(err)
			}
			if after := names(t, tc.dir); len(after) != len(before) {
				t.Errorf("the folder holds %q, before %q", after, before)
			}
			if left := names(t, temp); len(left) != 1 {
				t.Errorf("left behind: %q", left[1:])
			}
		})
	}
}

// TestReadingBehindHead: also where nothing can be written, a ledger that was
// cut off is refused, unless it is looked into.
func TestReadingBehindHead(t *testing.T) {
	dir, head := written(t, 2)
	head.Count += 3
	if err := ledger.WriteHead(filepath.Join(dir, ledger.HeadFile), head); err != nil {
		t.Fatal(err)
	}
	dir = readOnly(t, dir)
	refused(t, dir, sqlite.Options{Reading: true}, sdk.DataLoss, "ledger.behind")
	s := open(t, dir, sqlite.Options{Reading: true, Inspect: true})
	if rep, err := s.Verify(t.Context(), &head); err != nil || len(rep.Faults) == 0 || rep.Faults[0].What != ledger.FaultCutOff {
		t.Errorf("%+v, %v", rep, err)
	}
}

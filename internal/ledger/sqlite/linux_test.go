//go:build linux

package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/ledgertest"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/sdk"
)

// cpuTime is what this process has used so far, which a busy machine doesn't
// change as it does the clock.
func cpuTime() time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func readOnlyMount(t testing.TB, dir string) {
	t.Helper()
	testneed.Root(t)
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatalf("mount read-only: %v", err)
	}
}

// smallDisk returns a directory on a disk of that many KiB.
func smallDisk(t testing.TB, kib string) string {
	t.Helper()
	testneed.Root(t)
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size="+kib+"k,mode=0700"); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// fillDisk takes all space but what is left of the last page, and returns what
// gives it back.
func fillDisk(t testing.TB, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "stuffing")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := 1 << 20; size >= 512; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullDisk: on a full disk no new run is recorded, the runs that exist are
// ended on record, and with space everything goes on by itself.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, "32768")
	s := open(t, dir, sqlite.Options{})
	ids := sdk.NewIDSource(sdk.SystemClock())
	const running = 40
	var scripts []ledgertest.Script
	for range running {
		sc := ledgertest.NewScript(ids, sdk.ID{}, nil)
		for _, w := range sc.Writes[:4] {
			if err := s.Write(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
		scripts = append(scripts, sc)
	}
	ballast := filepath.Join(dir, "ledger.ballast")
	if info, err := os.Stat(ballast); err != nil || info.Size() != 1<<20 {
		t.Fatalf("ballast: %v, %v", info, err)
	}
	free := fillDisk(t, dir)
	// The log may have room inside itself for some; then no more.
	var refusal error
	acked := 0
	for refusal == nil && acked < 10_000 {
		if refusal = s.Write(t.Context(), ledgertest.NewScript(ids, sdk.ID{}, nil).Writes[0]); refusal == nil {
			acked++
		}
	}
	isError(t, refusal, sdk.ResourceExhausted, "ledger.full", dir, "WINDLASS_STATE")
	for i, sc := range scripts {
		for _, w := range sc.Writes[4:] {
			if err := s.Write(t.Context(), w); err != nil {
				t.Fatalf("run %d of %d could not be ended: %v", i, running, err)
			}
		}
		isError(t, s.Write(t.Context(), ledgertest.NewScript(ids, sdk.ID{}, nil).Writes[0]), sdk.ResourceExhausted, "ledger.full")
	}
	// A new process finds the same.
	other, err := sqlite.Open(context.Background(), dir, sqlite.Options{})
	if err != nil {
		isError(t, err, sdk.ResourceExhausted, "ledger.full")
	} else {
		isError(t, other.Write(t.Context(), ledgertest.NewScript(ids, sdk.ID{}, nil).Writes[0]), sdk.ResourceExhausted, "ledger.full")
		if err := other.Close(); err != nil {
			t.Logf("close on a full disk: %v", err)
		}
	}
	head, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rep, err := s.Verify(t.Context(), &head)
	if err != nil || len(rep.Faults) != 0 || rep.Runs != int64(running+acked) {
		t.Errorf("%d runs, want %d; %v, %v", rep.Runs, running+acked, rep.Faults, err)
	}
	free()
	second := sqlite.Options{}
	again := open(t, dir, second)
	if err := again.Write(t.Context(), ledgertest.NewScript(ids, sdk.ID{}, nil).Writes[0]); err != nil {
		t.Errorf("with space again: %v", err)
	}
	if info, err := os.Stat(ballast); err != nil || info.Size() != 1<<20 {
		t.Errorf("the ballast was not made again: %v, %v", info, err)
	}
	if err := s.Write(t.Context(), ledgertest.NewScript(ids, sdk.ID{}, nil).Writes[0]); err != nil {
		t.Errorf("with space again, in the old handle: %v", err)
	}
}

// TestFullDiskUtterly: when the ballast is used up, too, every write says so,
// and what was acknowledged is there.
func TestFullDiskUtterly(t *testing.T) {
	dir := smallDisk(t, "16384")
	s := open(t, dir, sqlite.Options{BallastBytes: 64 << 10})
	ids := sdk.NewIDSource(sdk.SystemClock())
	sc := ledgertest.NewScript(ids, sdk.ID{}, nil)
	if err := s.Write(t.Context(), sc.Writes[0]); err != nil {
		t.Fatal(err)
	}
	free := fillDisk(t, dir)
	w := ledger.Write{Run: sc.Run, Events: []ledger.NewEvent{{Kind: ledger.KindNote, Actor: "x", Change: ledger.Change{Detail: map[string]string{"pad": string(make([]byte, 2000))}}}}}
	var err error
	acked := int64(2)
	for err == nil && acked < 100_000 {
		if err = s.Write(t.Context(), w); err == nil {
			acked++
		}
	}
	isError(t, err, sdk.ResourceExhausted, "ledger.full", "WINDLASS_STATE")
	if run, err := s.Run(t.Context(), sc.Run); err != nil || run.Events != acked {
		t.Errorf("%d events, %d were acknowledged (%v)", run.Events, acked, err)
	}
	free()
	if err := s.Write(t.Context(), w); err != nil {
		t.Errorf("with space again: %v", err)
	}
	if rep, err := s.Verify(t.Context(), nil); err != nil || len(rep.Faults) != 0 || rep.Events != acked+1 {
		t.Errorf("%+v, %v; %d were acknowledged", rep, err, acked+1)
	}
}

func TestFullDiskAtFirst(t *testing.T) {
	dir := smallDisk(t, "64")
	refused(t, dir, sqlite.Options{}, sdk.ResourceExhausted, "ledger.full", dir, "WINDLASS_STATE")
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

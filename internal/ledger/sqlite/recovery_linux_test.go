package sqlite_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/sdk"
)

// sleeper is the clock that tells of its first sleep.
type sleeper struct {
	sdk.Clock
	slept func()
}

func (c *sleeper) Sleep(ctx context.Context, d time.Duration) error {
	c.slept()
	return c.Clock.Sleep(ctx, d)
}

// TestOpenWhileAnotherRecovers: a process that opens the ledger while another brings
// the write-ahead log's index up to date waits for it.
func TestOpenWhileAnotherRecovers(t *testing.T) {
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// What another process's recovery looks like: an index without a header, and locks
	// on its bytes for that it is in use (128), written (120) and recovered (122).
	// https://www.sqlite.org/walformat.html#wal_locks
	shm, err := os.OpenFile(filepath.Join(dir, "ledger.db-shm"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shm.Close() }) // and with it the locks
	for _, size := range []int64{0, 32 << 10} {
		if err := shm.Truncate(size); err != nil {
			t.Fatal(err)
		}
	}
	lock := func(kind int16, at int64) {
		t.Helper()
		l := unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: at, Len: 1}
		if err := unix.FcntlFlock(shm.Fd(), unix.F_OFD_SETLK, &l); err != nil {
			t.Fatal(err)
		}
	}
	lock(unix.F_RDLCK, 128)
	lock(unix.F_WRLCK, 120)
	lock(unix.F_WRLCK, 122)
	// The recovery ends once the other has waited for it.
	waited := false
	var once sync.Once
	clock := &sleeper{Clock: sdk.SystemClock(), slept: func() {
		once.Do(func() {
			waited = true
			lock(unix.F_UNLCK, 122)
			lock(unix.F_UNLCK, 120)
		})
	}}
	s, err = sqlite.Open(t.Context(), dir, sqlite.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !waited {
		t.Error("the recovery of the other didn't hold it up: the test shows nothing")
	}
}

package sqlite_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/ledgertest"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
)

func TestMain(m *testing.M) {
	ledgertest.Main(openSuite)
	pruneMain()
	goleak.VerifyTestMain(m)
}

func openSuite(ctx context.Context, where string) (ledger.Store, error) {
	s, err := sqlite.Open(ctx, where, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func TestSuite(t *testing.T) {
	ledgertest.Run(t, func(t testing.TB) ledgertest.Harness {
		return ledgertest.Harness{Where: filepath.Join(t.TempDir(), "state"), Open: openSuite, Tear: tear}
	})
}

// tear copies the database with its log cut and damaged as a crash may: at
// every page and at random offsets, with garbage where pages were not synced,
// and the main file cut where a copy was interrupted.
func tear(t testing.TB, where string, each func(string)) {
	db := read(t, filepath.Join(where, "ledger.db"))
	wal := read(t, filepath.Join(where, "ledger.db-wal"))
	if len(wal) == 0 {
		t.Fatal("the log is empty: nothing to tear")
	}
	dir := t.TempDir()
	n := 0
	put := func(db, wal []byte) {
		n++
		to := filepath.Join(dir, "torn")
		if err := os.MkdirAll(to, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(to, "ledger.db"), db)
		write(t, filepath.Join(to, "ledger.db-wal"), wal)
		each(to)
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
	}
	const header, frame = 32, 24 + 4096
	frames := (len(wal) - header) / frame
	step := 1
	if testing.Short() {
		step = 7
	}
	put(db, wal)
	for i := 0; i < frames; i += step {
		put(db, wal[:header+i*frame])
	}
	r := rand.New(rand.NewPCG(1, uint64(len(wal))))
	for range 30 / step {
		put(db, wal[:r.IntN(len(wal))])
		garbled := append([]byte{}, wal...)
		for j := header + r.IntN(frames)*frame; j < len(garbled); j += 512 {
			garbled[j+r.IntN(min(512, len(garbled)-j))] ^= byte(1 + r.IntN(255))
		}
		put(db, garbled)
	}
	for range 8 {
		put(db[:r.IntN(len(db))], wal)
		put(db[:r.IntN(len(db))], nil)
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

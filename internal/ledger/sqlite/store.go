// Package sqlite keeps the ledger in an SQLite database: the embedded default.
//
// Files in the state directory, all 0600: ledger.db with its -wal and -shm,
// ledger.head (the end of the chain, kept apart so that a cut is noticed),
// ledger.ballast (space that is given up when the disk is full, so that what
// runs can be ended on record), ledger.lock (held while migrating), ledger.turn
// (held while writing, so that writers queue) and copies named
// ledger.db.vN-TIME.bak from before migrations.
//
// A process writes through one goroutine and one connection. It puts
// everything that is waiting into one transaction and syncs once for all.
package sqlite

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

var _ ledger.Store = (*Store)(nil)

// Options set how a ledger is opened. The zero value is the default.
type Options struct {
	// Clock stamps events; nil is the system's.
	Clock sdk.Clock
	// Logger takes what no caller can be told, such as a head file that
	// could not be written; nil drops it.
	Logger *slog.Logger
	// BusyTimeout is how long a call waits for other processes' transactions
	// before it is Unavailable; 0 is 15 s.
	BusyTimeout time.Duration
	// PollInterval is how often other processes' commits are looked for while
	// somebody waits for a change; 0 is 60 ms.
	PollInterval time.Duration
	// HeadInterval is the least time between two writes of the head file; 0
	// is 1 s. Close always writes it.
	HeadInterval time.Duration
	// Inspect opens a ledger that is behind its head file, which is DataLoss
	// otherwise, so that it can be verified and exported; writing is refused.
	Inspect bool
	// Reading opens a ledger that can't be written too, as on a read-only mount;
	// writing is refused then. Nothing is made in such a place.
	Reading bool
	// BallastBytes is the size of the ballast; 0 is 1 MiB.
	BallastBytes int64
	// Later holds the statements of one more migration, as a release to come has it:
	// tests of upgrades make a newer program by it. Empty is none.
	Later string

	// Tests set what follows.
	schema  schema
	network func(dir string) (string, error)
	// pruneRuns is the constant of this name.
	pruneRuns int
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = sdk.SystemClock()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.BusyTimeout == 0 {
		o.BusyTimeout = 15 * time.Second
	}
	if o.PollInterval == 0 {
		o.PollInterval = 60 * time.Millisecond
	}
	if o.HeadInterval == 0 {
		o.HeadInterval = time.Second
	}
	if o.BallastBytes == 0 {
		o.BallastBytes = 1 << 20
	}
	if o.schema.files == nil {
		o.schema = currentSchema().withLater(o.Later)
	}
	if o.network == nil {
		o.network = networkFS
	}
	if o.pruneRuns == 0 {
		o.pruneRuns = pruneRuns
	}
	return o
}

// Store is a ledger in SQLite.
type Store struct {
	dir, path string
	opts      Options
	id        string
	w         *writer
	readers   *pool
	changes   *changes
	// behind is why nothing may be written, if so.
	behind error
	// copied is the private folder with the copy that is read in place of a
	// ledger that can't be written, empty for none.
	copied    string
	closeOnce sync.Once
	closeErr  error
}

// ID returns the ledger's random ID.
func (s *Store) ID() string { return s.id }

// Writable says why every call that changes the ledger is refused: it is behind
// its head file, or its directory can't be written. It is nil otherwise.
func (s *Store) Writable() error { return s.behind }

// Changed returns a channel that is closed at the next change by any process.
func (s *Store) Changed() <-chan struct{} {
	c, first := s.changes.wait()
	if first {
		s.w.poke()
	}
	return c
}

// Close ends all transactions and writes the head file. Calls in flight are
// finished first; later ones are FailedPrecondition.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.w.stop()
		s.closeErr = s.wrap("close ledger", errors.Join(s.closeConns(), s.removeCopy()))
	})
	return s.closeErr
}

// keptLog is the size up to which a log is left for the next process.
const keptLog = 1 << 20

// closeConns closes the connections. When a writing one goes last it moves the
// log into the database, syncs both and removes the log, which costs a short
// command more than all its writes. So a small log is left, by letting a
// reading connection go last: the next process takes it up.
func (s *Store) closeConns() error {
	if st, err := os.Stat(s.path + "-wal"); err == nil && st.Size() < keptLog {
		if last, err := s.readers.get(context.Background()); err == nil {
			// Only an open file holds its lock, so it must have been read.
			_, err := last.number(context.Background(), "PRAGMA data_version")
			err = errors.Join(err, s.w.c.close())
			s.readers.put(last)
			return errors.Join(err, s.readers.close())
		}
	}
	return errors.Join(s.readers.close(), s.w.c.close())
}

// Head returns the end of the chain.
func (s *Store) Head(ctx context.Context) (h ledger.Head, err error) {
	err = s.read(ctx, "read head", func(c *conn) error {
		h, err = readHead(ctx, c)
		return err
	})
	return h, err
}

func readHead(ctx context.Context, c *conn) (h ledger.Head, err error) {
	found, err := c.one(ctx, "SELECT ledger_id, head_count, head_hash FROM meta", nil, func(r row) error {
		h = ledger.Head{LedgerID: r.text(0), Count: r.int(1), Hash: r.hash(2)}
		return nil
	})
	if err == nil && !found {
		err = damaged("the table meta is empty")
	}
	return h, err
}

// changes tells waiters that the ledger changed.
type changes struct {
	mu      sync.Mutex
	ch      chan struct{}
	waiting bool
}

// wait returns the channel of the next change; first reports that nobody was
// waiting before.
func (c *changes) wait() (ch <-chan struct{}, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ch == nil {
		c.ch = make(chan struct{})
	}
	first = !c.waiting
	c.waiting = true
	return c.ch, first
}

func (c *changes) fire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting {
		close(c.ch)
		c.ch, c.waiting = nil, false
	}
}

func (c *changes) wanted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting
}

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"modernc.org/sqlite"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

const (
	dbFile   = "ledger.db"
	turnFile = "ledger.turn"
	opOpen   = "open ledger"
)

// Open opens the ledger of a state directory, and makes both if they aren't
// there. However many processes open at once, one ledger comes of it. A
// network file system, a directory that can't be written and a schema of a
// newer program are FailedPrecondition, a damaged file DataLoss.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", opOpen, err)
	}
	s := &Store{dir: dir, path: filepath.Join(dir, dbFile), opts: o.withDefaults(), changes: &changes{}}
	if o.Reading {
		if why := s.unwritable(); why != nil {
			return s.openReading(ctx, why)
		}
	}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	// The head file is read first: the ledger can only come further meanwhile.
	known, err := ledger.ReadHead(filepath.Join(dir, ledger.HeadFile))
	if err != nil && !o.Inspect {
		return nil, err
	}
	w := &writer{s: s, queue: make(chan *call, queueLen), wake: make(chan struct{}, 1), closing: make(chan struct{}), stopped: make(chan struct{}),
		cache: cache{}, heads: &headFile{s: s}}
	// Its pragmas read the file, too: another process may be bringing the write-ahead
	// log's index up to date, after a crash or as the first to open it.
	err = s.patient(ctx, func() (err error) {
		w.c, err = openConn(ctx, dsn(s.path, "rw", writePragmas()...))
		return err
	})
	if err != nil {
		return nil, s.wrap(opOpen, err)
	}
	head, err := s.check(ctx, w.c)
	if err == nil && known != nil {
		if s.behind = behind(s.path, *known, head); !o.Inspect {
			err = s.behind
		}
	}
	if err != nil {
		return nil, s.wrap(opOpen, errors.Join(err, w.c.close()))
	}
	if known == nil && head.Count == 0 {
		w.heads.begin(head)
	}
	if err := s.makeBallast(); err != nil {
		s.opts.Logger.Debug("ledger: no ballast", "error", err) // the next new row says so
	}
	w.turn = openTurn(filepath.Join(dir, turnFile))
	s.id, s.w = head.LedgerID, w
	s.readers = newPool(dsn(s.path, "ro", readPragmas()...))
	go w.run()
	return s, nil
}

// prepare makes sure of a directory that fits and a file that is there.
func (s *Store) prepare(ctx context.Context) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return notWritable(s.dir, err)
	}
	if err := s.refuseNetwork(); err != nil {
		return err
	}
	st, err := os.Stat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.create(ctx)
	case err != nil:
		return notWritable(s.dir, err)
	case st.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows":
		if err := os.Chmod(s.path, 0o600); err != nil {
			return notWritable(s.path, err)
		}
	}
	for _, path := range []string{s.dir, s.path} {
		if err := writable(path); err != nil {
			return notWritable(s.dir, err)
		}
	}
	return nil
}

// refuseNetwork fails on a network file system.
func (s *Store) refuseNetwork() error {
	name, err := s.opts.network(s.dir)
	switch {
	case err != nil:
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: opOpen, Err: fmt.Errorf("%s: %w", s.dir, err)}
	case name != "":
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: opOpen, ID: idNetwork, Remedy: "name a directory on a local disk by WINDLASS_STATE",
			Err: fmt.Errorf("%s lies on a network file system (%s), where locks and syncs can't be relied on", s.dir, name)}
	}
	return nil
}

// check reads the schema's version and the head, and migrates an old schema.
func (s *Store) check(ctx context.Context, c *conn) (head ledger.Head, err error) {
	err = s.patient(ctx, func() (err error) {
		head, err = s.checkOnce(ctx, c)
		return err
	})
	return head, err
}

// patient does something again for as long as another process holds the database, up
// to the busy time-out.
func (s *Store) patient(ctx context.Context, do func() error) error {
	deadline := time.Now().Add(s.opts.BusyTimeout)
	for {
		err := do()
		if !isBusy(err) || time.Now().After(deadline) {
			return err
		}
		if serr := s.opts.Clock.Sleep(ctx, 5*time.Millisecond); serr != nil {
			return serr
		}
	}
}

func (s *Store) checkOnce(ctx context.Context, c *conn) (head ledger.Head, err error) {
	version, err := s.checkSchema(ctx, c)
	if err != nil {
		return head, err
	}
	if version < s.opts.schema.version {
		if err := s.migrate(ctx); err != nil {
			return head, err
		}
	}
	// A copy that was put back may have write-ahead logging off.
	mode := ""
	if _, err := c.one(ctx, "PRAGMA journal_mode=WAL", nil, func(r row) error { mode = r.text(0); return nil }); err != nil {
		return head, err
	}
	if mode != "wal" {
		return head, &sdk.Error{Code: sdk.FailedPrecondition, Op: opOpen, Remedy: "name a directory on a local disk by WINDLASS_STATE",
			Err: fmt.Errorf("%s: write-ahead logging is not possible there (journal mode %s)", s.path, mode)}
	}
	// Syncing data without time stamps keeps a commit as durable; where the
	// system has no such call the error says so and nothing changes.
	_, _ = sqlite.Fdatasync(true)
	return readHead(ctx, c)
}

func notWritable(path string, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return &sdk.Error{Code: sdk.ResourceExhausted, Op: opOpen, ID: idFull, Retryable: true, Remedy: fullRemedy, Err: fmt.Errorf("state directory: %s: %w", path, err)}
	}
	return &sdk.Error{Code: sdk.FailedPrecondition, Op: opOpen, ID: idReadOnly, Remedy: readOnlyRemedy, Err: fmt.Errorf("state directory: %s: %w", path, err)}
}

// behind returns an error when a ledger's end is not at or past a known head.
func behind(path string, known, found ledger.Head) error {
	e := &sdk.Error{Code: sdk.DataLoss, Op: opOpen, ID: idBehind,
		Remedy: "run `windlass ledger verify`; if an older copy was put there on purpose, move " + ledger.HeadFile + " away"}
	switch {
	case known.LedgerID != found.LedgerID:
		e.Err = fmt.Errorf("%s is the ledger %s, but its head file is that of %s", path, found.LedgerID, known.LedgerID)
	case found.Count < known.Count || found.Count == known.Count && found.Hash != known.Hash:
		e.Err = fmt.Errorf("%s ends with event %d, but its head file has seen %d", path, found.Count, known.Count)
	default:
		return nil
	}
	return e
}

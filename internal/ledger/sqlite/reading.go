package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// unwritable says why a ledger that is there can't be written, nil when it can.
func (s *Store) unwritable() error {
	if _, err := os.Stat(s.path); err != nil {
		return nil
	}
	for _, path := range []string{s.dir, s.path} {
		if err := writable(path); err != nil {
			return err
		}
	}
	return nil
}

// openReading opens a ledger in a directory that can't be written, such as a
// backup on a read-only mount. Nothing in the directory changes.
func (s *Store) openReading(ctx context.Context, why error) (_ *Store, err error) {
	if err := s.refuseNetwork(); err != nil {
		return nil, err
	}
	s.behind = notWritable(s.dir, why)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.removeCopy())
		}
	}()
	known, err := ledger.ReadHead(filepath.Join(s.dir, ledger.HeadFile))
	if err != nil && !s.opts.Inspect {
		return nil, err
	}
	name, err := s.readingDSN()
	if err != nil {
		return nil, &sdk.Error{Code: sdk.FailedPrecondition, Op: opOpen, ID: idReadOnly, Err: err,
			Remedy: "copy the state directory to where you may write, and name the copy by WINDLASS_STATE"}
	}
	w := &writer{s: s, queue: make(chan *call), wake: make(chan struct{}, 1), closing: make(chan struct{}), stopped: make(chan struct{}),
		turn: &turn{}, cache: cache{}, heads: &headFile{s: s}}
	if w.c, err = openConn(ctx, name); err != nil {
		return nil, s.wrap(opOpen, err)
	}
	head, err := s.checkReading(ctx, w.c)
	if err == nil && known != nil && !s.opts.Inspect {
		err = behind(s.path, *known, head)
	}
	if err != nil {
		return nil, s.wrap(opOpen, errors.Join(err, w.c.close()))
	}
	s.id, s.w = head.LedgerID, w
	s.readers = newPool(name)
	go w.run()
	return s, nil
}

// checkReading reads the schema's version and the head. An old schema can't be
// migrated here.
func (s *Store) checkReading(ctx context.Context, c *conn) (ledger.Head, error) {
	version, err := s.checkSchema(ctx, c)
	if err != nil {
		return ledger.Head{}, err
	}
	if version < s.opts.schema.version {
		return ledger.Head{}, &sdk.Error{Code: sdk.FailedPrecondition, Op: opOpen, ID: idReadOnly,
			Remedy: "copy the state directory to where you may write, and name the copy by WINDLASS_STATE",
			Err:    fmt.Errorf("%s has the older schema %d, which must be migrated first and can't be written", s.path, version)}
	}
	return readHead(ctx, c)
}

// readingDSN chooses how to read the database without writing beside it. A
// process that writes keeps both a -wal and a -shm, so without them nobody does.
//
//   - With both, SQLite reads the log through them, under its own locks:
//     somebody may be writing by another way to the same files.
//   - With a log alone, as in a copy, SQLite would have to make an index beside
//     it: database and log are copied to a private folder and read there.
//   - Without a log the file is all there is, and nothing changes it.
//
// See https://www.sqlite.org/wal.html#read_only_databases and
// https://www.sqlite.org/uri.html#uriimmutable.
func (s *Store) readingDSN() (string, error) {
	size := func(suffix string) (int64, error) {
		st, err := os.Stat(s.path + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			return -1, nil
		}
		if err != nil {
			return 0, err
		}
		return st.Size(), nil
	}
	wal, err := size("-wal")
	if err != nil {
		return "", err
	}
	shm, err := size("-shm")
	switch {
	case err != nil:
		return "", err
	case wal >= 0 && shm > 0:
		return dsn(s.path, "ro", readPragmas()...), nil
	case wal <= 0:
		return dsn(s.path, "ro", readPragmas()...) + "&immutable=1", nil
	}
	if s.copied, err = os.MkdirTemp("", "windlass-ledger-"); err != nil {
		return "", fmt.Errorf("the ledger has a log that can be read only in a copy: %w", err)
	}
	to := filepath.Join(s.copied, dbFile)
	for _, suffix := range []string{"", "-wal"} {
		if err := copyFile(to+suffix, s.path+suffix); err != nil {
			return "", fmt.Errorf("the ledger has a log that can be read only in a copy: %w", err)
		}
	}
	return dsn(to, "rw", readPragmas()...), nil
}

func copyFile(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// removeCopy removes the private copy, if one was made.
func (s *Store) removeCopy() error {
	if s.copied == "" {
		return nil
	}
	return os.RemoveAll(s.copied)
}

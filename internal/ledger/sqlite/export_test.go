package sqlite

import (
	"context"
	"io/fs"
)

// Commits returns how many transactions the store committed.
func Commits(s *Store) int64 { return s.w.commits.Load() }

// Refused returns how many transactions found the database locked.
func Refused(s *Store) int64 { return s.w.refused.Load() }

// WithSchema makes a store use other migrations.
func (o Options) WithSchema(files fs.FS, version int64, needs string) Options {
	o.schema = schema{files: files, version: version, needs: needs}
	return o
}

// WithNetwork makes a store ask f for the file system.
func (o Options) WithNetwork(f func(string) (string, error)) Options {
	o.network = f
	return o
}

// WithPruneRuns sets how many runs one transaction of a pruning removes.
func (o Options) WithPruneRuns(n int) Options {
	o.pruneRuns = n
	return o
}

// Lock takes the database's write lock in a connection of its own, and returns
// what releases it.
func Lock(ctx context.Context, path string) (func() error, error) {
	c, err := openConn(ctx, dsn(path, "rw", writePragmas()...))
	if err != nil {
		return nil, err
	}
	if _, err := c.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	return func() error {
		if _, err := c.exec(ctx, "ROLLBACK"); err != nil {
			return err
		}
		return c.close()
	}, nil
}

// Exec runs one statement in a connection of its own, past the store.
func Exec(ctx context.Context, path, text string) (int64, error) {
	c, err := openConn(ctx, dsn(path, "rw", writePragmas()...))
	if err != nil {
		return 0, err
	}
	n, err := c.exec(ctx, text)
	if cerr := c.close(); err == nil {
		err = cerr
	}
	return n, err
}

// Migrations are the embedded ones.
func Migrations() fs.FS { return currentSchema().files }

// Names of what is tested on its own.
var (
	JoinGaps = joinGaps
	Queued   = func(s *Store) int { return len(s.w.queue) }
	Polling  = func(s *Store) bool { return s.w.polling.Load() }
	MaxBatch = maxBatch
)

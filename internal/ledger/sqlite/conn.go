package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"

	"modernc.org/sqlite"
)

// conn is one connection, used by one goroutine at a time. It speaks to the
// driver itself: with thousands of small statements a second the conversions
// of database/sql would cost as much as the statements.
type conn struct {
	raw   driver.Conn
	stmts map[string]*stmt
	// broken: it must not be used again.
	broken bool
}

type stmt struct {
	s interface {
		driver.Stmt
		driver.StmtExecContext
		driver.StmtQueryContext
	}
	args []driver.NamedValue
}

// row is one row of a result, valid until the next.
type row []driver.Value

// dsn returns the driver's name for a database. mode is SQLite's: rw, ro, rwc.
func dsn(path, mode string, pragmas ...string) string {
	q := url.Values{"mode": {mode}, "_pragma": pragmas}
	return "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + "?" + q.Encode()
}

// writePragmas make a commit durable before it returns. The busy time-out is
// short because the writer waits itself, where it can be told to stop.
func writePragmas() []string {
	p := []string{"busy_timeout(20)", "synchronous(FULL)", "wal_autocheckpoint(2000)", "cache_size(-16000)", "temp_store(MEMORY)"}
	if runtime.GOOS == "darwin" {
		p = append(p, "fullfsync(1)", "checkpoint_fullfsync(1)")
	}
	return p
}

func readPragmas() []string {
	return []string{"busy_timeout(10000)", "query_only(1)", "cache_size(-8000)", "temp_store(MEMORY)"}
}

func openConn(ctx context.Context, dsn string) (*conn, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	raw, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{raw: raw, stmts: map[string]*stmt{}}, nil
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.s.Close())
	}
	errs = append(errs, c.raw.Close())
	return errors.Join(errs...)
}

// prepare returns the statement of a text, which is compiled once.
func (c *conn) prepare(text string) (*stmt, error) {
	if s, ok := c.stmts[text]; ok {
		return s, nil
	}
	raw, err := c.raw.Prepare(text)
	if err != nil {
		return nil, err
	}
	s := &stmt{}
	var ok bool
	if s.s, ok = raw.(interface {
		driver.Stmt
		driver.StmtExecContext
		driver.StmtQueryContext
	}); !ok {
		return nil, fmt.Errorf("the driver's statement is a %T", raw)
	}
	c.stmts[text] = s
	return s, nil
}

func (s *stmt) bind(args []driver.Value) []driver.NamedValue {
	s.args = s.args[:0]
	for i, a := range args {
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return s.args
}

// exec runs a statement and returns how many rows it changed.
func (c *conn) exec(ctx context.Context, text string, args ...driver.Value) (int64, error) {
	s, err := c.prepare(text)
	if err != nil {
		return 0, err
	}
	res, err := s.s.ExecContext(ctx, s.bind(args))
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// insert runs an INSERT and returns the new row's number.
func (c *conn) insert(ctx context.Context, text string, args ...driver.Value) (int64, error) {
	s, err := c.prepare(text)
	if err != nil {
		return 0, err
	}
	res, err := s.s.ExecContext(ctx, s.bind(args))
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// query calls each for every row, until it returns false.
func (c *conn) query(ctx context.Context, text string, args []driver.Value, each func(row) (bool, error)) (err error) {
	s, err := c.prepare(text)
	if err != nil {
		return err
	}
	rows, err := s.s.QueryContext(ctx, s.bind(args))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	dest := make(row, len(rows.Columns()))
	for {
		if err := rows.Next(dest); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		more, err := each(dest)
		if err != nil || !more {
			return err
		}
	}
}

// one calls each for the first row; found is false when there is none.
func (c *conn) one(ctx context.Context, text string, args []driver.Value, each func(row) error) (found bool, err error) {
	err = c.query(ctx, text, args, func(r row) (bool, error) {
		found = true
		return false, each(r)
	})
	return found, err
}

// number returns the first column of the first row.
func (c *conn) number(ctx context.Context, text string, args ...driver.Value) (n int64, err error) {
	_, err = c.one(ctx, text, args, func(r row) error { n = r.int(0); return nil })
	return n, err
}

// placeholders returns n question marks with commas between them.
func placeholders(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }

package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gofrs/flock"
	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

//go:embed migrations/*.sql
var migrations embed.FS

// applicationID marks the file as a ledger (PRAGMA application_id).
const applicationID = 0x57646c73

// schema is a set of migrations. They set PRAGMA user_version themselves, so
// that an open of a current ledger costs one read and none of goose's work.
type schema struct {
	files fs.FS
	// version is the newest migration's, needs the first release with it.
	version int64
	needs   string
	// later is one more migration, as statements, see Options.Later.
	later string
}

// laterNeeds is the release that a schema with Options.Later says it needs.
const laterNeeds = "9.9.9"

// withLater is the schema of a release to come.
func (x schema) withLater(statements string) schema {
	if statements == "" {
		return x
	}
	x.version++
	x.later, x.needs = statements+fmt.Sprintf(";PRAGMA user_version=%d", x.version), laterNeeds
	return x
}

func currentSchema() schema {
	// The folder is embedded, so this can't fail.
	sub, _ := fs.Sub(migrations, "migrations")
	return schema{files: sub, version: 2, needs: "0.1.0"}
}

// checkSchema refuses what is no ledger, and a schema that a newer program
// wrote. It returns the version that was found.
func (s *Store) checkSchema(ctx context.Context, c *conn) (int64, error) {
	app, err := c.number(ctx, "PRAGMA application_id")
	if err != nil {
		return 0, err
	}
	version, err := c.number(ctx, "PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	if app != applicationID || version < 1 {
		return 0, damaged("%s is an SQLite database, but not a ledger", s.path)
	}
	if version <= s.opts.schema.version {
		return version, nil
	}
	needs := ""
	if _, err := c.one(ctx, "SELECT needs FROM meta", nil, func(r row) error { needs = r.text(0); return nil }); err != nil || needs == "" {
		needs = "(its release is not recorded)"
	}
	return version, &sdk.Error{Code: sdk.FailedPrecondition, Op: opOpen, ID: idNewer,
		Remedy: "use windlass " + needs + " or newer, or another directory by WINDLASS_STATE",
		Err:    fmt.Errorf("%s has schema %d, this windlass knows up to %d", s.path, version, s.opts.schema.version)}
}

// create makes a ledger in a file of its own and links it into place when it
// is whole, so that of several processes one wins and nobody sees half of it.
func (s *Store) create(ctx context.Context) (err error) {
	f, err := os.CreateTemp(s.dir, dbFile+".new.*")
	if err != nil {
		return notWritable(s.dir, err)
	}
	tmp := f.Name()
	defer func() {
		if rerr := os.Remove(tmp); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}()
	if err := f.Close(); err != nil {
		return s.wrap(opOpen, err)
	}
	if err := s.fill(ctx, tmp); err != nil {
		return s.wrap(opOpen, err)
	}
	if err := syncPath(tmp); err != nil {
		return s.wrap(opOpen, err)
	}
	if err := os.Link(tmp, s.path); err != nil && !errors.Is(err, fs.ErrExist) {
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: opOpen, Remedy: "name a directory on a local disk by WINDLASS_STATE", Err: err}
	}
	return s.wrap(opOpen, syncDir(s.dir))
}

// fill makes the tables of a ledger with a random ID, and closes it with
// write-ahead logging on.
func (s *Store) fill(ctx context.Context, path string) (err error) {
	// How pages are given back must be said before the first table is made.
	db, err := openDB(path, "busy_timeout(10000)", "synchronous(OFF)", "auto_vacuum(INCREMENTAL)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := s.runMigrations(ctx, db); err != nil {
		return err
	}
	var id sdk.ID
	_, _ = rand.Read(id[:]) // never fails
	genesis, err := hex.DecodeString(ledger.GenesisHash(id.String()))
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "INSERT INTO meta (one,ledger_id,created_at,needs,head_count,head_hash,checkpoint) VALUES (1,?,?,?,0,?,0)",
		id.String(), s.opts.Clock.Now().UnixNano(), s.opts.schema.needs, genesis); err != nil {
		return err
	}
	var mode string
	return db.QueryRowContext(ctx, "PRAGMA journal_mode=WAL").Scan(&mode)
}

func openDB(path string, pragmas ...string) (*sql.DB, error) {
	c, err := sqlite.NewConnector(dsn(path, "rw", pragmas...))
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(1)
	return db, nil
}

func (s *Store) runMigrations(ctx context.Context, db *sql.DB) error {
	p, err := goose.NewProvider(goose.DialectSQLite3, db, s.opts.schema.files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if s.opts.schema.later == "" {
		return nil
	}
	if _, err := db.ExecContext(ctx, s.opts.schema.later); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// setNeeds records which release reads the schema.
func (s *Store) setNeeds(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, "UPDATE meta SET needs=?", s.opts.schema.needs)
	return err
}

// migrate brings an old schema up to date, one process at a time, after a copy.
func (s *Store) migrate(ctx context.Context) (err error) {
	lock := flock.New(filepath.Join(s.dir, "ledger.lock"), flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return fmt.Errorf("lock for migration: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()

	db, err := openDB(s.path, "busy_timeout(60000)", "synchronous(FULL)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var version int64
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil || version >= s.opts.schema.version {
		return err // another process was first
	}
	if err := s.backup(ctx, db, version); err != nil {
		return fmt.Errorf("copy before the migration: %w", err)
	}
	if err := makeIncremental(ctx, db); err != nil {
		return fmt.Errorf("prepare the migration: %w", err)
	}
	if err := s.runMigrations(ctx, db); err != nil {
		return err
	}
	return s.setNeeds(ctx, db)
}

// backup writes a copy of the database beside it.
func (s *Store) backup(ctx context.Context, db *sql.DB, version int64) error {
	name := s.path + ".v" + strconv.FormatInt(version, 10) + "-" + s.opts.Clock.Now().UTC().Format("20060102T150405.000000000Z") + ".bak"
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", name); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	if err := syncPath(name); err != nil {
		return err
	}
	return syncDir(s.dir)
}

func syncPath(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

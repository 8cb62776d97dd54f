package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/windlass-run/windlass/sdk"
)

// The stable names of this package's errors.
const (
	idFull     = "ledger.full"
	idDamaged  = "ledger.damaged"
	idBehind   = "ledger.behind"
	idReadOnly = "ledger.readonly"
	idBusy     = "ledger.busy"
	idIO       = "ledger.io"
	idNewer    = "ledger.newer"
	idNetwork  = "ledger.network"
	idClosed   = "ledger.closed"

	damagedRemedy = "run `windlass ledger verify`; to go on, move the files ledger.* out of the state directory or put a backup of them there"
)

// primary returns SQLite's primary result code, 0 when err is none of its.
func primary(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

func isBusy(err error) bool {
	c := primary(err)
	return c == lib.SQLITE_BUSY || c == lib.SQLITE_LOCKED
}

func isFull(err error) bool { return primary(err) == lib.SQLITE_FULL }

// isOwn reports whether an error lies with the call whose statement gave it,
// so that others can still succeed.
func isOwn(err error) bool {
	switch primary(err) {
	case 0, lib.SQLITE_ERROR, lib.SQLITE_CONSTRAINT, lib.SQLITE_MISMATCH, lib.SQLITE_TOOBIG, lib.SQLITE_RANGE:
		return true
	}
	return false
}

// wrap gives an error of the driver its code. Errors that have one pass.
func (s *Store) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return wrapAt(s.path, op, err)
}

func wrapAt(path, op string, err error) error {
	var e *sdk.Error
	if errors.As(err, &e) {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", op, err)
	}
	out := &sdk.Error{Code: sdk.Internal, Op: op, ID: idIO, Err: fmt.Errorf("%s: %w", path, err)}
	switch primary(err) {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		out.Code, out.ID, out.Retryable = sdk.Unavailable, idBusy, true
		out.Remedy = "another windlass holds the ledger; try again, and look for a stopped windlass process"
	case lib.SQLITE_FULL:
		out.Code, out.ID, out.Retryable = sdk.ResourceExhausted, idFull, true
		out.Remedy = fullRemedy
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB, lib.SQLITE_FORMAT:
		out.Code, out.ID, out.Remedy = sdk.DataLoss, idDamaged, damagedRemedy
	case lib.SQLITE_READONLY, lib.SQLITE_CANTOPEN, lib.SQLITE_PERM:
		out.Code, out.ID = sdk.FailedPrecondition, idReadOnly
		out.Remedy = readOnlyRemedy
	case lib.SQLITE_IOERR:
		out.Code = sdk.Unavailable
		out.Remedy = "the disk reports errors; look at the system's log"
	}
	if out.Code == sdk.FailedPrecondition || out.Code == sdk.Unavailable {
		// SQLite says so, too, when its -wal or -shm finds no room.
		if free, ferr := freeBytes(filepath.Dir(path)); ferr == nil && free < tooLittle {
			out.Code, out.ID, out.Retryable, out.Remedy = sdk.ResourceExhausted, idFull, true, fullRemedy
		}
	}
	return out
}

// tooLittle is the space below which a failure to write is one of space: the
// -shm alone takes 32 KiB.
const tooLittle = 64 << 10

const (
	fullRemedy     = "free space on the state directory's disk, or name another by WINDLASS_STATE"
	readOnlyRemedy = "make the state directory and the files ledger.* in it writable for you, or name another by WINDLASS_STATE"
)

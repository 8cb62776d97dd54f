package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// ballastFile holds space that is given up when the disk is full.
const ballastFile = "ledger.ballast"

func (s *Store) ballastPath() string { return filepath.Join(s.dir, ballastFile) }

func (s *Store) ballastThere() bool {
	st, err := os.Stat(s.ballastPath())
	return err == nil && st.Size() >= s.opts.BallastBytes
}

// makeBallast writes the ballast if it isn't there, with random bytes, so that
// no file system stores it in less space. It needs no sync: what counts is
// that the space is taken.
func (s *Store) makeBallast() (err error) {
	if s.ballastThere() {
		return nil
	}
	f, err := os.CreateTemp(s.dir, ballastFile+".*")
	if err != nil {
		return fmt.Errorf("make ballast: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("make ballast: %w", errors.Join(err, os.Remove(f.Name())))
		}
	}()
	buf := make([]byte, s.opts.BallastBytes)
	_, _ = rand.Read(buf) // never fails
	if _, err := f.Write(buf); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), s.ballastPath())
}

// releaseBallast gives the space up; false when there was none to give.
func (s *Store) releaseBallast() bool {
	err := os.Remove(s.ballastPath())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.opts.Logger.Warn("ledger: the ballast could not be removed", "path", s.ballastPath(), "error", err)
	}
	return err == nil
}

// refuseNewRow refuses what makes a row while the ballast is missing and can't
// be made again: the space that is left belongs to the runs that exist.
func (w *writer) refuseNewRow(c *call) error {
	if !c.creates || w.s.ballastThere() {
		return nil
	}
	if now := time.Now(); now.Sub(w.ballastTried) > time.Second {
		w.ballastTried = now
		err := w.s.makeBallast()
		if err == nil {
			return nil
		}
		w.ballastErr = err
	}
	return w.fullError(c.op, w.ballastErr)
}

func (w *writer) fullError(op string, err error) error {
	return &sdk.Error{Code: sdk.ResourceExhausted, Op: op, ID: idFull, Retryable: true, Remedy: fullRemedy,
		Err: fmt.Errorf("%s: the disk is full: %w", w.s.path, err)}
}

// fullStep is how far a transaction that found no space has gone to get some.
type fullStep int

const (
	fullFirst      fullStep = iota
	fullCheckpoint          // the log was emptied, so that it is used from its start again
	fullBallast             // the ballast was given up
)

// full decides what becomes of calls whose transaction did not fit on the disk
// and was rolled back. Those that make a row are refused. The others are
// returned to run again: without the refused ones, or with the space that
// emptying the log, and then the ballast, gives them.
func (w *writer) full(calls []*call, step *fullStep, cause error) []*call {
	var rest []*call
	for _, c := range calls {
		if c.creates {
			c.finish(w.fullError(c.op, cause))
		} else {
			rest = append(rest, c)
		}
	}
	if len(rest) < len(calls) {
		return rest
	}
	switch *step {
	case fullFirst:
		*step = fullCheckpoint
		if w.checkpoint() {
			return rest
		}
		fallthrough
	case fullCheckpoint:
		*step = fullBallast
		if w.s.releaseBallast() {
			w.checkpoint()
			return rest
		}
	}
	for _, c := range rest {
		c.finish(w.fullError(c.op, cause))
	}
	return nil
}

// checkpoint moves the log's pages into the database, so that the log, whose
// space is taken, is written from its start again. It reports success.
func (w *writer) checkpoint() bool {
	busy := int64(1)
	_, err := w.c.one(context.Background(), "PRAGMA wal_checkpoint(RESTART)", nil, func(r row) error {
		busy = r.int(0)
		return nil
	})
	return err == nil && busy == 0
}

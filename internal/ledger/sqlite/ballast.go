package sqlite

import (
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

// full decides what becomes of calls whose transaction did not fit on the disk
// and was rolled back. Those that make a row are refused; the others are
// returned, to run again without them or, if there were none, with the ballast
// given up.
func (w *writer) full(calls []*call, cause error) []*call {
	var rest []*call
	for _, c := range calls {
		if c.creates {
			c.finish(w.fullError(c.op, cause))
		} else {
			rest = append(rest, c)
		}
	}
	if len(rest) < len(calls) || w.s.releaseBallast() {
		return rest
	}
	for _, c := range rest {
		c.finish(w.fullError(c.op, cause))
	}
	return nil
}

package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

const (
	// sweepEvery is how often runs let go of what retention doesn't keep.
	sweepEvery = 24 * time.Hour
	// sweepTime bounds one sweep, which a command does at its end.
	sweepTime = 2 * time.Second
	// sweepStamp is the file whose time says when that was done last.
	sweepStamp = "retention.swept"
)

// expired gives the finished runs that have output and ended before a time,
// until do returns false.
func expired(ctx context.Context, s *Session, before time.Time, do func(ledger.Run) bool) error {
	if s.Logged == nil {
		return nil
	}
	for id, err := range s.Logged(ctx) {
		if err != nil {
			return err
		}
		if id.Time().After(before) {
			return nil // they come oldest first, and none ends before it begins
		}
		r, err := s.Store.Run(ctx, id)
		if sdk.CodeOf(err) == sdk.NotFound {
			continue
		}
		if err != nil {
			return err
		}
		if r.Open() || !r.EndedAt.Before(before) || r.Phase == ledger.PhaseKept {
			continue
		}
		if !do(r) {
			return nil
		}
	}
	return nil
}

// sweep lets go of expired output, once a day, at the end of a run.
func (f *Factory) sweep(ctx context.Context, s *Session) error {
	c, err := f.cfg()
	if err != nil || c.KeepLogs <= 0 || s.Logged == nil {
		return err
	}
	dir, err := c.StatePath()
	if err != nil {
		return err
	}
	if due, err := f.sweepDue(filepath.Join(dir, sweepStamp)); err != nil || !due {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, sweepTime)
	defer stop()
	var errs []error
	err = expired(ctx, s, f.Now().Add(-c.KeepLogs), func(r ledger.Run) bool {
		errs = append(errs, s.Engine.Remove(ctx, r.ID, c.Actor))
		return ctx.Err() == nil
	})
	return errors.Join(append(errs, err)...)
}

// sweepDue reports whether a sweep is due, and marks it as done.
func (f *Factory) sweepDue(stamp string) (bool, error) {
	now := f.Now()
	st, err := os.Stat(stamp)
	switch {
	case err == nil && now.Sub(st.ModTime()) < sweepEvery:
		return false, nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return false, err
	}
	file, err := os.OpenFile(stamp, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	return true, errors.Join(file.Close(), os.Chtimes(stamp, now, now))
}

// listed reports whether a run is still shown in listings.
func listed(c *config.Config, r ledger.Run, now time.Time) bool {
	return c.KeepRuns <= 0 || r.Open() || now.Sub(r.EndedAt) < c.KeepRuns
}

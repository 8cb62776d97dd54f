package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

const (
	// retainEvery is how often retention is applied without being asked for.
	retainEvery = 24 * time.Hour
	// RetainStamp is the file of a state folder whose time says when that was begun
	// last. It is empty when all was done.
	RetainStamp = "retention.swept"
)

// Retention says what is kept of runs that have ended. A zero member keeps all.
type Retention struct {
	// Logs is how long captured output is kept after the end of its run.
	Logs time.Duration
	// LogBytes is how much captured output of ended runs is kept: the oldest goes first.
	LogBytes int64
	// Ledger is how long finished actions stay on record.
	Ledger time.Duration
}

// Retained is what applying a Retention came to.
type Retained struct {
	// Removed are the runs whose output was removed, oldest first.
	Removed []sdk.ID
	// Pruned counts the rows that left the ledger.
	Pruned int
	// Packed is the output that was compressed.
	Packed joblog.Packed
}

// Retain lets go of what r doesn't keep, and compresses the output that stays. Open
// runs keep all, and so do runs whose objects were kept on their backend: removing
// those is for people. What ctx cuts short the next call goes on with.
func (e *Engine) Retain(ctx context.Context, r Retention, actor string) (Retained, error) {
	const op = "apply retention"
	var done Retained
	if r.Ledger > 0 {
		n, err := e.Prune(ctx, e.clock.Now().Add(-r.Ledger), actor)
		if done.Pruned = n; err != nil {
			return done, fmt.Errorf("%s: %w", op, err)
		}
	}
	ended, err := e.endedWithLogs(ctx)
	if err != nil {
		return done, fmt.Errorf("%s: %w", op, err)
	}
	var errs []error
	stay := ended[:0]
	for _, run := range ended {
		if r.Logs <= 0 || !run.end.Before(e.clock.Now().Add(-r.Logs)) {
			stay = append(stay, run)
			continue
		}
		errs = append(errs, e.discard(ctx, run.id, actor, &done))
	}
	left, err := e.packAll(ctx, stay, r.LogBytes > 0, &done)
	if errs = append(errs, err); err == nil {
		for _, run := range stay {
			if r.LogBytes <= 0 || left <= r.LogBytes {
				break
			}
			if run.size > 0 {
				errs = append(errs, e.discard(ctx, run.id, actor, &done))
				left -= run.size
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return done, fmt.Errorf("%s: %w", op, err)
	}
	return done, nil
}

// endedRun is what retention has to know of a run with output: there may be millions.
type endedRun struct {
	id  sdk.ID
	end time.Time
	// size is what its output takes once it was compressed, in bytes.
	size int64
}

// endedWithLogs lists the runs that have ended and have output, oldest first, without
// those whose objects were kept.
func (e *Engine) endedWithLogs(ctx context.Context) ([]endedRun, error) {
	var out []endedRun
	for id, err := range e.o.Logs.Runs(ctx) {
		if err != nil {
			return nil, err
		}
		run, err := e.o.Store.Run(ctx, id)
		switch {
		case sdk.CodeOf(err) == sdk.NotFound:
			continue
		case err != nil:
			return nil, err
		case run.Open() || run.Phase == ledger.PhaseKept:
			continue
		}
		end := run.EndedAt
		if end.IsZero() { // no backend told it
			end = run.FinishedAt
		}
		out = append(out, endedRun{id: id, end: end})
	}
	return out, nil
}

func (e *Engine) discard(ctx context.Context, run sdk.ID, actor string, done *Retained) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := e.Remove(ctx, run, actor)
	if err == nil {
		done.Removed = append(done.Removed, run)
	}
	return err
}

// packAll compresses the output of runs and, where that is asked for, measures what each
// takes then, and returns what all do.
func (e *Engine) packAll(ctx context.Context, runs []endedRun, measure bool, done *Retained) (total int64, err error) {
	for i, run := range runs {
		p, err := e.o.Logs.Pack(ctx, run.id)
		done.Packed.Before += p.Before
		done.Packed.After += p.After
		if err != nil {
			return total, err
		}
		if !measure {
			continue
		}
		if runs[i].size, err = e.o.Logs.Size(run.id); err != nil {
			return total, err
		}
		total += runs[i].size
	}
	return total, nil
}

// Prune removes the record of what was finished before a time, and the output that
// nothing on record tells of any more. It returns how many rows went.
func (e *Engine) Prune(ctx context.Context, before time.Time, actor string) (int, error) {
	n, err := e.o.Store.Prune(ctx, before, actor)
	if err != nil {
		return n, err
	}
	return n, e.o.Logs.Purge(ctx, func(id sdk.ID) (bool, error) {
		// The row of a run is there before its output, but for a run from after that time
		// this isn't asked.
		if !id.Time().Before(before) {
			return false, nil
		}
		_, err := e.o.Store.Run(ctx, id)
		if sdk.CodeOf(err) == sdk.NotFound {
			return true, nil
		}
		return false, err
	})
}

// RetainDaily applies r when a day has passed since that was done. Where ctx cuts it
// short, the rest is left to whoever passes again; with resume set, that is also
// before the day is over.
func (e *Engine) RetainDaily(ctx context.Context, r Retention, actor string, resume bool) (Retained, error) {
	due, err := e.retainDue(resume)
	if err != nil || !due {
		return Retained{}, err
	}
	// Marked at once, so that of many commands one does it.
	if err := e.stampRetained("not all was done\n"); err != nil {
		return Retained{}, err
	}
	done, err := e.Retain(ctx, r, actor)
	if err != nil {
		return done, err
	}
	return done, e.stampRetained("")
}

// RetainDue reports whether RetainDaily would do anything.
func (e *Engine) RetainDue(resume bool) bool {
	due, err := e.retainDue(resume)
	return err == nil && due
}

func (e *Engine) retainDue(resume bool) (bool, error) {
	st, err := os.Stat(filepath.Join(e.o.StateDir, RetainStamp))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("when retention was applied last: %w", err)
	}
	return resume && st.Size() > 0 || e.clock.Now().Sub(st.ModTime()) >= retainEvery, nil
}

func (e *Engine) stampRetained(text string) error {
	path := filepath.Join(e.o.StateDir, RetainStamp)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("note when retention was applied: %w", err)
	}
	now := e.clock.Now()
	return os.Chtimes(path, now, now)
}

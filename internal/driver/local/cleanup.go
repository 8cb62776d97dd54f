//go:build linux || darwin

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/windlass-run/windlass/internal/driver/local/attempt"
	"github.com/windlass-run/windlass/sdk"
)

// CleanupJob removes the attempt's folder and control groups.
func (p *provider) CleanupJob(ctx context.Context, r sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
	const op = "clean up job"
	if err := ctx.Err(); err != nil {
		return sdk.CleanupJobResult{}, p.fail(op, context.Cause(ctx))
	}
	f, id, err := p.attempt(op, r.Handle)
	if err != nil {
		return sdk.CleanupJobResult{}, err
	}
	removed, err := p.cleanUp(ctx, f, id)
	if err != nil {
		return sdk.CleanupJobResult{}, p.fail(op, err)
	}
	return sdk.CleanupJobResult{Removed: removed}, nil
}

func (p *provider) cleanUp(ctx context.Context, f attempt.Folder, id sdk.ID) ([]string, error) {
	var removed []string
	lock, v, err := p.hold(ctx, f)
	if err != nil {
		return nil, err
	}
	if lock != nil {
		defer func() { _ = lock.Close() }()
		if v.stage == stageLost {
			if _, err := p.endRest(ctx, id, v); err != nil {
				return nil, sdk.Errorf(sdk.FailedPrecondition, "end what is left of the job", "%w", err)
			}
		}
		if left := alive(v.end.Left); len(left) > 0 {
			return nil, sdk.Errorf(sdk.FailedPrecondition, "end what is left of the job", "%s and %d more run on and can't be killed by this user", left[0], len(left)-1)
		}
		if group := groupOf(id, v); v.stage != stageRebooted && !group.IsZero() {
			limit, cancel := context.WithTimeout(ctx, killTime)
			err := group.Remove(limit)
			cancel()
			if err != nil {
				return nil, sdk.Errorf(sdk.Unavailable, "remove control group", "%w", err)
			}
			removed = append(removed, group.Paths()...)
		}
		if err := f.Discard(); err != nil {
			return nil, err
		}
		removed = append(removed, string(f))
	}
	// What an earlier clean-up was killed over goes too.
	rest, err := attempt.Leftovers(p.state, id)
	if err != nil {
		return nil, err
	}
	for _, path := range rest {
		if err := os.RemoveAll(path); err != nil {
			return nil, fmt.Errorf("remove attempt: %w", err)
		}
		removed = append(removed, path)
	}
	return removed, nil
}

// hold takes the lock of an attempt that nobody is at. Without a folder there
// is none to take. A supervisor that has recorded the end lets go in a moment.
func (p *provider) hold(ctx context.Context, f attempt.Folder) (*os.File, view, error) {
	deadline := time.Now().Add(killTime)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		there, err := f.Exists()
		if err != nil || !there {
			return nil, view{}, err
		}
		lock, err := f.Lock()
		switch {
		case err == nil:
			v, err := p.look(f)
			if errors.Is(err, sdk.DataLoss) {
				// Nobody holds it, and its record tells nothing.
				return lock, view{stage: stageLost}, nil
			}
			if err != nil {
				_ = lock.Close()
				return nil, v, err
			}
			return lock, v, nil
		case errors.Is(err, attempt.ErrNone):
			return nil, view{}, nil
		case !errors.Is(err, attempt.ErrLocked):
			return nil, view{}, err
		}
		v, err := p.look(f)
		if err != nil {
			return nil, v, err
		}
		if v.stage == stageHeld || v.stage == stageStarting || time.Now().After(deadline) {
			return nil, v, sdk.Errorf(sdk.FailedPrecondition, "hold attempt", "it is %s", v.stage)
		}
		if err := p.clock.Sleep(ctx, pause); err != nil {
			return nil, v, err
		}
	}
}

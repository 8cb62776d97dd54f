package appplatform

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

const opClean = "clean up"

// A deletion may take a moment, in which the app still counts.
const (
	deleteFirst = 20 * time.Millisecond
	deleteLast  = 2 * time.Second
	deleteMost  = 20 * time.Second
)

// CleanupJob implements sdk.JobCleaner. It deletes the app, and with it its
// deployments and their logs.
func (p *provider) CleanupJob(ctx context.Context, r sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CleanupJobResult{}, p.fail(sdk.CodeOf(err), opClean, err)
	}
	h := r.Handle
	if err := p.checkHandle(opClean, h); err != nil {
		return sdk.CleanupJobResult{}, err
	}
	// Not what this process has seen decides: the platform may have deployed the
	// app anew since.
	st, err := p.look(ctx, opClean, h)
	switch {
	case notFound(err):
		return sdk.CleanupJobResult{}, nil
	case err != nil:
		return sdk.CleanupJobResult{}, err
	case !p.seen.Get(h.ID).shown:
		return sdk.CleanupJobResult{}, p.later(opClean, fmt.Errorf("the app %s isn't shown yet", h.ID))
	case !st.State.Terminal():
		return sdk.CleanupJobResult{}, p.fail(sdk.FailedPrecondition, opClean, fmt.Errorf("the job of the app %s is %s: %s", h.ID, st.State, st.Message))
	}
	removed, err := p.remove(ctx, opClean, h.ID)
	if err != nil || !removed {
		return sdk.CleanupJobResult{}, err
	}
	return sdk.CleanupJobResult{Removed: []string{"app " + h.ID}}, nil
}

// remove deletes an app, and reads back that it is gone. removed is false where
// somebody else deleted it.
func (p *provider) remove(ctx context.Context, op, id string) (removed bool, err error) {
	err = p.session.Call(ctx, op, func(ctx context.Context) error {
		_, err := p.session.Client.Apps.Delete(ctx, id)
		return err
	})
	if notFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	wait, until := deleteFirst, time.Now().Add(deleteMost)
	for {
		_, err := p.app(ctx, op, id)
		switch {
		case notFound(err):
			return true, nil
		case err != nil:
			return true, err
		case time.Now().After(until):
			return true, p.later(op, fmt.Errorf("the app %s is still being deleted", id))
		}
		if err := sdk.SystemClock().Sleep(ctx, wait); err != nil {
			return true, p.fail(sdk.CodeOf(err), op, errors.Join(fmt.Errorf("the app %s is being deleted", id), err))
		}
		wait = min(2*wait, deleteLast)
	}
}

package aci

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/azure"
	"github.com/windlass-run/windlass/sdk"
)

const opClean = "clean up"

// A deletion takes a moment, in which the group still counts against the quota.
const (
	deleteFirst = 20 * time.Millisecond
	deleteLast  = 2 * time.Second
	deleteMost  = 20 * time.Second
)

// CleanupJob implements sdk.JobCleaner. It deletes the group, and with it the log.
func (p *provider) CleanupJob(ctx context.Context, r sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CleanupJobResult{}, p.fail(sdk.CodeOf(err), opClean, err)
	}
	h := r.Handle
	if err := p.checkHandle(opClean, h); err != nil {
		return sdk.CleanupJobResult{}, err
	}
	g, err := p.getGroup(ctx, opClean, h.ID)
	switch {
	case absent(err):
		if p.young(h) {
			e := p.fail(sdk.Unavailable, opClean, fmt.Errorf("the container group %s isn't shown yet", h.ID))
			e.Retryable = true
			return sdk.CleanupJobResult{}, e
		}
		return sdk.CleanupJobResult{}, p.spool.remove(h.ID)
	case err != nil:
		return sdk.CleanupJobResult{}, err
	}
	p.show(h.ID)
	if live, _ := liveness(g); live {
		return sdk.CleanupJobResult{}, p.fail(sdk.FailedPrecondition, opClean, fmt.Errorf("the container group %s runs, or is about to", h.ID))
	}
	removed, err := p.remove(ctx, opClean, h.ID)
	if err != nil || !removed {
		return sdk.CleanupJobResult{}, errors.Join(err, p.spool.remove(h.ID))
	}
	return sdk.CleanupJobResult{Removed: []string{"container group " + h.ID}}, p.spool.remove(h.ID)
}

// remove deletes a group, and reads back that it is gone. removed is false where
// somebody else deleted it.
func (p *provider) remove(ctx context.Context, op, id string) (removed bool, err error) {
	_, err = call(ctx, p, p.writes, op, func(ctx context.Context) (struct{}, error) {
		_, err := p.groups.BeginDelete(ctx, p.cfg.ResourceGroup, id, nil)
		return struct{}{}, err
	})
	switch code, _ := azure.CodeText(err); {
	case err == nil:
		removed = true
	case absent(err):
		return false, nil
	case code == codeTransitioning:
		// Another deletion may be on its way.
	default:
		return false, err
	}
	busy := err
	wait, until := deleteFirst, time.Now().Add(deleteMost)
	for {
		_, err := p.getGroup(ctx, op, id)
		switch {
		case absent(err):
			return removed, nil
		case err != nil:
			return removed, err
		case time.Now().After(until) && busy != nil:
			return removed, busy
		case time.Now().After(until):
			e := p.fail(sdk.Unavailable, op, fmt.Errorf("the container group %s is still being deleted", id))
			e.Retryable = true
			return removed, e
		}
		if err := sdk.SystemClock().Sleep(ctx, wait); err != nil {
			return removed, p.fail(sdk.CodeOf(err), op, errors.Join(fmt.Errorf("the container group %s is being deleted", id), err))
		}
		wait = min(2*wait, deleteLast)
	}
}

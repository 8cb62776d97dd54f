package cloudrun

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/run/apiv2/runpb"

	"github.com/windlass-run/windlass/sdk"
)

const opClean = "clean up"

// A deletion takes a moment, in which the job still counts against the quota.
const (
	deleteFirst = 20 * time.Millisecond
	deleteLast  = 2 * time.Second
	deleteMost  = 20 * time.Second
)

// CleanupJob implements sdk.JobCleaner. It deletes the job, and with it the
// execution. The log stays, as the log bucket's retention says.
func (p *provider) CleanupJob(ctx context.Context, r sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CleanupJobResult{}, p.fail(sdk.CodeOf(err), opClean, err)
	}
	h := r.Handle
	if err := p.checkHandle(opClean, h); err != nil {
		return sdk.CleanupJobResult{}, err
	}
	j, err := p.getJob(ctx, opClean, h.ID)
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
		if p.young(h) {
			e := p.fail(sdk.Unavailable, opClean, fmt.Errorf("the job %s isn't shown yet", h.ID))
			e.Retryable = true
			return sdk.CleanupJobResult{}, e
		}
		return sdk.CleanupJobResult{}, nil
	case err != nil:
		return sdk.CleanupJobResult{}, err
	}
	p.show(h.ID)
	if !p.seen.Get(h.ID).ended {
		// The job's own word on its execution may lag behind.
		e, err := p.getExecution(ctx, opClean, h)
		live := err == nil && !completed(e)
		if sdk.CodeOf(err) == sdk.NotFound {
			live, _ = liveness(j)
		} else if err != nil {
			return sdk.CleanupJobResult{}, err
		}
		if live {
			return sdk.CleanupJobResult{}, p.fail(sdk.FailedPrecondition, opClean, fmt.Errorf("the job %s runs, or is about to", h.ID))
		}
	}
	removed, err := p.remove(ctx, opClean, j)
	if err != nil || !removed {
		return sdk.CleanupJobResult{}, err
	}
	return sdk.CleanupJobResult{Removed: []string{"job " + h.ID}}, nil
}

// remove deletes a job, and reads back that it is gone. removed is false where
// somebody else deleted it.
func (p *provider) remove(ctx context.Context, op string, j *runpb.Job) (removed bool, err error) {
	id := last(j.GetName())
	if j.GetDeleteTime() == nil {
		_, err := call(ctx, p, p.writes, op, func(ctx context.Context) (*longrunningpb.Operation, error) {
			return p.jobs.DeleteJob(ctx, &runpb.DeleteJobRequest{Name: p.jobName(id)})
		})
		switch sdk.CodeOf(err) {
		case 0:
			removed = true
		case sdk.NotFound:
			return false, nil
		case sdk.FailedPrecondition, sdk.Aborted:
			// Another deletion is on its way.
		default:
			return false, err
		}
	}
	wait, until := deleteFirst, time.Now().Add(deleteMost)
	for {
		now, err := p.getJob(ctx, op, id)
		switch {
		case sdk.CodeOf(err) == sdk.NotFound:
			return removed, nil
		case err != nil:
			return removed, err
		case now.GetDeleteTime() == nil && !removed:
			return false, p.fail(sdk.FailedPrecondition, op, fmt.Errorf("the job %s can't be deleted at the moment", id))
		case time.Now().After(until):
			e := p.fail(sdk.Unavailable, op, fmt.Errorf("the job %s is still being deleted", id))
			e.Retryable = true
			return removed, e
		}
		if err := sdk.SystemClock().Sleep(ctx, wait); err != nil {
			return removed, p.fail(sdk.CodeOf(err), op, errors.Join(fmt.Errorf("the job %s is being deleted", id), err))
		}
		wait = min(2*wait, deleteLast)
	}
}

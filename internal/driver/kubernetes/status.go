package kubernetes

import (
	"context"
	"errors"
	"fmt"

	"github.com/windlass-run/windlass/sdk"
)

const opStatus = "read state"

// JobStatus implements sdk.JobRunner.
func (p *provider) JobStatus(ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.JobStatusResult{}, p.fail(sdk.CodeOf(err), opStatus, err)
	}
	if err := p.checkHandle(opStatus, r.Handle); err != nil {
		return sdk.JobStatusResult{}, err
	}
	s, err := p.look(ctx, opStatus, r.Handle)
	if err != nil {
		return sdk.JobStatusResult{}, err
	}
	return p.state(r.Handle, s)
}

// state judges what there is. A job is gone once neither its Job nor a pod is left:
// behind a Job that somebody deleted a pod may still run for a while.
func (p *provider) state(h sdk.JobHandle, s sight) (sdk.JobStatusResult, error) {
	res := judge(s)
	if s.job == nil && len(s.pods) == 0 {
		return sdk.JobStatusResult{}, p.fail(sdk.NotFound, opStatus, errors.New("the cluster has no Job "+h.ID))
	}
	if s.job == nil && !res.State.Terminal() {
		res.Message = oneLine("the Job was deleted, and its pod is still there; " + res.Message)
	}
	return res, nil
}

// JobStatuses implements sdk.JobBatcher. It lists the Jobs and then the pods, in
// two calls for all.
func (p *provider) JobStatuses(ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.JobStatusesResult{}, p.fail(sdk.CodeOf(err), opStatus, err)
	}
	if len(r.Handles) > batchMax {
		return sdk.JobStatusesResult{}, p.fail(sdk.InvalidArgument, opStatus, fmt.Errorf("%d handles, at most %d", len(r.Handles), batchMax))
	}
	out := sdk.JobStatusesResult{Items: make([]sdk.JobStatusItem, len(r.Handles))}
	var asked []sdk.JobHandle
	for i, h := range r.Handles {
		if out.Items[i].Err = p.checkHandle(opStatus, h); out.Items[i].Err == nil {
			asked = append(asked, h)
		}
	}
	if len(asked) == 0 {
		return out, nil
	}
	sights, err := p.sights(ctx, opStatus, asked)
	if err != nil {
		return sdk.JobStatusesResult{}, err
	}
	for i, h := range r.Handles {
		if out.Items[i].Err == nil {
			out.Items[i].Result, out.Items[i].Err = p.state(h, sights[0])
			sights = sights[1:]
		}
	}
	return out, nil
}

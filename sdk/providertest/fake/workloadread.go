package fake

import (
	"context"
	"fmt"
	"iter"

	"github.com/windlass-run/windlass/sdk"
)

// ListWorkloads implements sdk.WorkloadLister.
func (p *provider) ListWorkloads(ctx context.Context, r sdk.ListWorkloadsRequest) iter.Seq2[sdk.WorkloadItem, error] {
	return func(yield func(sdk.WorkloadItem, error) bool) {
		list, err := p.listed(ctx, r)
		if err != nil {
			yield(sdk.WorkloadItem{}, err)
			return
		}
		now := p.cloud.clock.Now()
		for _, d := range list {
			if r.Name != "" && d.Path.Name() != r.Name {
				continue
			}
			if ctx.Err() != nil {
				yield(sdk.WorkloadItem{}, ended(ctx, OpListWorkloads))
				return
			}
			if !yield(d.item(now), nil) {
				return
			}
		}
	}
}

func (p *provider) listed(ctx context.Context, r sdk.ListWorkloadsRequest) ([]*deployment, error) {
	ctx, cancel := p.limit(ctx)
	defer cancel()
	in, err := p.cloud.enter(ctx, OpListWorkloads, r)
	if err != nil {
		return nil, err
	}
	list, err := p.cloud.store.workloads()
	if err != nil {
		return nil, broken(OpListWorkloads, err)
	}
	return list, in.done()
}

// WorkloadStatus implements sdk.WorkloadStatuser.
func (p *provider) WorkloadStatus(ctx context.Context, r sdk.WorkloadStatusRequest) (sdk.WorkloadStatusResult, error) {
	d, err := p.read(ctx, OpWorkloadStatus, r.Path)
	res := sdk.WorkloadStatusResult{Status: sdk.DeploymentStatus{Path: r.Path, Rollout: sdk.RolloutUnknown}}
	if err != nil && (sdk.CodeOf(err) != sdk.NotFound || r.OpID.IsZero()) {
		return sdk.WorkloadStatusResult{}, err
	}
	if d != nil {
		res.Status = d.status(p.cloud.clock.Now())
	}
	if d != nil && r.Brief && r.OpID.IsZero() {
		res.Status = brief(res.Status)
	}
	if r.Rollout != "" && r.Rollout != res.Status.RolloutID {
		// A later change has taken its place; whether it ended well is not kept.
		res.Status.Rollout, res.Status.RolloutID = sdk.RolloutUnknown, r.Rollout
	}
	if !r.OpID.IsZero() {
		tr := d.trace(p.g.Workload.Ops, r.OpID, r.Before)
		res.Op = &tr
	}
	return res, nil
}

// brief leaves out what a backend would need more calls for.
func brief(st sdk.DeploymentStatus) sdk.DeploymentStatus {
	st.Instances, st.Updated = nil, nil
	if st.Rollout != sdk.RolloutFailed {
		st.Rollout = sdk.RolloutUnknown
	}
	return st
}

// read is one call that looks at a workload.
func (p *provider) read(ctx context.Context, op Op, path sdk.WorkloadPath) (*deployment, error) {
	if err := path.Check(); err != nil {
		return nil, err
	}
	ctx, cancel := p.limit(ctx)
	defer cancel()
	in, err := p.cloud.enter(ctx, op, pathBody{path})
	if err != nil {
		return nil, err
	}
	d, err := p.cloud.store.workload(path)
	if err != nil {
		return nil, broken(op, err)
	}
	if err := in.done(); err != nil {
		return nil, err
	}
	if d == nil {
		return nil, noWorkload(op, path)
	}
	return d, nil
}

type pathBody struct {
	Path sdk.WorkloadPath `json:"path"`
}

func noWorkload(op Op, path sdk.WorkloadPath) error {
	return &sdk.Error{Code: sdk.NotFound, Op: opName(op), Err: fmt.Errorf("workload %s: %w", path, &APIError{404, "NotFound"})}
}

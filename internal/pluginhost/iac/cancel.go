package iac

import (
	"context"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
)

// CancelJob implements sdk.JobCanceler. The wire's own cancel answers nothing, so the
// state is asked for before it, and after a refusal: a job that has ended keeps its end,
// and one that isn't there is gone. The grace can't be passed on.
func (p *provider) CancelJob(ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	const op = "cancel job"
	if err := p.absent(sdk.Canceler().String()); err != nil {
		return sdk.CancelJobResult{}, err
	}
	h, err := p.theirs(op, r.Handle)
	if err != nil {
		return sdk.CancelJobResult{}, err
	}
	// A state that can't be read is no reason not to cancel.
	if res, over := p.over(ctx, r.Handle, false); over {
		return res, nil
	}
	_, err = call(ctx, op, "IaCProviderJobCanceler.CancelJob", h, pb.NewIaCProviderJobCancelerClient(p.conn.grpc).CancelJob)
	if err == nil {
		return sdk.CancelJobResult{Accepted: true, Evidence: "CancelJob answered"}, nil
	}
	if sdk.IsClear(err) {
		if res, over := p.over(ctx, r.Handle, true); over {
			return res, nil
		}
	}
	return sdk.CancelJobResult{}, named(err, p.info.Name)
}

// over reports whether the plugin says that a job has ended. That it isn't there counts
// only once CancelJob was refused as well: a new job may not be visible yet.
func (p *provider) over(ctx context.Context, h sdk.JobHandle, refused bool) (sdk.CancelJobResult, bool) {
	st, err := p.JobStatus(ctx, sdk.JobStatusRequest{Handle: h})
	switch {
	case refused && sdk.CodeOf(err) == sdk.NotFound:
		return sdk.CancelJobResult{Gone: true, Evidence: err.Error()}, true
	case err == nil && st.State.Terminal():
		return sdk.CancelJobResult{Gone: true, Evidence: st.Raw["state"]}, true
	}
	return sdk.CancelJobResult{}, false
}

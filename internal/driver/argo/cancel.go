package argo

import (
	"context"
	"fmt"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

const opCancel = "cancel job"

// CancelJob implements sdk.JobCanceler. It terminates the Workflow: Argo's controller
// sends TERM to the pod's containers and, after the grace, KILL. Code and log stay.
func (p *provider) CancelJob(ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CancelJobResult{}, p.fail(sdk.CodeOf(err), opCancel, err)
	}
	if err := p.checkHandle(opCancel, r.Handle); err != nil {
		return sdk.CancelJobResult{}, err
	}
	gone := func() (*sdk.CancelJobResult, error) {
		w, err := p.look(ctx, opCancel, r.Handle)
		switch {
		case err != nil:
			return nil, err
		case w == nil:
			return &sdk.CancelJobResult{Gone: true, Evidence: "the cluster has no Workflow " + r.Handle.ID}, nil
		}
		if st := judge(w); st.State.Terminal() {
			return &sdk.CancelJobResult{Gone: true, Evidence: evidenceOf(st)}, nil
		}
		return nil, nil
	}
	if res, err := gone(); res != nil || err != nil {
		return deref(res), err
	}
	if err := p.client.Terminate(ctx, opCancel, r.Handle.ID, r.Handle.Metadata[keyUID]); err != nil {
		// It may have ended in between, which Argo Server refuses.
		if sdk.IsClear(err) {
			if res, e := gone(); res != nil && e == nil {
				return *res, nil
			}
		}
		return sdk.CancelJobResult{}, err
	}
	return sdk.CancelJobResult{Accepted: true, Evidence: "the Workflow has the shutdown strategy Terminate"}, nil
}

func deref(r *sdk.CancelJobResult) sdk.CancelJobResult {
	if r == nil {
		return sdk.CancelJobResult{}
	}
	return *r
}

func evidenceOf(st sdk.JobStatusResult) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s; Workflow %s; %s", st.State, st.Reason, st.Raw["workflow.phase"], st.Message))
}

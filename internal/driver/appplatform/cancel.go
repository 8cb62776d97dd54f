package appplatform

import (
	"context"
	"fmt"
	"strings"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/sdk"
)

const opCancel = "cancel job"

// CancelJob implements sdk.JobCanceler. It cancels each deployment of the app that
// is under way, and reads back what became of them. App Platform sends TERM, and
// KILL when the grace of the launch has passed.
func (p *provider) CancelJob(ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CancelJobResult{}, p.fail(sdk.CodeOf(err), opCancel, err)
	}
	h := r.Handle
	if err := p.checkHandle(opCancel, h); err != nil {
		return sdk.CancelJobResult{}, err
	}
	gone := sdk.CancelJobResult{Gone: true, Evidence: "DigitalOcean knows no such app"}
	hidden := p.later(opCancel, fmt.Errorf("the deployment of the app %s isn't shown yet", h.ID))
	list, err := p.deployments(ctx, opCancel, h.ID)
	switch {
	case notFound(err) && p.young(h):
		return sdk.CancelJobResult{}, hidden
	case notFound(err):
		return gone, nil
	case err != nil:
		return sdk.CancelJobResult{}, err
	}
	own, _ := split(list, h.Metadata[keyDeployment])
	if own == nil {
		return sdk.CancelJobResult{}, hidden
	}
	if ended(list, own) {
		return sdk.CancelJobResult{Gone: true, Evidence: evidence(list)}, nil
	}
	accepted, refusal := false, error(nil)
	for _, d := range list {
		if over(d) {
			continue
		}
		switch err := p.cancelDeployment(ctx, opCancel, h.ID, d.ID); {
		case err == nil:
			accepted = true
		case sdk.CodeOf(err) == sdk.InvalidArgument, sdk.CodeOf(err) == sdk.FailedPrecondition, sdk.CodeOf(err) == sdk.Aborted, notFound(err):
			refusal = err // it ended meanwhile, or is gone
		default:
			return sdk.CancelJobResult{}, err
		}
	}
	list, err = p.deployments(ctx, opCancel, h.ID)
	if notFound(err) {
		gone.Accepted = accepted
		return gone, nil
	}
	if err == nil {
		own, _ = split(list, h.Metadata[keyDeployment])
	}
	switch {
	case err != nil && accepted:
		return sdk.CancelJobResult{Accepted: true, Evidence: "DigitalOcean took the cancel"}, nil
	case err != nil:
		return sdk.CancelJobResult{}, err
	case own != nil && ended(list, own):
		return sdk.CancelJobResult{Accepted: accepted, Gone: true, Evidence: evidence(list)}, nil
	case !accepted && refusal != nil:
		return sdk.CancelJobResult{}, refusal
	}
	return sdk.CancelJobResult{Accepted: accepted, Evidence: evidence(list)}, nil
}

// ended reports whether nothing of a job runs any more, nor will.
func ended(list []*godo.Deployment, own *godo.Deployment) bool {
	_, later := split(list, own.ID)
	return judge(own, later, nil).State.Terminal()
}

// evidence is what the deployments say.
func evidence(list []*godo.Deployment) string {
	parts := make([]string, len(list))
	for i, d := range list {
		parts[i] = "deployment " + d.ID + " is " + string(d.Phase)
		if s := jobStep(d); s != nil {
			parts[i] += ", its job " + string(s.Status)
		}
	}
	return strings.Join(parts, "; ")
}

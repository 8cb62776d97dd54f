package argo

import (
	"context"
	"strconv"

	"github.com/windlass-run/windlass/internal/cloud/argo"
	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

const opFind = "find jobs"

// FindJobs implements sdk.JobFinder. A launch is looked for by its Workflow's name,
// a run by its label.
func (p *provider) FindJobs(ctx context.Context, r sdk.FindJobsRequest) (sdk.FindJobsResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.FindJobsResult{}, p.fail(sdk.CodeOf(err), opFind, err)
	}
	out := sdk.FindJobsResult{Outcome: sdk.FindAbsent}
	switch {
	case r.Launch != nil:
		if _, _, err := p.launches().Read(opFind, *r.Launch); err != nil {
			return sdk.FindJobsResult{}, err
		}
		w, err := p.client.Get(ctx, opFind, kube.ObjectName(r.Launch.AttemptID))
		if sdk.CodeOf(err) == sdk.NotFound {
			break
		}
		if err != nil {
			return sdk.FindJobsResult{}, err
		}
		if found, ok := p.found(w); ok && found.AttemptID == r.Launch.AttemptID {
			out.Jobs = append(out.Jobs, found)
		}
	case !r.RunID.IsZero():
		all, err := p.client.List(ctx, opFind, sdk.LabelRun+"="+r.RunID.String())
		if err != nil {
			return sdk.FindJobsResult{}, err
		}
		for i := range all {
			if found, ok := p.found(&all[i]); ok && (r.Owner == "" || found.Owner == r.Owner) {
				out.Jobs = append(out.Jobs, found)
			}
		}
	}
	if len(out.Jobs) > 0 {
		out.Outcome = sdk.FindFound
	}
	return out, nil
}

// found reads what a Workflow carries. ok is false for one that isn't ours, and for
// one that is being deleted.
func (p *provider) found(w *argo.Workflow) (sdk.FoundJob, bool) {
	o, ok := kube.Owned(typeWorkflow, w.ObjectMeta)
	n, err := strconv.Atoi(w.Labels[sdk.LabelNumber])
	if !ok || err != nil || n < 1 || w.DeletionTimestamp != nil {
		return sdk.FoundJob{}, false
	}
	return sdk.FoundJob{Handle: p.handle(w), RunID: o.RunID, AttemptID: o.AttemptID, Attempt: n, Owner: o.Owner, LedgerID: o.LedgerID}, true
}

package kubernetes

import (
	"context"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

const opFind = "find jobs"

// FindJobs implements sdk.JobFinder. A launch is looked for by its Job's name, a
// run by its label. Either read is consistent, so what isn't found isn't there.
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
		j, err := p.getJob(ctx, opFind, kube.ObjectName(r.Launch.AttemptID))
		if err != nil && sdk.CodeOf(err) != sdk.NotFound {
			return sdk.FindJobsResult{}, err
		}
		if found, ok := p.found(&j); err == nil && ok && found.AttemptID == r.Launch.AttemptID {
			out.Jobs = append(out.Jobs, found)
		}
	case !r.RunID.IsZero():
		jobs, err := p.jobsOf(ctx, opFind, sdk.LabelRun+"="+r.RunID.String())
		if err != nil {
			return sdk.FindJobsResult{}, err
		}
		for i := range jobs {
			if found, ok := p.found(&jobs[i]); ok && (r.Owner == "" || found.Owner == r.Owner) {
				out.Jobs = append(out.Jobs, found)
			}
		}
	}
	if len(out.Jobs) > 0 {
		out.Outcome = sdk.FindFound
	}
	return out, nil
}

// found reads what a Job carries. ok is false for one that isn't ours, and for one
// that is being deleted.
func (p *provider) found(j *batchv1.Job) (sdk.FoundJob, bool) {
	o, ok := kube.Owned(typeJob, j.ObjectMeta)
	n, err := strconv.Atoi(j.Labels[sdk.LabelNumber])
	if !ok || err != nil || n < 1 || j.DeletionTimestamp != nil {
		return sdk.FoundJob{}, false
	}
	return sdk.FoundJob{Handle: p.handle(j), RunID: o.RunID, AttemptID: o.AttemptID, Attempt: n, Owner: o.Owner, LedgerID: o.LedgerID}, true
}

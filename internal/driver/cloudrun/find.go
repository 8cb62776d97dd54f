package cloudrun

import (
	"context"
	"strconv"
	"time"

	"cloud.google.com/go/run/apiv2/runpb"

	"github.com/windlass-run/windlass/sdk"
)

const opFind = "find jobs"

// FindJobs implements sdk.JobFinder. A launch is looked for by its job's name, a
// run among all jobs.
func (p *provider) FindJobs(ctx context.Context, r sdk.FindJobsRequest) (sdk.FindJobsResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.FindJobsResult{}, p.fail(sdk.CodeOf(err), opFind, err)
	}
	var out sdk.FindJobsResult
	switch {
	case r.Launch != nil:
		if _, _, err := p.launches().Read(opFind, *r.Launch); err != nil {
			return out, err
		}
		j, err := p.getJob(ctx, opFind, jobID(r.Launch.AttemptID))
		if err != nil && sdk.CodeOf(err) != sdk.NotFound {
			return out, err
		}
		if found, ok := p.found(j); err == nil && ok && found.AttemptID == r.Launch.AttemptID {
			out.Jobs = append(out.Jobs, found)
		}
	case !r.RunID.IsZero():
		err := p.listJobs(ctx, opFind, func(j *runpb.Job) bool {
			if found, ok := p.found(j); ok && found.RunID == r.RunID && (r.Owner == "" || found.Owner == r.Owner) {
				out.Jobs = append(out.Jobs, found)
			}
			return true
		})
		if err != nil {
			return sdk.FindJobsResult{}, err
		}
	}
	switch visible := r.SentAt.Add(time.Duration(p.cfg.VisibleWithin)); {
	case len(out.Jobs) > 0:
		out.Outcome = sdk.FindFound
	case r.SentAt.IsZero():
		out.Outcome, out.VisibleAt = sdk.FindNotVisible, p.clock.Now().Add(time.Duration(p.cfg.VisibleWithin))
	case p.clock.Now().Before(visible):
		out.Outcome, out.VisibleAt = sdk.FindNotVisible, visible
	default:
		out.Outcome = sdk.FindAbsent
	}
	return out, nil
}

// found reads what a job carries. ok is false for a job that isn't ours, and for
// one that is being deleted.
func (p *provider) found(j *runpb.Job) (sdk.FoundJob, bool) {
	o, ok := ownedJob(j)
	if !ok || j.GetDeleteTime() != nil {
		return sdk.FoundJob{}, false
	}
	n, err := strconv.Atoi(j.GetLabels()[sdk.LabelNumber])
	if err != nil || n < 1 {
		return sdk.FoundJob{}, false
	}
	p.show(o.ID)
	sent := o.CreatedAt
	if sent.IsZero() {
		sent = p.clock.Now()
	}
	return sdk.FoundJob{Handle: p.handle(o.ID, j, sent), RunID: o.RunID, AttemptID: o.AttemptID, Attempt: n, Owner: o.Owner, LedgerID: o.LedgerID}, true
}

// listJobs gives the jobs of the project and region until yield returns false.
// The API has no filter.
// https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.jobs/list
func (p *provider) listJobs(ctx context.Context, op string, yield func(*runpb.Job) bool) error {
	req := &runpb.ListJobsRequest{Parent: p.session.Location(), PageSize: batchMax}
	for {
		out, err := call(ctx, p, p.reads, op, func(ctx context.Context) (*runpb.ListJobsResponse, error) { return p.jobs.ListJobs(ctx, req) })
		if err != nil {
			return err
		}
		for _, j := range out.GetJobs() {
			if !yield(j) {
				return nil
			}
		}
		if req.PageToken = out.GetNextPageToken(); req.PageToken == "" {
			return nil
		}
	}
}

package batch

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/windlass-run/windlass/sdk"
)

const opFind = "find jobs"

// FindJobs implements sdk.JobFinder. A job is sought by its name, which has the
// run and the attempt. AWS promises nothing about its lists, so that a search
// never proves absence; past the window in which a new job may be hidden there
// is no use in seeking it further.
// https://docs.aws.amazon.com/batch/latest/APIReference/API_ListJobs.html
func (p *provider) FindJobs(ctx context.Context, r sdk.FindJobsRequest) (sdk.FindJobsResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.FindJobsResult{}, p.fail(sdk.CodeOf(err), opFind, err)
	}
	run, attempt, name := r.RunID, sdk.ID{}, ""
	if l := r.Launch; l != nil {
		req, _, err := p.launches().Read(opFind, *l)
		if err != nil {
			return sdk.FindJobsResult{}, err
		}
		run, attempt, name = l.RunID, l.AttemptID, req.Job.Name
	}
	out := sdk.FindJobsResult{Outcome: sdk.FindNotVisible}
	if run.IsZero() {
		return out, nil
	}
	if name == "" {
		name = runPrefix(run) + "*"
	}
	in := &batch.ListJobsInput{JobQueue: &p.cfg.Queue, Filters: []types.KeyValuesPair{{Name: new("JOB_NAME"), Values: []string{name}}}}
	err := p.listJobs(ctx, opFind, in, func(page []types.JobDetail) bool {
		for _, j := range page {
			f, ok := p.foundJob(j, r)
			if ok && f.RunID == run && (attempt.IsZero() || f.AttemptID == attempt) && (r.Owner == "" || f.Owner == r.Owner) {
				out.Jobs = append(out.Jobs, f)
			}
		}
		return true
	})
	if err != nil {
		return sdk.FindJobsResult{}, err
	}
	if len(out.Jobs) > 0 {
		out.Outcome = sdk.FindFound
		return out, nil
	}
	if until := r.SentAt.Add(time.Duration(p.cfg.MissingGrace)); !r.SentAt.IsZero() && until.After(p.clock.Now()) {
		out.VisibleAt = until
	}
	return out, nil
}

// listJobs gives the jobs of a list that bear a name of ours, with their tags,
// page by page. A job that is in the list and can't be described is left out:
// it is too new, or has just been forgotten.
func (p *provider) listJobs(ctx context.Context, op string, in *batch.ListJobsInput, yield func(page []types.JobDetail) bool) error {
	return p.eachSummary(ctx, op, in, func(page []types.JobSummary) (bool, error) {
		var ids []string
		for _, s := range page {
			if _, _, _, ok := readName(str(s.JobName)); ok {
				ids = append(ids, str(s.JobId))
			}
		}
		for len(ids) > 0 {
			n := min(batchMax, len(ids))
			found, err := p.describe(ctx, op, ids[:n])
			if err != nil {
				return false, err
			}
			var jobs []types.JobDetail
			for _, id := range ids[:n] {
				if j, ok := found[id]; ok {
					jobs = append(jobs, j)
				}
			}
			if ids = ids[n:]; !yield(jobs) {
				return false, nil
			}
		}
		return true, nil
	})
}

// eachSummary gives the pages of a list.
func (p *provider) eachSummary(ctx context.Context, op string, in *batch.ListJobsInput, yield func(page []types.JobSummary) (more bool, err error)) error {
	for {
		var out *batch.ListJobsOutput
		err := p.paced(ctx, p.reads, op, func(ctx context.Context) (err error) {
			out, err = p.batch.ListJobs(ctx, in)
			return err
		})
		if err != nil {
			return err
		}
		if more, err := yield(out.JobSummaryList); err != nil || !more {
			return err
		}
		if str(out.NextToken) == "" {
			return nil
		}
		in.NextToken = out.NextToken
	}
}

// foundJob makes a job of a description that bears a name of ours. Where its log
// is follows from its definition.
func (p *provider) foundJob(j types.JobDetail, r sdk.FindJobsRequest) (sdk.FoundJob, bool) {
	run, attempt, number, ok := readName(str(j.JobName))
	if !ok {
		return sdk.FoundJob{}, false
	}
	out := sdk.FoundJob{RunID: run, AttemptID: attempt, Attempt: number, Owner: j.Tags[sdk.LabelOwner], LedgerID: j.Tags[sdk.LabelLedger]}
	if out.Owner == "" && r.Launch != nil {
		out.Owner, out.LedgerID = r.Launch.Owner, r.Launch.LedgerID
	}
	group := defaultLogGroup
	if c := j.Container; c != nil && c.LogConfiguration != nil && c.LogConfiguration.Options["awslogs-group"] != "" {
		group = c.LogConfiguration.Options["awslogs-group"]
	}
	sent := at(j.CreatedAt)
	if sent.IsZero() {
		sent = p.clock.Now()
	}
	out.Handle, _ = withStream(p.handle(str(j.JobId), str(j.JobName), definitionOf(str(j.JobDefinition)), group, sent), stream(j))
	return out, true
}

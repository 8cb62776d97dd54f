package batch

import (
	"cmp"
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/batch"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/internal/driver/launch"
	"github.com/windlass-run/windlass/sdk"
)

const opRun = "run job"

// RunJob implements sdk.JobRunner. It sees to it that the definition is there,
// and submits the job. What this process has sent before without a clear answer
// is looked for first.
func (p *provider) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	l := r.Launch
	if err := ctx.Err(); err != nil {
		return sdk.RunJobResult{}, p.fail(sdk.CodeOf(err), opRun, err)
	}
	req, err := p.launches().ToSend(opRun, l)
	if err != nil {
		return sdk.RunJobResult{}, err
	}
	visible, err := p.secrets.Reveal(ctx, opRun, l.Secrets)
	if err != nil {
		return sdk.RunJobResult{}, err
	}
	if n, err := req.Job.Override.with(visible).size(); err != nil || n > maxOverrides {
		e := p.fail(sdk.InvalidArgument, opRun, fmt.Errorf("with the values of visible secrets the overrides have %d characters, and a job's may have %d", n, maxOverrides))
		e.Field, e.Reason, e.Remedy = "secrets", sdk.ReasonInvalidSpec, "put large secrets into Secrets Manager"
		return sdk.RunJobResult{}, e
	}
	if err := p.session.CheckAccount(ctx, opRun); err != nil {
		return sdk.RunJobResult{}, p.unsent(err)
	}
	if p.jobs.inDoubt(l.AttemptID) {
		found, err := p.FindJobs(ctx, sdk.FindJobsRequest{Launch: &l})
		if err != nil {
			return sdk.RunJobResult{}, sdk.Unclear(err)
		}
		if len(found.Jobs) > 0 {
			return sdk.RunJobResult{Handle: found.Jobs[0].Handle, Adopted: true}, nil
		}
	}
	version, err := p.ensureDefinition(ctx, req.Definition, 0)
	if err != nil {
		return sdk.RunJobResult{}, p.unsent(err)
	}
	in := req.Job.input(visible)
	id, err := p.submit(ctx, l.AttemptID, in)
	if noDefinition(err) {
		// Another process deregistered it since, or lists lag.
		if _, err := p.ensureDefinition(ctx, req.Definition, version); err != nil {
			return sdk.RunJobResult{}, p.unsent(err)
		}
		id, err = p.submit(ctx, l.AttemptID, in)
	}
	if err != nil {
		if err = aws.Refused(err); sdk.IsClear(err) && !sdk.IsRetryable(err) {
			p.dropUnused(ctx, req.Definition.Name)
		}
		return sdk.RunJobResult{}, err
	}
	h := p.handle(id, req.Job.Name, req.Definition.Name, cmp.Or(req.Definition.Container.LogOptions["awslogs-group"], defaultLogGroup), p.clock.Now())
	p.jobs.made(h)
	return sdk.RunJobResult{Handle: h}, nil
}

// submit makes the one call that makes a job, and notes whether it is in doubt.
func (p *provider) submit(ctx context.Context, attempt sdk.ID, in *batch.SubmitJobInput) (string, error) {
	if err := p.submits.Wait(ctx); err != nil {
		return "", p.unsent(p.session.Fail(ctx, opRun, err))
	}
	var out *batch.SubmitJobOutput
	p.jobs.sent(attempt, true)
	err := p.placed(opRun, p.session.Spend(ctx, p.submits, opRun, func(ctx context.Context) (err error) {
		out, err = p.batch.SubmitJob(ctx, in)
		return err
	}))
	if err == nil && !jobID.MatchString(str(out.JobId)) {
		return "", p.fail(sdk.Unavailable, opRun, fmt.Errorf("SubmitJob gave the job ID %q", str(out.JobId)))
	}
	if err == nil || sdk.IsClear(err) {
		p.jobs.sent(attempt, false)
	}
	if err != nil {
		return "", err
	}
	return *out.JobId, nil
}

// unsent is the error of what comes before the submit. Whatever became of that
// call, no job was made: a launch that can't be sent twice must not be in doubt
// for it.
func (p *provider) unsent(err error) error {
	if sdk.IsClear(err) || sdk.CodeOf(err) == sdk.Canceled {
		return err
	}
	e := p.fail(sdk.Aborted, opRun, fmt.Errorf("the job was not submitted yet: %w", err))
	e.Retryable, e.Reason, e.RetryAfter = true, sdk.ReasonInfrastructure, sdk.RetryAfter(err)
	return e
}

// launches reads this provider's launches.
func (p *provider) launches() launch.Reader[request] {
	return launch.Reader[request]{Provider: p.name, Identity: p.identity, Decode: decodeRequest}
}

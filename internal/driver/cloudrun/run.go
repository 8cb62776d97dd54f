package cloudrun

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/run/apiv2/runpb"

	"github.com/windlass-run/windlass/internal/cloud/gcp"
	"github.com/windlass-run/windlass/internal/driver/launch"
	"github.com/windlass-run/windlass/sdk"
)

const opRun = "run job"

// RunJob implements sdk.JobRunner. It makes one call, which makes the job and has
// its execution started, and returns while Cloud Run is at it.
func (p *provider) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	l := r.Launch
	if err := ctx.Err(); err != nil {
		return sdk.RunJobResult{}, p.fail(sdk.CodeOf(err), opRun, err)
	}
	req, err := p.launches().ToSend(opRun, l)
	if err != nil {
		return sdk.RunJobResult{}, err
	}
	visible, err := p.reveal(ctx, l.Secrets)
	if err != nil {
		return sdk.RunJobResult{}, err
	}
	c := req.GetJob().GetTemplate().GetTemplate().GetContainers()[0]
	c.Env = append(c.Env, visible...)
	op, err := call(ctx, p, p.writes, opRun, func(ctx context.Context) (*longrunningpb.Operation, error) { return p.jobs.CreateJob(ctx, req) })
	switch {
	case sdk.CodeOf(err) == sdk.AlreadyExists:
		return p.adopt(ctx, l, req.GetJobId(), err)
	case err != nil:
		return sdk.RunJobResult{}, refused(err)
	}
	made := &runpb.Job{}
	if op.GetMetadata().UnmarshalTo(made) != nil {
		// The name alone is enough; without a time the whole log is read.
		made = &runpb.Job{}
	}
	h := p.handle(req.GetJobId(), made, p.clock.Now())
	p.note(h, false, false)
	return sdk.RunJobResult{Handle: h}, nil
}

// adopt takes the job that an earlier send of the launch has made.
func (p *provider) adopt(ctx context.Context, l sdk.Launch, id string, exists error) (sdk.RunJobResult, error) {
	j, err := p.getJob(ctx, opRun, id)
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
		// It exists, and isn't shown yet. Nobody else has the attempt's name.
		return sdk.RunJobResult{Handle: p.handle(id, &runpb.Job{}, p.clock.Now()), Adopted: true}, nil
	case err != nil:
		// It exists, whatever became of this look.
		return sdk.RunJobResult{}, sdk.Unclear(err)
	case j.GetLabels()[sdk.LabelAttempt] != l.AttemptID.String():
		return sdk.RunJobResult{}, exists
	case j.GetDeleteTime() != nil:
		e := p.fail(sdk.Aborted, opRun, fmt.Errorf("the job %s is being deleted", id))
		return sdk.RunJobResult{}, e
	}
	h := p.handle(id, j, p.clock.Now())
	p.note(h, false, false)
	return sdk.RunJobResult{Handle: h, Adopted: true}, nil
}

// refused gives a definite refusal its reason. The quotas of jobs and of running
// executions are room that others will give back, so the same attempt is sent
// again later.
// https://cloud.google.com/run/quotas
func refused(err error) error {
	var e *sdk.Error
	if !errors.As(err, &e) {
		return err
	}
	text := strings.ToLower(gcp.Text(err))
	switch e.Code {
	case sdk.ResourceExhausted:
		e.Retryable, e.Reason = true, sdk.ReasonQuota
		if strings.Contains(text, "jobs per project") {
			e.Remedy = "`windlass reap` removes jobs that were left behind"
		}
	case sdk.InvalidArgument, sdk.FailedPrecondition, sdk.NotFound:
		e.Reason = reasonOf(text)
		if e.Reason == "" {
			e.Reason = sdk.ReasonInvalidSpec
		}
	}
	return err
}

// launches reads this provider's launches.
func (p *provider) launches() launch.Reader[*runpb.CreateJobRequest] {
	return launch.Reader[*runpb.CreateJobRequest]{Provider: p.name, Identity: p.identity, Decode: decodeRequest}
}

func (p *provider) jobName(id string) string { return p.session.Location() + "/jobs/" + id }

func (p *provider) executionName(h sdk.JobHandle) string {
	return p.jobName(h.ID) + "/executions/" + h.Metadata[keyExecution]
}

func (p *provider) getJob(ctx context.Context, op, id string) (*runpb.Job, error) {
	return call(ctx, p, p.reads, op, func(ctx context.Context) (*runpb.Job, error) {
		return p.jobs.GetJob(ctx, &runpb.GetJobRequest{Name: p.jobName(id)})
	})
}

func (p *provider) getExecution(ctx context.Context, op string, h sdk.JobHandle) (*runpb.Execution, error) {
	return call(ctx, p, p.reads, op, func(ctx context.Context) (*runpb.Execution, error) {
		return p.executions.GetExecution(ctx, &runpb.GetExecutionRequest{Name: p.executionName(h)})
	})
}

// at returns a time of Google's, zero for none.
func at(t interface {
	IsValid() bool
	AsTime() time.Time
}) time.Time {
	if !t.IsValid() {
		return time.Time{}
	}
	return t.AsTime().UTC()
}

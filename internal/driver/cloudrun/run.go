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
	req, err := p.readLaunch(opRun, l)
	if err != nil {
		return sdk.RunJobResult{}, err
	}
	if len(l.Problems) > 0 || req == nil {
		return sdk.RunJobResult{}, p.fail(sdk.InvalidArgument, opRun, fmt.Errorf("the launch has problems: %s", sdk.JoinProblems(l.Problems)))
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
	p.seen.note(h, false, false)
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
		return sdk.RunJobResult{}, err
	case j.GetLabels()[sdk.LabelAttempt] != l.AttemptID.String():
		return sdk.RunJobResult{}, exists
	case j.GetDeleteTime() != nil:
		e := p.fail(sdk.Aborted, opRun, fmt.Errorf("the job %s is being deleted", id))
		return sdk.RunJobResult{}, e
	}
	h := p.handle(id, j, p.clock.Now())
	p.seen.note(h, false, false)
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

// readLaunch refuses a launch of another provider or of a newer version. The
// request is nil where the launch has none.
func (p *provider) readLaunch(op string, l sdk.Launch) (*runpb.CreateJobRequest, error) {
	if l.V > sdk.LaunchVersion {
		e := p.fail(sdk.FailedPrecondition, op, fmt.Errorf("launch of version %d, this program reads up to %d", l.V, sdk.LaunchVersion))
		e.Remedy = "use a newer windlass"
		return nil, e
	}
	if err := p.identity.Check(op, l.Identity); err != nil {
		return nil, err
	}
	if len(l.Request) == 0 {
		return nil, nil
	}
	req, err := decodeRequest(l.Request)
	if err == nil && len(req.GetJob().GetTemplate().GetTemplate().GetContainers()) != 1 {
		err = errors.New("it has no container")
	}
	if err != nil {
		return nil, p.fail(sdk.InvalidArgument, op, fmt.Errorf("read the launch: %w", err))
	}
	return req, nil
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

package ecs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/internal/driver/launch"
	"github.com/windlass-run/windlass/sdk"
)

const opRun = "run job"

// RunJob implements sdk.JobRunner. It sees to it that the definition is there
// and starts the task with the attempt's token.
func (p *provider) RunJob(ctx context.Context, r sdk.RunJobRequest) (sdk.RunJobResult, error) {
	l := r.Launch
	if err := ctx.Err(); err != nil {
		return sdk.RunJobResult{}, p.fail(sdk.CodeOf(err), opRun, err)
	}
	req, err := p.launches().ToSend(opRun, l)
	if err != nil {
		return sdk.RunJobResult{}, err
	}
	if err := p.session.CheckAccount(ctx, opRun); err != nil {
		return sdk.RunJobResult{}, p.unsent(err)
	}
	visible, err := p.secrets.Reveal(ctx, opRun, l.Secrets)
	if err != nil {
		return sdk.RunJobResult{}, err
	}
	if n, err := req.Run.Override.with(visible).size(); err != nil || n > maxOverrides {
		e := p.fail(sdk.InvalidArgument, opRun, fmt.Errorf("with the values of visible secrets the overrides have %d characters, and ECS takes %d", n, maxOverrides))
		e.Field, e.Reason, e.Remedy = "secrets", sdk.ReasonInvalidSpec, "put large secrets into Secrets Manager"
		return sdk.RunJobResult{}, e
	}
	version, err := p.ensureDefinition(ctx, req.Definition, 0)
	if err != nil {
		return sdk.RunJobResult{}, p.unsent(err)
	}
	in := req.Run.input(visible)
	task, adopted, err := p.start(ctx, in)
	if noDefinition(err) {
		// Another process deregistered it since, or lists lag.
		if _, err := p.ensureDefinition(ctx, req.Definition, version); err != nil {
			return sdk.RunJobResult{}, p.unsent(err)
		}
		task, adopted, err = p.start(ctx, in)
	}
	for wait := settleFirst; noDefinition(err) && wait <= settleMost; wait *= 2 {
		// A new revision may not be known everywhere yet.
		if serr := p.clock.Sleep(ctx, wait); serr != nil {
			return sdk.RunJobResult{}, p.fail(sdk.CodeOf(serr), opRun, serr)
		}
		task, adopted, err = p.start(ctx, in)
	}
	if err != nil {
		if sdk.IsClear(err) && !sdk.IsRetryable(err) {
			p.dropUnused(ctx, req.Run.Cluster, req.Run.Family)
		}
		return sdk.RunJobResult{}, err
	}
	h := p.handle(task, place{cluster: req.Run.Cluster, group: req.Definition.Container.LogOptions["awslogs-group"],
		prefix: req.Definition.Container.LogOptions["awslogs-stream-prefix"]}, p.clock.Now())
	p.tasks.seen(h, task)
	return sdk.RunJobResult{Handle: h, Adopted: adopted}, nil
}

// unsent is the error of what comes before the task is started. Whatever became of
// that call, this send has made no task: the launch isn't in doubt for it.
func (p *provider) unsent(err error) error {
	if sdk.IsClear(err) || sdk.CodeOf(err) == sdk.Canceled {
		return err
	}
	e := p.fail(sdk.Aborted, opRun, fmt.Errorf("the task was not started yet: %w", err))
	e.Retryable, e.Reason, e.RetryAfter = true, sdk.ReasonInfrastructure, sdk.RetryAfter(err)
	return e
}

// The first and the last wait for a revision that was registered and that RunTask
// doesn't know: ECS's API is eventually consistent.
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_RunTask.html
const (
	settleFirst = 200 * time.Millisecond
	settleMost  = 3200 * time.Millisecond
)

// launches reads this provider's launches.
func (p *provider) launches() launch.Reader[request] {
	return launch.Reader[request]{Provider: p.name, Identity: p.identity, Decode: decodeRequest}
}

// sameMoment is how old a task that a call has just made may look: both times
// are AWS's own, and that of the answer is in whole seconds.
const sameMoment = 2 * time.Second

// start makes the one call that starts a task. Sent again with its token it
// gives the same task; adopted tells so as far as the task's age does.
func (p *provider) start(ctx context.Context, in *ecs.RunTaskInput) (types.Task, bool, error) {
	if err := p.submits.Wait(ctx); err != nil {
		// Its turn didn't come: nothing was sent.
		e := p.fail(sdk.ResourceExhausted, opRun, fmt.Errorf("no turn within AWS's rate of RunTask: %w", err))
		if e.Reason, e.Retryable = sdk.ReasonQueued, true; errors.Is(err, context.Canceled) {
			e.Code = sdk.Canceled
		}
		return types.Task{}, false, e
	}
	var out *ecs.RunTaskOutput
	err := p.session.Spend(ctx, p.submits, opRun, func(ctx context.Context) (err error) {
		out, err = p.ecs.RunTask(ctx, in)
		return err
	})
	var conflict *types.ConflictException
	switch {
	case errors.As(err, &conflict):
		task, err := p.conflicting(ctx, in, conflict, err)
		return task, true, err
	case err != nil:
		return types.Task{}, false, refusedTask(err)
	case len(out.Tasks) > 0:
		task := out.Tasks[0]
		now, ok := awsmiddleware.GetServerTime(out.ResultMetadata)
		return task, ok && task.CreatedAt != nil && now.Sub(*task.CreatedAt) > sameMoment, nil
	case len(out.Failures) > 0:
		return types.Task{}, false, p.placementError(out.Failures)
	}
	// Neither a task nor a reason: nothing is proven.
	return types.Task{}, false, p.fail(sdk.Unavailable, opRun, errors.New("RunTask gave neither a task nor a failure"))
}

// conflicting finds the attempt's task where ECS says that the token was used
// with another request: the request differs in a part that ECS itself filled
// in, such as the definition's revision.
func (p *provider) conflicting(ctx context.Context, in *ecs.RunTaskInput, conflict *types.ConflictException, cause error) (types.Task, error) {
	if len(conflict.ResourceIds) == 0 {
		return types.Task{}, p.fail(sdk.Unavailable, opRun, cause)
	}
	found, err := p.describe(ctx, opRun, *in.Cluster, conflict.ResourceIds[:1], false)
	if err != nil {
		// The task is there, whatever became of this look.
		return types.Task{}, sdk.Unclear(err)
	}
	for _, t := range found {
		if str(t.StartedBy) == *in.StartedBy && str(t.Group) == *in.Group {
			return t, nil
		}
	}
	// The token is ours alone, so the task is; it isn't shown yet.
	return types.Task{}, p.fail(sdk.Unavailable, opRun, cause)
}

// refusedTask tells a lack of room from a request that is wrong.
func refusedTask(err error) error {
	var e *sdk.Error
	if !errors.As(err, &e) {
		return err
	}
	c := *e
	text := strings.ToLower(aws.ErrorText(err))
	switch {
	case c.Code == sdk.ResourceExhausted:
		// Too many calls, of whoever in the account: it is our turn later.
		c.Retryable, c.Reason = true, sdk.ReasonQueued
	case c.Code == sdk.InvalidArgument && (strings.Contains(text, "capacity") || strings.Contains(text, "provisioning")) &&
		aws.ErrorCode(err) == "ClientException" && !strings.Contains(text, "capacity provider"):
		c.Code, c.Retryable, c.Reason = sdk.ResourceExhausted, true, sdk.ReasonCapacity
	case c.Code == sdk.InvalidArgument || c.Code == sdk.NotFound:
		c.Reason = sdk.ReasonInvalidSpec
	}
	return &c
}

// placementError is the error of a RunTask that was answered with failures and
// no task. Room that is lacking may come; what no instance fits won't.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/api_failures_messages.html
func (p *provider) placementError(failures []types.Failure) error {
	var texts []string
	for _, f := range failures {
		t := str(f.Reason)
		if d := str(f.Detail); d != "" && d != t {
			t += ": " + d
		}
		texts = append(texts, t)
	}
	why, again := placementReason(str(failures[0].Reason) + " " + str(failures[0].Detail))
	e := p.fail(sdk.FailedPrecondition, opRun, fmt.Errorf("ECS placed no task: %s", strings.Join(texts, "; ")))
	e.Reason = why
	if again {
		e.Code, e.Retryable = sdk.ResourceExhausted, true
	}
	return e
}

// placementReason classifies a failure's words, and says whether the same
// request may be placed later.
func placementReason(text string) (sdk.Reason, bool) {
	up := strings.ToUpper(text)
	has := func(parts ...string) bool {
		for _, s := range parts {
			if strings.Contains(up, s) {
				return true
			}
		}
		return false
	}
	switch {
	case has("REACHED THE LIMIT", "VCPU LIMIT", "QUOTA", "LIMIT EXCEEDED"):
		return sdk.ReasonQuota, true
	case has("ATTRIBUTE", "MEMBEROF", "CONSTRAINT", "LOCATION", "LIMIT"):
		return sdk.ReasonUnschedulable, false
	case has("RESOURCE:", "RESOURCE ", "AGENT", "CAPACITY", "INACTIVE", "EMPTY", "NO CONTAINER INSTANCES", "INSUFFICIENT"):
		return sdk.ReasonCapacity, true
	}
	// An unknown word is no reason to give up: the start time-out bounds it.
	return sdk.ReasonCapacity, true
}

package batch

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/windlass-run/windlass/sdk"
)

const (
	// probe is the name of what a check asks for: nothing bears it, so that no
	// call can change anything.
	probe    = "windlass-check"
	probeJob = "00000000-0000-0000-0000-000000000000"
)

// Check implements sdk.Provider. It asks who the credentials are and for the
// queue, then makes each further call that the driver needs on things that don't
// exist: a refusal for rights is told from one for the thing. What the roles of
// jobs may do can't be seen this way.
func (p *provider) Check(ctx context.Context, _ sdk.CheckRequest) (sdk.CheckResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CheckResult{}, p.fail(sdk.CodeOf(err), "check", err)
	}
	var res sdk.CheckResult
	add := func(name string, ok bool, detail, remedy string) {
		res.Items = append(res.Items, sdk.CheckItem{Name: name, OK: ok, Detail: detail, Remedy: remedy})
	}
	who, err := p.session.WhoAmI(ctx)
	if err != nil {
		return res, err
	}
	if who.Account == p.session.Account {
		add("sts:GetCallerIdentity", true, who.ARN, "")
	} else {
		add("sts:GetCallerIdentity", false, fmt.Sprintf("the credentials are of the account %s, the provider is for %s", who.Account, p.session.Account), "use other credentials, or change account under config:")
	}
	if err := p.checkQueue(ctx, add); err != nil {
		return res, err
	}
	for _, c := range p.probes() {
		err := p.session.Call(ctx, "check", c.call)
		switch sdk.CodeOf(err) {
		case sdk.PermissionDenied:
			add(c.action, false, strings.Join(strings.Fields(err.Error()), " "), "allow "+c.action+" to "+who.ARN+"; docs/drivers/aws-batch.md has the policy")
		case 0, sdk.InvalidArgument, sdk.NotFound, sdk.FailedPrecondition, sdk.Aborted:
			add(c.action, true, "allowed", "")
		default:
			return res, err
		}
	}
	return res, nil
}

func (p *provider) checkQueue(ctx context.Context, add func(name string, ok bool, detail, remedy string)) error {
	const name = "batch:DescribeJobQueues"
	var out *batch.DescribeJobQueuesOutput
	err := p.session.Call(ctx, "check", func(ctx context.Context) (err error) {
		out, err = p.batch.DescribeJobQueues(ctx, &batch.DescribeJobQueuesInput{JobQueues: []string{p.cfg.Queue}})
		return err
	})
	switch {
	case sdk.CodeOf(err) == sdk.PermissionDenied:
		add(name, false, err.Error(), "allow "+name+"; only this check needs it")
	case err != nil:
		return err
	case len(out.JobQueues) == 0:
		add(name, false, fmt.Sprintf("the account %s has no job queue %s in %s", p.session.Account, p.cfg.Queue, p.session.Region), "make the queue, or set queue under config:")
	default:
		q := out.JobQueues[0]
		ok := q.State == types.JQStateEnabled && (q.Status == types.JQStatusValid || q.Status == types.JQStatusUpdating || q.Status == "")
		remedy := ""
		if !ok {
			remedy = "enable the queue, or mend its compute environments"
		}
		add(name, ok, fmt.Sprintf("queue %s is %s and %s", str(q.JobQueueArn), q.State, q.Status), remedy)
	}
	return nil
}

type probeCall struct {
	action string
	call   func(ctx context.Context) error
}

// probes are the calls that the driver needs, each on what doesn't exist.
func (p *provider) probes() []probeCall {
	definition, job := probe+":999999999", probeJob
	arn := p.session.ARN("batch", "job/"+probeJob).String()
	return []probeCall{
		{"batch:DescribeJobs", func(ctx context.Context) error {
			_, err := p.batch.DescribeJobs(ctx, &batch.DescribeJobsInput{Jobs: []string{job}})
			return err
		}},
		{"batch:ListJobs", func(ctx context.Context) error {
			_, err := p.batch.ListJobs(ctx, &batch.ListJobsInput{JobQueue: &p.cfg.Queue, MaxResults: new(int32(1)),
				Filters: []types.KeyValuesPair{{Name: new("JOB_NAME"), Values: []string{probe}}}})
			return err
		}},
		{"batch:DescribeJobDefinitions", func(ctx context.Context) error {
			_, err := p.batch.DescribeJobDefinitions(ctx, &batch.DescribeJobDefinitionsInput{JobDefinitionName: new(probe)})
			return err
		}},
		{"batch:RegisterJobDefinition", func(ctx context.Context) error {
			// A definition needs a container.
			_, err := p.batch.RegisterJobDefinition(ctx, &batch.RegisterJobDefinitionInput{JobDefinitionName: new(probe), Type: types.JobDefinitionTypeContainer})
			return err
		}},
		{"batch:DeregisterJobDefinition", func(ctx context.Context) error {
			_, err := p.batch.DeregisterJobDefinition(ctx, &batch.DeregisterJobDefinitionInput{JobDefinition: &definition})
			return err
		}},
		{"batch:SubmitJob", func(ctx context.Context) error {
			_, err := p.batch.SubmitJob(ctx, &batch.SubmitJobInput{JobName: new(probe), JobQueue: &p.cfg.Queue, JobDefinition: &definition})
			return err
		}},
		{"batch:TerminateJob", func(ctx context.Context) error {
			_, err := p.batch.TerminateJob(ctx, &batch.TerminateJobInput{JobId: &job, Reason: new(probe)})
			return err
		}},
		{"batch:TagResource", func(ctx context.Context) error {
			_, err := p.batch.TagResource(ctx, &batch.TagResourceInput{ResourceArn: &arn, Tags: map[string]string{sdk.LabelExpires: "0"}})
			return err
		}},
		{"logs:GetLogEvents", func(ctx context.Context) error {
			_, err := p.logs.GetLogEvents(ctx, &cloudwatchlogs.GetLogEventsInput{LogGroupName: &p.cfg.LogGroup, LogStreamName: new(probe)})
			return err
		}},
		{"logs:FilterLogEvents", func(ctx context.Context) error {
			_, err := p.logs.FilterLogEvents(ctx, &cloudwatchlogs.FilterLogEventsInput{LogGroupName: &p.cfg.LogGroup, LogStreamNames: []string{probe}})
			return err
		}},
		{"secretsmanager:DescribeSecret", func(ctx context.Context) error {
			_, err := p.secrets.Vault.DescribeSecret(ctx, &secretsmanager.DescribeSecretInput{SecretId: new(probe)})
			return err
		}},
	}
}

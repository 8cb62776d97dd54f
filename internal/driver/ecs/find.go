package ecs

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

const opFind = "find jobs"

// FindJobs implements sdk.JobFinder. ECS's lists are eventually consistent and
// forget, so that a search never proves absence, but for a cluster that isn't
// there: a launch in doubt is sent again with its token.
//
// A task is sought by startedBy, which may stand with no other filter and finds
// what is to run; and among the stopped ones, for a task that ended sooner than
// it was sought.
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_ListTasks.html
func (p *provider) FindJobs(ctx context.Context, r sdk.FindJobsRequest) (sdk.FindJobsResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.FindJobsResult{}, p.fail(sdk.CodeOf(err), opFind, err)
	}
	run, cluster, family, attempt := r.RunID, p.cfg.Cluster, "", sdk.ID{}
	if l := r.Launch; l != nil {
		req, _, err := p.launches().Read(opFind, *l)
		if err != nil {
			return sdk.FindJobsResult{}, err
		}
		run, attempt = l.RunID, l.AttemptID
		if len(l.Request) > 0 {
			cluster, family = req.Run.Cluster, req.Run.Family
		}
	}
	out := sdk.FindJobsResult{Outcome: sdk.FindNotVisible}
	if run.IsZero() {
		return out, nil
	}
	wanted := func(t types.Task) bool {
		if str(t.StartedBy) != run.String() {
			return false
		}
		id, _, ok := readGroup(str(t.Group))
		return ok && (attempt.IsZero() || id == attempt)
	}
	found := map[string]types.Task{}
	for _, in := range []*ecs.ListTasksInput{
		{Cluster: &cluster, StartedBy: new(run.String())},
		{Cluster: &cluster, Family: optional(family), DesiredStatus: types.DesiredStatusStopped},
	} {
		if !attempt.IsZero() && len(found) > 0 {
			break // an attempt has one task
		}
		err := p.listTasks(ctx, opFind, in, func(page []types.Task) bool {
			for _, t := range page {
				if wanted(t) {
					found[str(t.TaskArn)] = t
				}
			}
			return true
		})
		if aws.ErrorCode(err) == "ClusterNotFoundException" && r.Launch != nil {
			// A cluster with tasks can't be deleted, and one that isn't there
			// took none.
			return sdk.FindJobsResult{Outcome: sdk.FindAbsent}, nil
		}
		if err != nil {
			return sdk.FindJobsResult{}, err
		}
	}
	for _, arn := range sortedKeys(found) {
		j, ok, err := p.foundJob(ctx, cluster, found[arn], r)
		if err != nil {
			return sdk.FindJobsResult{}, err
		}
		if ok && (r.Owner == "" || j.Owner == r.Owner) {
			out.Jobs = append(out.Jobs, j)
		}
	}
	if len(out.Jobs) > 0 {
		out.Outcome = sdk.FindFound
	}
	return out, nil
}

// listTasks gives the tasks of a list with their tags, page by page.
func (p *provider) listTasks(ctx context.Context, op string, in *ecs.ListTasksInput, yield func(page []types.Task) bool) error {
	in.MaxResults = new(int32(batchMax))
	for {
		var out *ecs.ListTasksOutput
		err := p.read(ctx, op, func(ctx context.Context) (err error) {
			out, err = p.ecs.ListTasks(ctx, in)
			return err
		})
		if err != nil {
			return err
		}
		if len(out.TaskArns) > 0 {
			found, err := p.describe(ctx, op, *in.Cluster, out.TaskArns, true)
			if err != nil {
				return err
			}
			var page []types.Task
			for _, arn := range out.TaskArns {
				if t, ok := found[arn]; ok {
					page = append(page, t)
				}
			}
			if !yield(page) {
				return nil
			}
		}
		if str(out.NextToken) == "" {
			return nil
		}
		in.NextToken = out.NextToken
	}
}

// foundJob makes a job of a task. Where StopTask has deleted the tags, owner and
// ledger follow from the launch, or from the definition.
func (p *provider) foundJob(ctx context.Context, cluster string, t types.Task, r sdk.FindJobsRequest) (sdk.FoundJob, bool, error) {
	run, err := sdk.ParseID(str(t.StartedBy))
	if err != nil {
		return sdk.FoundJob{}, false, nil
	}
	attempt, number, ok := readGroup(str(t.Group))
	if !ok {
		return sdk.FoundJob{}, false, nil
	}
	where := place{cluster: cluster, group: p.cfg.LogGroup, prefix: p.cfg.LogPrefix}
	tags := tagMap(t.Tags)
	if r.Launch != nil && len(r.Launch.Request) > 0 {
		req, _, err := p.launches().Read(opFind, *r.Launch)
		if err != nil {
			return sdk.FoundJob{}, false, err
		}
		o := req.Definition.Container.LogOptions
		where.group, where.prefix = o["awslogs-group"], o["awslogs-stream-prefix"]
		if tags[sdk.LabelOwner] == "" {
			tags[sdk.LabelOwner], tags[sdk.LabelLedger] = r.Launch.Owner, r.Launch.LedgerID
		}
	} else {
		d, err := p.describeDefinition(ctx, str(t.TaskDefinitionArn))
		if err != nil {
			return sdk.FoundJob{}, false, err
		}
		if d != nil {
			where.group, where.prefix = logPlace(d.def, where)
			if tags[sdk.LabelOwner] == "" {
				tags[sdk.LabelOwner], tags[sdk.LabelLedger] = d.tags[sdk.LabelOwner], d.tags[sdk.LabelLedger]
			}
		}
	}
	sent := at(t.CreatedAt)
	if sent.IsZero() {
		sent = p.clock.Now()
	}
	return sdk.FoundJob{Handle: p.handle(t, where, sent), RunID: run, AttemptID: attempt, Attempt: number,
		Owner: tags[sdk.LabelOwner], LedgerID: tags[sdk.LabelLedger]}, true, nil
}

// logPlace returns where a definition's main container logs to.
func logPlace(d types.TaskDefinition, other place) (group, prefix string) {
	for _, c := range d.ContainerDefinitions {
		if str(c.Name) == containerName && c.LogConfiguration != nil && c.LogConfiguration.LogDriver == types.LogDriverAwslogs {
			return c.LogConfiguration.Options["awslogs-group"], c.LogConfiguration.Options["awslogs-stream-prefix"]
		}
	}
	return other.group, other.prefix
}

package ecs

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/sdk"
)

const opClean = "clean up"

// CleanupJob implements sdk.JobCleaner. Of an ended task nothing can be removed,
// and its log stays, as the log group's retention says. The definition goes once
// nothing of this owner uses it.
func (p *provider) CleanupJob(ctx context.Context, r sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CleanupJobResult{}, p.fail(sdk.CodeOf(err), opClean, err)
	}
	h := r.Handle
	if err := p.checkHandle(opClean, h); err != nil {
		return sdk.CleanupJobResult{}, err
	}
	if known, _ := p.tasks.get(h.ID); !known.ended {
		found, err := p.describe(ctx, opClean, h.Metadata[keyCluster], []string{h.ID}, false)
		if err != nil {
			return sdk.CleanupJobResult{}, err
		}
		if t, ok := found[h.ID]; ok && !hasEnded(t) {
			return sdk.CleanupJobResult{}, p.fail(sdk.FailedPrecondition, opClean, fmt.Errorf("the task %s is %s", h.Name, str(t.LastStatus)))
		}
	}
	removed, err := p.removeUnused(ctx, h)
	if err != nil {
		return sdk.CleanupJobResult{}, err
	}
	if removed {
		return sdk.CleanupJobResult{Removed: []string{"task definition " + h.Metadata[keyDefinition]}}, nil
	}
	return sdk.CleanupJobResult{}, nil
}

// removeUnused deregisters a job's definition unless another task of this owner
// uses it. A launch that another process is about to send registers it again.
func (p *provider) removeUnused(ctx context.Context, h sdk.JobHandle) (bool, error) {
	d, err := p.describeUnlessShared(ctx, h)
	if err != nil || d == nil {
		return false, err
	}
	if !d.active() || d.tags[sdk.LabelOwner] != p.owner || d.tags[labelDefinition] == "" {
		p.tasks.drop(h)
		return false, nil
	}
	used, err := p.used(ctx, h.Metadata[keyCluster], str(d.def.Family), h.ID)
	if err != nil || used {
		if err == nil {
			p.tasks.drop(h)
		}
		return false, err
	}
	if err := p.retire(ctx, opClean, d); err != nil {
		return false, err
	}
	p.tasks.drop(h)
	return true, nil
}

// describeUnlessShared returns the job's definition, or nothing where other
// tasks that this process knows use it, which needs no call.
func (p *provider) describeUnlessShared(ctx context.Context, h sdk.JobHandle) (*foundDefinition, error) {
	if p.tasks.leave(h) {
		return nil, nil
	}
	d, err := p.describeDefinition(ctx, h.Metadata[keyDefinition])
	if err == nil && d == nil {
		p.tasks.drop(h)
	}
	return d, err
}

// used reports whether a task of a family, but for one, runs or is to run.
func (p *provider) used(ctx context.Context, cluster, family, but string) (bool, error) {
	in := &ecs.ListTasksInput{Cluster: &cluster, Family: &family, DesiredStatus: types.DesiredStatusRunning, MaxResults: new(int32(2))}
	var out *ecs.ListTasksOutput
	err := p.read(ctx, opClean, func(ctx context.Context) (err error) {
		out, err = p.ecs.ListTasks(ctx, in)
		return err
	})
	if err != nil {
		return false, err
	}
	for _, arn := range out.TaskArns {
		if arn != but {
			return true, nil
		}
	}
	return false, nil
}

// retire makes a definition inactive, and whoever wants it next look for it.
func (p *provider) retire(ctx context.Context, op string, d *foundDefinition) error {
	err := p.definitions.Retire(ctx, str(d.def.Family), func() error { return p.deregister(ctx, op, d.arn()) })
	return p.session.Fail(ctx, op, err)
}

// deregister makes a definition inactive. One that is inactive or gone is
// success.
func (p *provider) deregister(ctx context.Context, op, arn string) error {
	err := p.session.Call(ctx, op, func(ctx context.Context) error {
		_, err := p.ecs.DeregisterTaskDefinition(ctx, &ecs.DeregisterTaskDefinitionInput{TaskDefinition: &arn})
		return err
	})
	if noDefinition(err) {
		return nil
	}
	return err
}

// dropUnused takes a refused launch's definition away again, unless it serves
// others. It is tidying: what it can't do is the reaper's.
func (p *provider) dropUnused(ctx context.Context, cluster, family string) {
	d, err := p.describeDefinition(ctx, family)
	if err != nil || d == nil || !d.active() || d.tags[sdk.LabelOwner] != p.owner || p.tasks.using(d.arn()) {
		return
	}
	if used, err := p.used(ctx, cluster, family, ""); used || err != nil && sdk.CodeOf(err) != sdk.FailedPrecondition {
		return
	}
	if err := p.retire(ctx, opClean, d); err != nil {
		p.log.Debug("definition not deregistered", "definition", d.arn(), "err", err)
	}
}

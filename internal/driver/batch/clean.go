package batch

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

const opClean = "clean up"

// usedPages bounds the look for other users of a definition: the newest jobs
// come first, and a definition that is left is taken away by a later clean-up,
// or by `windlass reap`.
const usedPages = 5

// CleanupJob implements sdk.JobCleaner. Of an ended job nothing can be removed,
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
	if known, _ := p.jobs.get(h.ID); !known.ended {
		found, err := p.describe(ctx, opClean, []string{h.ID})
		if err != nil {
			return sdk.CleanupJobResult{}, err
		}
		if j, ok := found[h.ID]; ok && !hasEnded(j) {
			return sdk.CleanupJobResult{}, p.fail(sdk.FailedPrecondition, opClean, fmt.Errorf("the job %s is %s", h.ID, j.Status))
		}
	}
	removed, err := p.removeUnused(ctx, h)
	if err != nil {
		return sdk.CleanupJobResult{}, err
	}
	p.jobs.drop(h)
	return sdk.CleanupJobResult{Removed: removed}, nil
}

// removeUnused deregisters a job's definition unless another job of this owner
// uses it. A launch that another process is about to send registers it again.
func (p *provider) removeUnused(ctx context.Context, h sdk.JobHandle) (removed []string, err error) {
	name := h.Metadata[keyDefinition]
	if name == "" || p.jobs.leave(h) {
		return nil, nil
	}
	return p.deregisterUnused(ctx, name, h.ID, nil)
}

// deregisterUnused deregisters a definition unless a job, but for one, uses it.
// Where the look for such jobs fails as noJobs allows, there are none.
func (p *provider) deregisterUnused(ctx context.Context, name, but string, noJobs func(error) bool) (removed []string, err error) {
	err = p.definitions.Retire(ctx, name, func() error {
		found, err := p.revisions(ctx, opClean, name)
		if err != nil || len(found) == 0 {
			return err
		}
		used, err := p.used(ctx, opClean, name, but)
		if err != nil && noJobs != nil && noJobs(err) {
			err = nil
		}
		if err != nil || used {
			return err
		}
		for _, d := range found {
			if !p.mine(d) {
				continue
			}
			if err := p.deregister(ctx, opClean, str(d.JobDefinitionArn)); err != nil {
				return err
			}
			removed = append(removed, "job definition "+str(d.JobDefinitionArn))
		}
		return nil
	})
	return removed, p.session.Fail(ctx, opClean, err)
}

// dropUnused takes a refused launch's definition away again, unless it serves
// others. It is tidying: what it can't do is the reaper's.
func (p *provider) dropUnused(ctx context.Context, name string) {
	if p.jobs.using(name) {
		return
	}
	// A queue that isn't there has no jobs.
	noQueue := func(err error) bool { return aws.ErrorCode(err) == "ClientException" }
	if _, err := p.deregisterUnused(ctx, name, "", noQueue); err != nil {
		p.log.Debug("definition not deregistered", "definition", name, "err", err)
	}
}

// used reports whether a job of a definition, but for one, runs or is to run.
func (p *provider) used(ctx context.Context, op, name, but string) (bool, error) {
	in := &batch.ListJobsInput{JobQueue: &p.cfg.Queue, Filters: []types.KeyValuesPair{{Name: new("JOB_DEFINITION"), Values: []string{name}}}}
	used, pages := false, 0
	err := p.eachSummary(ctx, op, in, func(page []types.JobSummary) (bool, error) {
		for _, s := range page {
			if str(s.JobId) != but && s.Status != types.JobStatusSucceeded && s.Status != types.JobStatusFailed {
				used = true
				return false, nil
			}
		}
		pages++
		if pages == usedPages && len(page) > 0 {
			used = true
			return false, nil
		}
		return true, nil
	})
	return used, err
}

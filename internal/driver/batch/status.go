package batch

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/windlass-run/windlass/internal/driver/noexec"
	"github.com/windlass-run/windlass/sdk"
)

const opStatus = "read state"

// JobStatus implements sdk.JobRunner.
func (p *provider) JobStatus(ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	res, err := p.JobStatuses(ctx, sdk.JobStatusesRequest{Handles: []sdk.JobHandle{r.Handle}})
	if err != nil {
		return sdk.JobStatusResult{}, err
	}
	return res.Items[0].Result, res.Items[0].Err
}

// JobStatuses implements sdk.JobBatcher.
func (p *provider) JobStatuses(ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.JobStatusesResult{}, p.fail(sdk.CodeOf(err), opStatus, err)
	}
	if len(r.Handles) > batchMax {
		return sdk.JobStatusesResult{}, p.fail(sdk.InvalidArgument, opStatus, fmt.Errorf("%d handles, at most %d", len(r.Handles), batchMax))
	}
	out := sdk.JobStatusesResult{Items: make([]sdk.JobStatusItem, len(r.Handles))}
	var ids []string
	seen := map[string]bool{}
	for i, h := range r.Handles {
		if err := p.checkHandle(opStatus, h); err != nil {
			out.Items[i].Err = err
		} else if !seen[h.ID] {
			seen[h.ID] = true
			ids = append(ids, h.ID)
		}
	}
	if len(ids) == 0 {
		return out, nil
	}
	found, err := p.describe(ctx, opStatus, ids)
	if err != nil {
		return sdk.JobStatusesResult{}, err
	}
	for i, h := range r.Handles {
		if out.Items[i].Err == nil {
			out.Items[i].Result, out.Items[i].Err = p.stateOf(h, found)
		}
	}
	return out, nil
}

// stateOf judges one job of an answer. One that is missing was made only just
// now, or is gone.
func (p *provider) stateOf(h sdk.JobHandle, found map[string]types.JobDetail) (sdk.JobStatusResult, error) {
	j, ok := found[h.ID]
	if !ok {
		if p.young(h) {
			return sdk.JobStatusResult{State: sdk.StatePending, Message: "accepted; AWS Batch doesn't show it yet"}, nil
		}
		return sdk.JobStatusResult{}, p.fail(sdk.NotFound, opStatus, errors.New("AWS Batch knows no job "+h.ID+"; it forgets a job some days after its end, and some after a day"))
	}
	res := result(j, p.jobs.seen(h, j))
	if fresh, news := withStream(h, stream(j)); news {
		res.Handle = &fresh
	}
	return res, nil
}

// result is the state that a job's description tells. Waiting is the reason that
// was last given for it to wait.
func result(j types.JobDetail, waiting string) sdk.JobStatusResult {
	res := sdk.JobStatusResult{CreatedAt: at(j.CreatedAt), StartedAt: at(j.StartedAt), Raw: raw(j)}
	if !res.StartedAt.IsZero() {
		res.Launches = max(1, len(j.Attempts))
		if res.StartedAt.Before(res.CreatedAt) {
			res.CreatedAt = res.StartedAt
		}
	}
	switch {
	case hasEnded(j):
		ended(j, &res)
	case j.Status == types.JobStatusRunning:
		res.State = sdk.StateRunning
	default:
		res.State, res.Reason, res.Message = sdk.StatePending, waitingReason(waiting), strings.ToLower(string(j.Status))
		if waiting != "" {
			res.Message += ": " + waiting
		}
	}
	return res
}

// ended judges a job that is over.
func ended(j types.JobDetail, res *sdk.JobStatusResult) {
	res.EndedAt = at(j.StoppedAt)
	if res.EndedAt.Before(res.StartedAt) {
		res.EndedAt = res.StartedAt
	}
	e := judge(factsOf(j))
	res.State, res.Reason, res.OOMObserved, res.Message = e.state, e.reason, e.oom, e.message
	// The container's reason is ECS's own.
	// https://github.com/nextflow-io/nextflow/issues/5657
	if f := factsOf(j); f.code == nil && e.state == sdk.StateFailed {
		if why := noexec.Why(f.container + " " + f.status); why != "" {
			res.Raw[sdk.RawExec] = why
		}
	}
	if code := exitCode(j); code != nil {
		n := int(*code)
		// A code of 0 needs AWS Batch's own word that the job succeeded.
		if n != 0 || res.State == sdk.StateSucceeded || res.State == sdk.StateCancelled {
			res.ExitCode = &n
		}
	}
}

// exitCode returns the code of the one attempt.
func exitCode(j types.JobDetail) *int32 {
	if j.Container != nil && j.Container.ExitCode != nil {
		return j.Container.ExitCode
	}
	for _, a := range j.Attempts {
		if a.Container != nil && a.Container.ExitCode != nil {
			return a.Container.ExitCode
		}
	}
	return nil
}

// raw keeps every reason that there is, as AWS Batch put it.
func raw(j types.JobDetail) map[string]string {
	m := map[string]string{"status": string(j.Status), "status_reason": str(j.StatusReason), "job_definition": str(j.JobDefinition), "job_queue": str(j.JobQueue)}
	for key, flag := range map[string]*bool{"is_cancelled": j.IsCancelled, "is_terminated": j.IsTerminated} {
		if flag != nil && *flag {
			m[key] = "true"
		}
	}
	if c := j.Container; c != nil {
		m["container.reason"], m["task"], m["container_instance"], m["log_stream"] = str(c.Reason), str(c.TaskArn), str(c.ContainerInstanceArn), str(c.LogStreamName)
	}
	if code := exitCode(j); code != nil {
		m["container.exit_code"] = itoa(int64(*code))
	}
	for i, a := range j.Attempts {
		key := "attempts[" + itoa(int64(i)) + "]."
		m[key+"status_reason"] = str(a.StatusReason)
		if a.Container != nil {
			m[key+"container.reason"] = str(a.Container.Reason)
		}
	}
	for k, v := range m {
		if v == "" {
			delete(m, k)
		}
	}
	return m
}

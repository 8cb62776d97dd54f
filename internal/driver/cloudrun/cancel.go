package cloudrun

import (
	"context"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/run/apiv2/runpb"

	"github.com/windlass-run/windlass/sdk"
)

const opCancel = "cancel job"

// A job that was only just made has no execution yet that could be cancelled.
const (
	startFirst = 10 * time.Millisecond
	startLast  = time.Second
	startMost  = 10 * time.Second
)

// CancelJob implements sdk.JobCanceler. Cloud Run sends TERM, and KILL ten
// seconds later. An execution that is about to be made is waited for, for a
// moment: it can be cancelled only then.
func (p *provider) CancelJob(ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CancelJobResult{}, p.fail(sdk.CodeOf(err), opCancel, err)
	}
	h := r.Handle
	if err := p.checkHandle(opCancel, h); err != nil {
		return sdk.CancelJobResult{}, err
	}
	wait, until := startFirst, time.Now().Add(startMost)
	for {
		e, err := p.getExecution(ctx, opCancel, h)
		switch {
		case err == nil && completed(e):
			return sdk.CancelJobResult{Gone: true, Evidence: evidenceOf(e)}, nil
		case err == nil:
			return p.stop(ctx, h)
		case sdk.CodeOf(err) != sdk.NotFound:
			return sdk.CancelJobResult{}, err
		}
		res, done, err := p.unstarted(ctx, h)
		if done || err != nil {
			return res, err
		}
		if time.Now().After(until) {
			e := p.fail(sdk.Unavailable, opCancel, fmt.Errorf("the execution of %s isn't made yet", h.ID))
			e.Retryable = true
			return sdk.CancelJobResult{}, e
		}
		if err := sdk.SystemClock().Sleep(ctx, wait); err != nil {
			return sdk.CancelJobResult{}, p.fail(sdk.CodeOf(err), opCancel, err)
		}
		wait = min(2*wait, startLast)
	}
}

// unstarted looks at a job whose execution isn't there. done: there will be none.
func (p *provider) unstarted(ctx context.Context, h sdk.JobHandle) (res sdk.CancelJobResult, done bool, err error) {
	j, err := p.getJob(ctx, opCancel, h.ID)
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
		if p.young(h) {
			return res, false, nil
		}
		return sdk.CancelJobResult{Gone: true, Evidence: "Cloud Run knows no such job"}, true, nil
	case err != nil:
		return res, false, err
	case j.GetDeleteTime() != nil:
		return sdk.CancelJobResult{Gone: true, Evidence: "the job is being deleted and has no execution"}, true, nil
	case j.GetLatestCreatedExecution() == nil && neverStarts(j):
		return sdk.CancelJobResult{Gone: true, Evidence: "the job has no execution: " + j.GetTerminalCondition().GetMessage()}, true, nil
	}
	p.show(h.ID)
	return res, false, nil
}

// stop makes the call that ends an execution.
func (p *provider) stop(ctx context.Context, h sdk.JobHandle) (sdk.CancelJobResult, error) {
	_, err := call(ctx, p, p.writes, opCancel, func(ctx context.Context) (*longrunningpb.Operation, error) {
		return p.executions.CancelExecution(ctx, &runpb.CancelExecutionRequest{Name: p.executionName(h)})
	})
	refused := sdk.CodeOf(err) == sdk.FailedPrecondition || sdk.CodeOf(err) == sdk.NotFound
	if err != nil && !refused {
		return sdk.CancelJobResult{}, err
	}
	// The operation says nothing of the outcome, so the execution is read back.
	e, rerr := p.getExecution(ctx, opCancel, h)
	switch {
	case sdk.CodeOf(rerr) == sdk.NotFound:
		return sdk.CancelJobResult{Accepted: err == nil, Gone: true, Evidence: "Cloud Run knows no such execution"}, nil
	case rerr != nil && err == nil:
		return sdk.CancelJobResult{Accepted: true, Evidence: "Cloud Run took the cancel"}, nil
	case rerr != nil:
		return sdk.CancelJobResult{}, rerr
	case refused && !completed(e):
		return sdk.CancelJobResult{}, err
	}
	return sdk.CancelJobResult{Accepted: err == nil, Gone: completed(e), Evidence: evidenceOf(e)}, nil
}

func evidenceOf(e *runpb.Execution) string {
	parts := []string{fmt.Sprintf("succeededCount %d, failedCount %d, cancelledCount %d, runningCount %d of %d",
		e.GetSucceededCount(), e.GetFailedCount(), e.GetCancelledCount(), e.GetRunningCount(), e.GetTaskCount())}
	if c := conditionOf(e.GetConditions(), condCompleted); c != nil {
		parts = append(parts, strings.TrimSpace("Completed "+c.GetState().String()+" "+reasonText(c)))
	}
	return strings.Join(parts, ", ")
}

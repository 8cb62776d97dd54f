package batch

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/windlass-run/windlass/sdk"
)

const opCancel = "cancel job"

// maxReason is the most characters of a reason.
// https://docs.aws.amazon.com/batch/latest/APIReference/API_TerminateJob.html
const maxReason = 1024

// CancelJob implements sdk.JobCanceler. It always terminates: CancelJob of AWS
// Batch says that it has succeeded also where it has done nothing. The proof is
// that the job is FAILED.
func (p *provider) CancelJob(ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CancelJobResult{}, p.fail(sdk.CodeOf(err), opCancel, err)
	}
	h := r.Handle
	if err := p.checkHandle(opCancel, h); err != nil {
		return sdk.CancelJobResult{}, err
	}
	found, err := p.describe(ctx, opCancel, []string{h.ID})
	if err != nil {
		return sdk.CancelJobResult{}, err
	}
	j, ok := found[h.ID]
	if ok && hasEnded(j) {
		return sdk.CancelJobResult{Gone: true, Evidence: evidenceOf(j)}, nil
	}
	if !ok && !p.young(h) {
		return sdk.CancelJobResult{Gone: true, Evidence: "AWS Batch knows no such job"}, nil
	}
	if err := p.terminate(ctx, opCancel, h.ID, r.Why); err != nil {
		return sdk.CancelJobResult{}, err
	}
	if !ok {
		// It was accepted, but AWS Batch may not have known the job.
		e := p.fail(sdk.Unavailable, opCancel, fmt.Errorf("AWS Batch doesn't show the job %s yet", h.ID))
		e.Retryable = true
		return sdk.CancelJobResult{}, e
	}
	return sdk.CancelJobResult{Accepted: true, Evidence: evidenceOf(j) + ", then TerminateJob was accepted"}, nil
}

// terminate makes the call that ends a job in whatever state it is.
func (p *provider) terminate(ctx context.Context, op, id, why string) error {
	reason := "windlass: " + cmp.Or(strings.Join(strings.Fields(strings.ToValidUTF8(why, "?")), " "), "cancelled")
	if r := []rune(reason); len(r) > maxReason {
		reason = string(r[:maxReason])
	}
	return p.session.Call(ctx, op, func(ctx context.Context) error {
		_, err := p.batch.TerminateJob(ctx, &batch.TerminateJobInput{JobId: &id, Reason: &reason})
		return err
	})
}

func evidenceOf(j types.JobDetail) string {
	s := "status " + string(j.Status)
	if r := str(j.StatusReason); r != "" {
		s += ", statusReason " + r
	}
	return s
}

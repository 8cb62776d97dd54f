package ecs

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

const opCancel = "cancel job"

// maxStopReason is the most characters of a reason that ECS keeps whole.
const maxStopReason = 255

// CancelJob implements sdk.JobCanceler. The grace is the definition's: ECS has no
// way to change it for one stop, or to kill at once.
func (p *provider) CancelJob(ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CancelJobResult{}, p.fail(sdk.CodeOf(err), opCancel, err)
	}
	h := r.Handle
	if err := p.checkHandle(opCancel, h); err != nil {
		return sdk.CancelJobResult{}, err
	}
	// StopTask deletes a task's tags also when it has ended, so it is looked at first.
	found, err := p.describe(ctx, opCancel, h.Metadata[keyCluster], []string{h.ID}, false)
	if err != nil {
		return sdk.CancelJobResult{}, err
	}
	t, ok := found[h.ID]
	if ok && hasEnded(t) {
		return sdk.CancelJobResult{Gone: true, Evidence: evidenceOf(t)}, nil
	}
	if !ok && !p.young(h) {
		return sdk.CancelJobResult{Gone: true, Evidence: "ECS knows no such task"}, nil
	}
	t, ok, err = p.stop(ctx, h, r.Why)
	if err != nil {
		return sdk.CancelJobResult{}, err
	}
	if !ok {
		if p.young(h) {
			e := p.fail(sdk.Unavailable, opCancel, fmt.Errorf("ECS doesn't show the task %s yet", h.Name))
			e.Retryable = true
			return sdk.CancelJobResult{}, e
		}
		return sdk.CancelJobResult{Gone: true, Evidence: "ECS knows no such task"}, nil
	}
	gone := hasEnded(t)
	return sdk.CancelJobResult{Accepted: !gone || t.StopCode == types.TaskStopCodeUserInitiated, Gone: gone, Evidence: evidenceOf(t)}, nil
}

// stop makes the call that ends a task; ok is false where ECS knows none.
func (p *provider) stop(ctx context.Context, h sdk.JobHandle, why string) (t types.Task, ok bool, err error) {
	reason := "windlass: " + cmp.Or(strings.Join(strings.Fields(strings.ToValidUTF8(why, "?")), " "), "cancelled")
	if r := []rune(reason); len(r) > maxStopReason {
		reason = string(r[:maxStopReason])
	}
	var out *ecs.StopTaskOutput
	err = p.session.Call(ctx, opCancel, func(ctx context.Context) (err error) {
		out, err = p.ecs.StopTask(ctx, &ecs.StopTaskInput{Cluster: new(h.Metadata[keyCluster]), Task: &h.ID, Reason: &reason})
		return err
	})
	switch {
	case noTask(err):
		return types.Task{}, false, nil
	case err != nil:
		return types.Task{}, false, err
	case out.Task == nil:
		return types.Task{}, true, nil
	}
	return *out.Task, true, nil
}

// noTask reports whether a call was refused for a task that isn't there.
func noTask(err error) bool {
	switch aws.ErrorCode(err) {
	case "InvalidParameterException", "ClientException", "ResourceNotFoundException":
		text := strings.ToLower(aws.ErrorText(err))
		return strings.Contains(text, "task") && strings.Contains(text, "not found") && !strings.Contains(text, "definition")
	}
	return false
}

func evidenceOf(t types.Task) string {
	parts := []string{"lastStatus " + str(t.LastStatus), "desiredStatus " + str(t.DesiredStatus)}
	if t.StopCode != "" {
		parts = append(parts, "stopCode "+string(t.StopCode))
	}
	if s := str(t.StoppedReason); s != "" {
		parts = append(parts, "stoppedReason "+s)
	}
	return strings.Join(parts, ", ")
}

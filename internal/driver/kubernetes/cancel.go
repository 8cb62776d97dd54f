package kubernetes

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

const opCancel = "cancel job"

// CancelJob implements sdk.JobCanceler. A pod that a node has taken gets the
// shortest deadline, by which the kubelet ends it and keeps it. A Job without one
// is suspended: its controller deletes what waits and makes no other.
func (p *provider) CancelJob(ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CancelJobResult{}, p.fail(sdk.CodeOf(err), opCancel, err)
	}
	if err := p.checkHandle(opCancel, r.Handle); err != nil {
		return sdk.CancelJobResult{}, err
	}
	s, err := p.look(ctx, opCancel, r.Handle)
	if err != nil {
		return sdk.CancelJobResult{}, err
	}
	if s.job == nil && len(s.pods) == 0 {
		return sdk.CancelJobResult{Gone: true, Evidence: "the cluster has no Job " + r.Handle.ID}, nil
	}
	if st := judge(s); st.State.Terminal() {
		return sdk.CancelJobResult{Gone: true, Evidence: evidenceOf(st)}, nil
	}
	var told []string
	taken := false
	for i := range s.pods {
		pod := &s.pods[i]
		if ended(pod, s.now) || pod.Status.StartTime == nil {
			continue
		}
		taken = true
		if err := p.shorten(ctx, pod, r.Why); err != nil {
			return sdk.CancelJobResult{}, err
		}
		told = append(told, "the pod "+pod.Name+" has a deadline of one second")
	}
	if !taken && s.job != nil {
		if err := p.suspend(ctx, s, r.Why); err != nil {
			return sdk.CancelJobResult{}, err
		}
		told = append(told, "the Job is suspended")
	}
	return sdk.CancelJobResult{Accepted: true, Evidence: strings.Join(told, ", ")}, nil
}

// note is what we leave at what we end, so that its end is known for ours.
func (p *provider) note(uid, why string, spec map[string]any) map[string]any {
	text := p.clock.Now().UTC().Format(time.RFC3339)
	if why != "" {
		text += " " + oneLine(why)
	}
	return map[string]any{"metadata": map[string]any{"uid": uid, "annotations": map[string]string{noteCancel: text}}, "spec": spec}
}

// shorten lowers a pod's deadline; the API lets it be lowered alone.
// https://kubernetes.io/docs/concepts/workloads/pods/#pod-update-and-replacement
func (p *provider) shorten(ctx context.Context, pod *corev1.Pod, why string) error {
	if d := pod.Spec.ActiveDeadlineSeconds; d != nil && *d <= 1 {
		return nil // an earlier cancel has done so
	}
	err := p.spend(ctx, opCancel, func() error {
		return p.session.Patch(ctx, opCancel, kube.Pods(p.session.Namespace, pod.Name), p.note(string(pod.UID), why, map[string]any{"activeDeadlineSeconds": 1}), nil)
	})
	if sdk.CodeOf(err) == sdk.NotFound {
		return nil // it has gone in between
	}
	return err
}

func (p *provider) suspend(ctx context.Context, s sight, why string) error {
	err := p.spend(ctx, opCancel, func() error {
		return p.session.Patch(ctx, opCancel, kube.Jobs(p.session.Namespace, s.job.Name), p.note(string(s.job.UID), why, map[string]any{"suspend": true}), nil)
	})
	if sdk.CodeOf(err) == sdk.NotFound {
		return nil
	}
	return err
}

func evidenceOf(st sdk.JobStatusResult) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s; pod phase %s; %s", st.State, st.Reason, st.Raw["pod.phase"], st.Message))
}

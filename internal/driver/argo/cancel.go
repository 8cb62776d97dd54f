package argo

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-run/windlass/internal/cloud/argo"
	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/internal/cloud/kube/podspec"
	"github.com/windlass-run/windlass/sdk"
)

const opCancel = "cancel job"

// CancelJob implements sdk.JobCanceler. It terminates the Workflow: Argo's controller
// sends TERM to the pod's containers. KILL doesn't come for one that ignores it, since
// the controller forgets the pod with the Workflow's end; so the pod's own deadline is
// lowered to right behind the grace, where that can be done. Code and log stay.
func (p *provider) CancelJob(ctx context.Context, r sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CancelJobResult{}, p.fail(sdk.CodeOf(err), opCancel, err)
	}
	h := r.Handle
	if err := p.checkHandle(opCancel, h); err != nil {
		return sdk.CancelJobResult{}, err
	}
	w, gone, err := p.gonePod(ctx, h)
	if err != nil || gone.Gone {
		return gone, err
	}
	if !w.Status.Done() {
		if err := p.client.Terminate(ctx, opCancel, h.ID, h.Metadata[keyUID]); err != nil {
			if sdk.IsClear(err) {
				// It may have ended in between, which Argo Server refuses.
				if _, gone, e := p.gonePod(ctx, h); e == nil && gone.Gone {
					return gone, nil
				}
			}
			return sdk.CancelJobResult{}, err
		}
	}
	told := []string{"the Workflow has the shutdown strategy Terminate"}
	if p.server == nil {
		pods, err := p.podsOf(ctx, opCancel, h)
		if err != nil {
			return sdk.CancelJobResult{}, err
		}
		for i := range pods {
			if over(&pods[i]) || pods[i].Status.StartTime == nil {
				continue // one that no node has taken is deleted by Argo
			}
			if err := p.shorten(ctx, &pods[i]); err != nil {
				return sdk.CancelJobResult{}, err
			}
			told = append(told, "the pod "+pods[i].Name+" has a deadline behind its grace")
		}
	}
	return sdk.CancelJobResult{Accepted: true, Evidence: strings.Join(told, ", ")}, nil
}

// gonePod looks whether a job is over; if not it returns its Workflow.
func (p *provider) gonePod(ctx context.Context, h sdk.JobHandle) (*argo.Workflow, sdk.CancelJobResult, error) {
	w, err := p.look(ctx, opCancel, h)
	if err != nil {
		return nil, sdk.CancelJobResult{}, err
	}
	if w == nil {
		return nil, sdk.CancelJobResult{Gone: true, Evidence: "the cluster has no Workflow " + h.ID}, nil
	}
	pods, err := p.lastPods(ctx, opCancel, []*argo.Workflow{w})
	if err != nil {
		return nil, sdk.CancelJobResult{}, err
	}
	st, err := p.state(h, w, pods)
	if err != nil {
		return nil, sdk.CancelJobResult{}, err
	}
	if st.State.Terminal() {
		return w, sdk.CancelJobResult{Gone: true, Evidence: evidenceOf(st)}, nil
	}
	return w, sdk.CancelJobResult{}, nil
}

func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// shorten lowers a pod's deadline to a grace and a second from now. By it the kubelet
// sends TERM again, and after another grace KILL. The API lets it be lowered alone.
// https://kubernetes.io/docs/concepts/workloads/pods/#pod-update-and-replacement
func (p *provider) shorten(ctx context.Context, pod *corev1.Pod) error {
	grace := podspec.DefaultGrace
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		grace = time.Duration(*g) * time.Second
	}
	d := podspec.Seconds(max(p.clock.Now().Sub(pod.Status.StartTime.Time), 0) + grace + time.Second)
	if is := pod.Spec.ActiveDeadlineSeconds; is != nil && *is <= d {
		return nil // it comes sooner, or an earlier cancel has done so
	}
	patch := map[string]any{"metadata": map[string]any{"uid": string(pod.UID)}, "spec": map[string]any{"activeDeadlineSeconds": d}}
	err := p.spend(ctx, opCancel, func() error {
		return p.session.Patch(ctx, opCancel, kube.Pods(p.session.Namespace, pod.Name), patch, nil)
	})
	switch sdk.CodeOf(err) {
	case sdk.NotFound:
		return nil // it has gone in between
	case sdk.InvalidArgument:
		// The API refuses to raise it, which is what another cancel has left behind that
		// was sooner.
		var now corev1.Pod
		if p.session.Get(ctx, opCancel, kube.Pods(p.session.Namespace, pod.Name), nil, &now) == nil {
			if is := now.Spec.ActiveDeadlineSeconds; now.UID == pod.UID && is != nil && *is <= d {
				return nil
			}
		}
	}
	return err
}

func evidenceOf(st sdk.JobStatusResult) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s; Workflow %s; %s", st.State, st.Reason, st.Raw["workflow.phase"], st.Message))
}

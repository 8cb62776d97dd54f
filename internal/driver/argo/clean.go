package argo

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-run/windlass/internal/cloud/argo"
	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

const opClean = "clean up"

// A deletion takes a moment: the pod goes behind the Workflow.
const (
	deleteFirst = 10 * time.Millisecond
	deleteLast  = time.Second
	deleteMost  = 40 * time.Second
)

// CleanupJob implements sdk.JobCleaner. It deletes the Workflow and its Secret, and
// reads back that they are gone, and the pod too where that can be seen.
func (p *provider) CleanupJob(ctx context.Context, r sdk.CleanupJobRequest) (sdk.CleanupJobResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CleanupJobResult{}, p.fail(sdk.CodeOf(err), opClean, err)
	}
	h := r.Handle
	if err := p.checkHandle(opClean, h); err != nil {
		return sdk.CleanupJobResult{}, err
	}
	w, err := p.look(ctx, opClean, h)
	if err != nil {
		return sdk.CleanupJobResult{}, err
	}
	pods, err := p.lastPods(ctx, opClean, []*argo.Workflow{w})
	if err != nil {
		return sdk.CleanupJobResult{}, err
	}
	if st, err := p.state(h, w, pods); err == nil && !st.State.Terminal() && w.DeletionTimestamp == nil {
		return sdk.CleanupJobResult{}, p.fail(sdk.FailedPrecondition, opClean, fmt.Errorf("the Workflow %s runs, or is about to", h.ID))
	}
	var out sdk.CleanupJobResult
	if w != nil && !w.Archived() {
		removed, err := p.remove(ctx, opClean, h.ID, h.Metadata[keyUID])
		if err != nil {
			return out, err
		}
		if removed {
			out.Removed = append(out.Removed, typeWorkflow+" "+h.ID)
		}
	}
	if p.server == nil {
		removed, err := p.removeSecret(ctx, opClean, h.ID)
		if err != nil {
			return out, err
		}
		if removed {
			out.Removed = append(out.Removed, typeSecret+" "+h.ID)
		}
	}
	return out, p.gone(ctx, opClean, h)
}

// remove deletes a Workflow. removed is false where somebody else did.
func (p *provider) remove(ctx context.Context, op, name, uid string) (removed bool, err error) {
	err = p.client.Delete(ctx, op, name, uid)
	switch sdk.CodeOf(err) {
	case 0:
		return true, nil
	case sdk.NotFound:
		return false, nil
	}
	return false, err
}

// removeSecret deletes what a launch made beside the Workflow.
func (p *provider) removeSecret(ctx context.Context, op, name string) (removed bool, err error) {
	return p.session.RemovePart(ctx, op, kube.Secrets(p.session.Namespace, name), p.spend)
}

// gone reads back that neither the Workflow nor a pod of it is left.
func (p *provider) gone(ctx context.Context, op string, h sdk.JobHandle) error {
	wait, until := deleteFirst, time.Now().Add(deleteMost)
	for {
		w, err := p.look(ctx, op, h)
		if err != nil {
			return err
		}
		left := w != nil && !w.Archived()
		if !left && p.server == nil {
			pods, err := p.podsOf(ctx, op, h)
			if err != nil {
				return err
			}
			left = len(pods) > 0
		}
		if !left {
			return nil
		}
		if time.Now().After(until) {
			e := p.fail(sdk.Unavailable, op, fmt.Errorf("the Workflow %s or its pod are still being deleted", h.ID))
			e.Retryable = true
			return e
		}
		if err := sdk.SystemClock().Sleep(ctx, wait); err != nil {
			return p.fail(sdk.CodeOf(err), op, errors.Join(fmt.Errorf("the Workflow %s is being deleted", h.ID), err))
		}
		wait = min(2*wait, deleteLast)
	}
}

// podsOf are the pods that a handle's own Workflow has made.
func (p *provider) podsOf(ctx context.Context, op string, h sdk.JobHandle) ([]corev1.Pod, error) {
	at := kube.Pods(p.session.Namespace, "")
	all, err := kube.List(argo.LabelWorkflow+"="+h.ID, page[corev1.PodList](ctx, p, op, at), podItems)
	if err != nil {
		return nil, err
	}
	var out []corev1.Pod
	for _, pod := range all {
		for _, r := range pod.OwnerReferences {
			if string(r.UID) == h.Metadata[keyUID] {
				out = append(out, pod)
			}
		}
	}
	return out, nil
}

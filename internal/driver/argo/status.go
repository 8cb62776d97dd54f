package argo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-run/windlass/internal/cloud/argo"
	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/internal/driver/sight"
	"github.com/windlass-run/windlass/sdk"
)

const opStatus = "read state"

// JobStatus implements sdk.JobRunner.
func (p *provider) JobStatus(ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.JobStatusResult{}, p.fail(sdk.CodeOf(err), opStatus, err)
	}
	if err := p.checkHandle(opStatus, r.Handle); err != nil {
		return sdk.JobStatusResult{}, err
	}
	w, err := p.look(ctx, opStatus, r.Handle)
	if err != nil {
		return sdk.JobStatusResult{}, err
	}
	pods, err := p.lastPods(ctx, opStatus, []*argo.Workflow{w})
	if err != nil {
		return sdk.JobStatusResult{}, err
	}
	return p.state(r.Handle, w, pods)
}

// look reads a handle's Workflow. It is nil where it isn't there, and where another
// has taken its name.
func (p *provider) look(ctx context.Context, op string, h sdk.JobHandle) (*argo.Workflow, error) {
	w, err := p.client.Get(ctx, op, h.ID)
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
		return nil, nil
	case err != nil:
		return nil, err
	case string(w.UID) != h.Metadata[keyUID]:
		return nil, nil
	}
	return w, nil
}

// state judges a Workflow, and its pod where that is known.
func (p *provider) state(h sdk.JobHandle, w *argo.Workflow, pods map[string]*corev1.Pod) (sdk.JobStatusResult, error) {
	if w == nil {
		return sdk.JobStatusResult{}, p.fail(sdk.NotFound, opStatus, errors.New("the cluster has no Workflow "+h.ID))
	}
	res := judge(w)
	if pod := pods[string(w.UID)]; pod != nil {
		refine(&res, pod, p.session.Now())
	}
	return res, nil
}

// lastPods are the pods of those Workflows that are over, by the Workflow's UID: they
// say more of an end than Argo does, and whether it has come. Argo Server has none.
func (p *provider) lastPods(ctx context.Context, op string, all []*argo.Workflow) (map[string]*corev1.Pod, error) {
	var names []string
	for _, w := range all {
		if w != nil && w.Status.Done() {
			names = append(names, w.Name)
		}
	}
	if len(names) == 0 || p.server != nil {
		return nil, nil
	}
	selector := argo.LabelWorkflow + " in (" + strings.Join(names, ",") + ")"
	pods, err := kube.List(selector, page[corev1.PodList](ctx, p, op, kube.Pods(p.session.Namespace, "")), podItems)
	if err != nil {
		return nil, err
	}
	out := map[string]*corev1.Pod{}
	for i := range pods {
		for _, r := range pods[i].OwnerReferences {
			out[string(r.UID)] = &pods[i]
		}
	}
	return out, nil
}

func podItems(l *corev1.PodList) ([]corev1.Pod, string) { return l.Items, l.Continue }

// JobStatuses implements sdk.JobBatcher: one list for all, and one of the pods of those
// that are over. Argo Server lists out of a
// cache, so that what it doesn't list is asked for by name.
func (p *provider) JobStatuses(ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.JobStatusesResult{}, p.fail(sdk.CodeOf(err), opStatus, err)
	}
	if len(r.Handles) > batchMax {
		return sdk.JobStatusesResult{}, p.fail(sdk.InvalidArgument, opStatus, fmt.Errorf("%d handles, at most %d", len(r.Handles), batchMax))
	}
	out := sdk.JobStatusesResult{Items: make([]sdk.JobStatusItem, len(r.Handles))}
	var ids []string
	for i, h := range r.Handles {
		if out.Items[i].Err = p.checkHandle(opStatus, h); out.Items[i].Err == nil {
			id, _ := kube.AttemptOf(h.ID)
			ids = append(ids, id.String())
		}
	}
	if len(ids) == 0 {
		return out, nil
	}
	all, err := p.client.List(ctx, opStatus, sdk.LabelAttempt+" in ("+strings.Join(ids, ",")+")")
	if err != nil {
		return sdk.JobStatusesResult{}, err
	}
	byUID := map[string]*argo.Workflow{}
	for i := range all {
		byUID[string(all[i].UID)] = &all[i]
	}
	seen := make([]*argo.Workflow, len(r.Handles))
	var rest []int
	for i, h := range r.Handles {
		if out.Items[i].Err != nil {
			continue
		}
		if seen[i] = byUID[h.Metadata[keyUID]]; seen[i] == nil && p.server != nil {
			rest = append(rest, i)
		}
	}
	sight.Each(ctx, rest, func(ctx context.Context, i int) {
		seen[i], out.Items[i].Err = p.look(ctx, opStatus, r.Handles[i])
	})
	pods, err := p.lastPods(ctx, opStatus, seen)
	if err != nil {
		return sdk.JobStatusesResult{}, err
	}
	for i, h := range r.Handles {
		if out.Items[i].Err == nil {
			out.Items[i].Result, out.Items[i].Err = p.state(h, seen[i], pods)
		}
	}
	return out, nil
}

package workload

import (
	"context"
	"fmt"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

// missingRight is what is said where autoscalers can't be read.
const missingRight = "the right to list horizontalpodautoscalers.autoscaling is missing"

// podAutoscaler is the part of a HorizontalPodAutoscaler that counts here.
// https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/horizontal-pod-autoscaler-v2/
type podAutoscaler struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Target struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
		} `json:"scaleTargetRef"`
		Min *int32 `json:"minReplicas"`
		Max int32  `json:"maxReplicas"`
	} `json:"spec"`
}

// scaler is what changes a workload's count by itself, nil where nothing does.
func (w *Workloads) scaler(ctx context.Context, op string, r ref) (*sdk.Autoscaler, error) {
	if r.kind == daemonSet {
		return nil, nil
	}
	all, err := listed[podAutoscaler](ctx, w, op, kube.Autoscalers(r.namespace), "")
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if t := a.Spec.Target; t.Kind == r.kind.word() && t.Name == r.name {
			return &sdk.Autoscaler{Name: "hpa/" + a.Metadata.Name, Min: count(a.Spec.Min), Max: int(a.Spec.Max)}, nil
		}
	}
	return nil, nil
}

// against refuses to change a count that an autoscaler owns, unless told (F95). What
// can't be told counts as owned.
func (w *Workloads) against(op string, told bool, o *object) (*sdk.Autoscaler, error) {
	a, err := o.scaler, o.unseen
	switch {
	case sdk.CodeOf(err) == sdk.PermissionDenied && told:
		return nil, nil
	case sdk.CodeOf(err) == sdk.PermissionDenied:
		e := w.fail(sdk.PermissionDenied, op, "whether an autoscaler owns the count of the %s can't be told: %w", o.ref.object(), err)
		e.Remedy = missingRight + "; or repeat the command with --against-autoscaler"
		return nil, e
	case err != nil || a == nil || told:
		return a, err
	}
	e := w.fail(sdk.FailedPrecondition, op, "the %s is scaled by %s between %d and %d, which would undo it", o.ref.object(), a.Name, a.Min, a.Max)
	e.ID, e.Remedy = sdk.ErrAutoscaler, "change the autoscaler's bounds, or repeat the command with --against-autoscaler"
	return nil, e
}

// takesOver says what an autoscaler does after a count was set.
// https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/#implicit-maintenance-mode-deactivation
func takesOver(a *sdk.Autoscaler, n int) []string {
	switch {
	case a == nil:
		return nil
	case n == 0:
		return []string{a.Name + " does nothing while the count is 0, and goes on once it is above"}
	}
	return []string{fmt.Sprintf("%s sets the count again, between %d and %d", a.Name, a.Min, a.Max)}
}

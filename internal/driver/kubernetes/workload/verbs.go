package workload

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

const (
	opStart   = "start workload"
	opStop    = "stop workload"
	opScale   = "scale workload"
	opRestart = "restart workload"
)

// counted refuses what has no count to change.
func (w *Workloads) counted(op string, o *object) error {
	if o.ref.kind != daemonSet {
		return nil
	}
	e := w.fail(sdk.FailedPrecondition, op, "the %s has a pod on each node that fits, and no count", o.ref.object())
	e.Remedy = "restart, config, exec and logs work with it"
	return e
}

// resize is a change of the count. want decides it: how many there are to be, and what
// is noted for a later start; nil notes nothing.
func (w *Workloads) resize(ctx context.Context, op string, req sdk.OpRequest, want func(o *object) (n int, note *int, changed bool, err error)) (sdk.OpResult, *object, error) {
	return w.change(ctx, change{op: op, req: req, counts: true, edit: func(_ context.Context, o *object, declared map[string]any) (*edited, error) {
		n, note, changed, err := want(o)
		if err != nil || !changed {
			return nil, err
		}
		// A start gives an autoscaler its work back.
		scaler, err := w.against(op, req.AgainstAutoscaler || op == opStart, o)
		if err != nil {
			return nil, err
		}
		at(declared, "spec")["replicas"] = n
		args := map[string]string{"replicas": strconv.Itoa(n)}
		if note == nil {
			delete(at(declared, "metadata", "annotations"), annotationRestores)
		} else {
			annotate(declared, annotationRestores, strconv.Itoa(*note))
			args[annotationRestores] = strconv.Itoa(*note)
		}
		return &edited{args: args, warnings: append(takesOver(scaler, n), taken(o, "count", "f:spec", "f:replicas")...)}, nil
	}})
}

// ScaleWorkload implements sdk.Scaler.
func (w *Workloads) ScaleWorkload(ctx context.Context, r sdk.ScaleWorkloadRequest) (sdk.ScaleWorkloadResult, error) {
	if r.Replicas < 0 {
		e := w.fail(sdk.InvalidArgument, opScale, "%d is negative", r.Replicas)
		e.Field = "replicas"
		return sdk.ScaleWorkloadResult{}, e
	}
	res, _, err := w.resize(ctx, opScale, r.Op, func(o *object) (int, *int, bool, error) {
		if err := w.counted(opScale, o); err != nil {
			return 0, nil, false, err
		}
		if o.stopped() {
			return 0, nil, false, w.stoppedError(opScale, o, "start it with a number of replicas")
		}
		return r.Replicas, nil, o.desired != r.Replicas, nil
	})
	return sdk.ScaleWorkloadResult{Op: res}, err
}

func (w *Workloads) stoppedError(op string, o *object, remedy string) error {
	e := w.fail(sdk.FailedPrecondition, op, "the %s is stopped", o.ref.object())
	e.Remedy = remedy
	return e
}

// StopWorkload implements sdk.Stopper: no replicas, and a note of how many there were.
func (w *Workloads) StopWorkload(ctx context.Context, r sdk.StopWorkloadRequest) (sdk.StopWorkloadResult, error) {
	res, o, err := w.resize(ctx, opStop, r.Op, func(o *object) (int, *int, bool, error) {
		note := o.desired
		return 0, &note, !o.stopped(), w.counted(opStop, o)
	})
	out := sdk.StopWorkloadResult{Op: res}
	if err == nil {
		out.Restores = o.restores()
		if r.Op.DryRun && res.Changed {
			out.Restores = &o.desired
		}
	}
	return out, err
}

// StartWorkload implements sdk.Starter.
func (w *Workloads) StartWorkload(ctx context.Context, r sdk.StartWorkloadRequest) (sdk.StartWorkloadResult, error) {
	if r.Spec != nil {
		res, err := w.create(ctx, r.Op, *r.Spec)
		return sdk.StartWorkloadResult{Op: res}, err
	}
	res, _, err := w.resize(ctx, opStart, r.Op, func(o *object) (int, *int, bool, error) {
		n := 0
		switch {
		case o.ref.kind == daemonSet || o.desired > 0:
			return 0, nil, false, nil // it runs
		case r.Replicas != nil:
			n = *r.Replicas
		case o.restores() != nil:
			n = *o.restores()
		}
		if n < 1 {
			e := w.fail(sdk.FailedPrecondition, opStart, "the %s has no replicas, and nothing notes how many there were", o.ref.object())
			e.Remedy = "name a number of replicas, 1 or more"
			return 0, nil, false, e
		}
		return n, nil, true, nil
	})
	return sdk.StartWorkloadResult{Op: res}, err
}

// RestartWorkload implements sdk.Restarter, as `kubectl rollout restart` does it.
func (w *Workloads) RestartWorkload(ctx context.Context, r sdk.RestartWorkloadRequest) (sdk.RestartWorkloadResult, error) {
	res, _, err := w.change(ctx, change{op: opRestart, req: r.Op, replaces: true, edit: func(_ context.Context, o *object, declared map[string]any) (*edited, error) {
		if o.stopped() {
			return nil, w.stoppedError(opRestart, o, "start it, which makes new pods")
		}
		if err := w.rolls(opRestart, o); err != nil {
			return nil, err
		}
		now := w.c.Clock.Now().UTC().Format(time.RFC3339)
		at(declared, "spec", "template", "metadata", "annotations")[annotationRestarted] = now
		return &edited{args: map[string]string{annotationRestarted: now}, warnings: recreated(o)}, nil
	}})
	return sdk.RestartWorkloadResult{Op: res}, err
}

// rolls refuses a change of the pods where the cluster would replace none of them.
func (w *Workloads) rolls(op string, o *object) error {
	if o.manual == "" {
		return nil
	}
	e := w.fail(sdk.FailedPrecondition, op, "the %s wouldn't replace its pods: %s", o.ref.object(), o.manual)
	e.Remedy = "change that first, with kubectl or where the workload is described"
	return e
}

// recreated says what a strategy of the workload's own makes of a rollout.
func recreated(o *object) []string {
	if !o.recreates {
		return nil
	}
	return []string{fmt.Sprintf("the strategy of the %s is Recreate: all its pods end before new ones start", o.ref.object())}
}

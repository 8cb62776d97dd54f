package workload

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"cloud.google.com/go/run/apiv2/runpb"

	"github.com/windlass-run/windlass/sdk"
)

const (
	opScale   = "scale service"
	opRestart = "restart service"
	opStop    = "stop service"
	opStart   = "start service"
)

// ScaleWorkload implements sdk.Scaler by the service's manual count, which makes no
// new revision.
// https://cloud.google.com/run/docs/configuring/services/manual-scaling
func (w *Workloads) ScaleWorkload(ctx context.Context, r sdk.ScaleWorkloadRequest) (sdk.ScaleWorkloadResult, error) {
	if err := w.checkCount(opScale, r.Replicas); err != nil {
		return sdk.ScaleWorkloadResult{}, err
	}
	res, _, err := w.apply(ctx, change{op: opScale, req: r.Op, count: true, edit: func(v *runpb.Service, st sdk.DeploymentStatus) (map[string]string, error) {
		if st.Stopped {
			return nil, w.stopped(opScale, st)
		}
		if st.Desired != nil && *st.Desired == r.Replicas {
			return nil, nil
		}
		// A note that somebody else's scaling left behind would make this a stop.
		delete(v.Annotations, annotationRestores)
		return byHand(v, r.Replicas), nil
	}})
	return sdk.ScaleWorkloadResult{Op: res}, err
}

func (w *Workloads) checkCount(op string, n int) error {
	if n < 0 || n > math.MaxInt32 {
		e := w.fail(sdk.InvalidArgument, op, "%d is no number of instances", n)
		e.Field = "replicas"
		return e
	}
	return nil
}

func (w *Workloads) stopped(op string, st sdk.DeploymentStatus) error {
	e := w.fail(sdk.FailedPrecondition, op, "%s is stopped", st.Path)
	e.Remedy = "start it with `windlass svc start`, which takes --replicas"
	return e
}

// byHand sets a manual count. The minimum and the maximum are the autoscaler's.
func byHand(v *runpb.Service, n int) map[string]string {
	count := int32(n) //nolint:gosec // checkCount has seen it, or it was read as one
	v.Scaling = &runpb.ServiceScaling{ScalingMode: runpb.ServiceScaling_MANUAL, ManualInstanceCount: &count}
	return map[string]string{"scaling.scalingMode": "MANUAL", "scaling.manualInstanceCount": strconv.Itoa(n)}
}

// RestartWorkload implements sdk.Restarter by a new revision of the same template.
// The traffic is left as it is, so a service that sends some to named revisions
// can't be restarted: their instances would go on.
func (w *Workloads) RestartWorkload(ctx context.Context, r sdk.RestartWorkloadRequest) (sdk.RestartWorkloadResult, error) {
	res, _, err := w.apply(ctx, change{op: opRestart, req: r.Op, anew: true, edit: func(v *runpb.Service, st sdk.DeploymentStatus) (map[string]string, error) {
		if st.Stopped {
			return nil, w.stopped(opRestart, st)
		}
		if err := w.refusePinned(opRestart, v); err != nil {
			return nil, err
		}
		note(v, r.Op.OpID)
		return map[string]string{"forceNewRevision": "true"}, nil
	}})
	return sdk.RestartWorkloadResult{Op: res}, err
}

// note leaves the operation in the template, which makes it another one.
func note(v *runpb.Service, id sdk.ID) {
	if v.Template.Annotations == nil {
		v.Template.Annotations = map[string]string{}
	}
	v.Template.Annotations[annotationRestarted] = id.String()
}

func (w *Workloads) refusePinned(op string, v *runpb.Service) error {
	pin := pinned(v)
	if pin == "" {
		return nil
	}
	e := w.fail(sdk.FailedPrecondition, op, "%s: a new revision would not replace its instances", pin)
	e.Remedy = "send all traffic to the latest revision first: `gcloud run services update-traffic SERVICE --to-latest`"
	return e
}

// StopWorkload implements sdk.Stopper: the manual count becomes zero, and what was
// before is noted on the service. Requests get an error meanwhile.
// https://cloud.google.com/run/docs/managing/services#disable
func (w *Workloads) StopWorkload(ctx context.Context, r sdk.StopWorkloadRequest) (sdk.StopWorkloadResult, error) {
	var out sdk.StopWorkloadResult
	res, v, err := w.apply(ctx, change{op: opStop, req: r.Op, count: true, edit: func(v *runpb.Service, st sdk.DeploymentStatus) (map[string]string, error) {
		if st.Desired != nil && *st.Desired == 0 {
			return nil, nil // stopped, or scaled to zero: nothing is there to be ended
		}
		v.Annotations[annotationRestores] = restoresOf(v).String()
		return byHand(v, 0), nil
	}})
	if out.Op = res; err != nil {
		return out, err
	}
	if r.Op.DryRun && res.Changed {
		if was := restoresOf(v); was.manual {
			out.Restores = &was.count
		}
		return out, nil
	}
	out.Restores = w.judge(v).Restores
	return out, nil
}

// restores is what a start brings back: a manual count, or the service's own bounds
// of autoscaling.
type restores struct {
	manual   bool
	count    int
	min, max int32
}

func restoresOf(v *runpb.Service) restores {
	c := v.GetScaling()
	return restores{manual: manual(v), count: int(c.GetManualInstanceCount()), min: c.GetMinInstanceCount(), max: c.GetMaxInstanceCount()}
}

const automatic = "automatic"

// String is how it stands in the annotation: "3", or "automatic 0 0".
func (r restores) String() string {
	if r.manual {
		return strconv.Itoa(r.count)
	}
	return fmt.Sprintf("%s %d %d", automatic, r.min, r.max)
}

// parseRestores reads what String wrote. Somebody may have written something else.
func parseRestores(text string) (restores, error) {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil && n >= 0 {
		return restores{manual: true, count: int(n)}, nil
	}
	var out restores
	f := strings.Fields(text)
	if len(f) == 3 && f[0] == automatic {
		low, err := strconv.ParseInt(f[1], 10, 32)
		high, err2 := strconv.ParseInt(f[2], 10, 32)
		if err == nil && err2 == nil && low >= 0 && high >= 0 {
			out.min, out.max = int32(low), int32(high)
			return out, nil
		}
	}
	return out, fmt.Errorf("%q is no scaling", text)
}

// StartWorkload implements sdk.Starter.
func (w *Workloads) StartWorkload(ctx context.Context, r sdk.StartWorkloadRequest) (sdk.StartWorkloadResult, error) {
	if r.Spec != nil {
		res, err := w.create(ctx, r.Op, *r.Spec)
		return sdk.StartWorkloadResult{Op: res}, err
	}
	if r.Replicas != nil {
		if err := w.checkCount(opStart, *r.Replicas); err != nil {
			return sdk.StartWorkloadResult{}, err
		}
	}
	res, _, err := w.apply(ctx, change{op: opStart, req: r.Op, edit: func(v *runpb.Service, st sdk.DeploymentStatus) (map[string]string, error) {
		if st.Desired == nil || *st.Desired > 0 {
			return nil, nil
		}
		keeps := v.Annotations[annotationRestores]
		was, err := parseRestores(keeps)
		delete(v.Annotations, annotationRestores)
		switch {
		case r.Replicas != nil:
			return byHand(v, *r.Replicas), nil
		case err != nil:
			// Disabled by another tool, or scaled to zero.
			e := w.fail(sdk.FailedPrecondition, opStart, "%s has no instances, and what to bring back can't be told: its annotation %s is %q", st.Path, annotationRestores, keeps)
			e.Remedy = "say how many instances there are to be, with --replicas"
			return nil, e
		case was.manual:
			return byHand(v, was.count), nil
		}
		v.Scaling = &runpb.ServiceScaling{ScalingMode: runpb.ServiceScaling_AUTOMATIC, MinInstanceCount: was.min, MaxInstanceCount: was.max}
		if was.min > 0 && was.max == 0 {
			// Out of manual scaling both have to be given; the revision's maximum held.
			// https://cloud.google.com/run/docs/configuring/services/manual-scaling
			v.Scaling.MaxInstanceCount = max(was.min, int32(autoscaler(v).Max)) //nolint:gosec // it was read as one
		}
		return map[string]string{"scaling.scalingMode": "AUTOMATIC"}, nil
	}})
	return sdk.StartWorkloadResult{Op: res}, err
}

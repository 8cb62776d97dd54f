package workload

import (
	"context"
	"fmt"
	"math"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/sdk"
)

const (
	opScale   = "scale service"
	opStop    = "stop service"
	opRestart = "restart service"
	opStart   = "start service"
)

// noRestores is what the tag of restores is for a service that wants no tasks
// without having been stopped.
const noRestores = "-"

// counted is an update of the count.
func counted(n int, restores string) *update {
	return &update{want: wantCount + itoa(n), restores: restores, in: ecs.UpdateServiceInput{DesiredCount: new(int32(n))}, args: map[string]string{"desiredCount": itoa(n)}}
}

// stopped refuses what needs a service that wasn't stopped.
func (s *Services) stopped(op string, path sdk.WorkloadPath, v *types.Service) error {
	if _, is := restores(v); !is {
		return nil
	}
	e := s.fail(sdk.FailedPrecondition, op, fmt.Errorf("%s is stopped", path))
	e.Remedy = "start it: `windlass svc start`"
	return e
}

// checkCount refuses a count that no service may have.
func (s *Services) checkCount(op string, n int) error {
	if n >= 0 && n <= math.MaxInt32 {
		return nil
	}
	e := s.fail(sdk.InvalidArgument, op, fmt.Errorf("%d replicas", n))
	e.Field, e.Remedy = "replicas", "0 or more"
	return e
}

// ScaleWorkload implements sdk.Scaler.
func (s *Services) ScaleWorkload(ctx context.Context, r sdk.ScaleWorkloadRequest) (sdk.ScaleWorkloadResult, error) {
	if err := s.checkCount(opScale, r.Replicas); err != nil {
		return sdk.ScaleWorkloadResult{}, err
	}
	res, _, err := s.mutate(ctx, change{op: opScale, req: r.Op, count: true, plan: func(_ context.Context, v *types.Service) (*update, error) {
		if err := s.stopped(opScale, r.Op.Path, v); err != nil {
			return nil, err
		}
		if int(v.DesiredCount) == r.Replicas {
			return nil, nil
		}
		return counted(r.Replicas, noRestores), nil
	}})
	return sdk.ScaleWorkloadResult{Op: res}, err
}

// StopWorkload implements sdk.Stopper: no tasks are wanted any more, and how many
// there were is kept in a tag.
func (s *Services) StopWorkload(ctx context.Context, r sdk.StopWorkloadRequest) (sdk.StopWorkloadResult, error) {
	res, v, err := s.mutate(ctx, change{op: opStop, req: r.Op, count: true, plan: func(_ context.Context, v *types.Service) (*update, error) {
		if v.DesiredCount == 0 {
			return nil, nil
		}
		return counted(0, itoa(int(v.DesiredCount))), nil
	}})
	out := sdk.StopWorkloadResult{Op: res}
	if err != nil || v == nil {
		return out, err
	}
	if n, is := restores(v); is {
		out.Restores = &n
	} else if n := int(v.DesiredCount); n > 0 {
		out.Restores = &n
	}
	return out, nil
}

// RestartWorkload implements sdk.Restarter: a deployment of what is there, in which
// ECS replaces task by task.
func (s *Services) RestartWorkload(ctx context.Context, r sdk.RestartWorkloadRequest) (sdk.RestartWorkloadResult, error) {
	res, _, err := s.mutate(ctx, change{op: opRestart, req: r.Op, plan: func(_ context.Context, v *types.Service) (*update, error) {
		if err := s.stopped(opRestart, r.Op.Path, v); err != nil {
			return nil, err
		}
		return &update{want: wantReplace, in: ecs.UpdateServiceInput{ForceNewDeployment: true}, args: map[string]string{"forceNewDeployment": "true"}}, nil
	}})
	return sdk.RestartWorkloadResult{Op: res}, err
}

// StartWorkload implements sdk.Starter.
func (s *Services) StartWorkload(ctx context.Context, r sdk.StartWorkloadRequest) (sdk.StartWorkloadResult, error) {
	if r.Spec != nil {
		res, err := s.create(ctx, r.Op, *r.Spec)
		return sdk.StartWorkloadResult{Op: res}, err
	}
	if r.Replicas != nil {
		if err := s.checkCount(opStart, *r.Replicas); err != nil {
			return sdk.StartWorkloadResult{}, err
		}
	}
	res, _, err := s.mutate(ctx, change{op: opStart, req: r.Op, count: true, plan: func(_ context.Context, v *types.Service) (*update, error) {
		n, is := restores(v)
		switch {
		case v.DesiredCount > 0:
			return nil, nil // it runs
		case r.Replicas != nil:
			n = *r.Replicas
		case !is:
			e := s.fail(sdk.FailedPrecondition, opStart, fmt.Errorf("%s wants no tasks, and wasn't stopped by windlass, so that how many there were isn't known", r.Op.Path))
			e.Remedy = "say how many: `windlass svc start --replicas N`"
			return nil, e
		}
		if n == 0 {
			return nil, nil
		}
		return counted(n, ""), nil
	}})
	return sdk.StartWorkloadResult{Op: res}, err
}

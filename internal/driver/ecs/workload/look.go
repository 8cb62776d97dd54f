package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	autoscaling "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	scaling "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/sdk"
)

// describe reads a service with its tags; nil is none. One that is being deleted
// is there until it is gone.
func (s *Services) describe(ctx context.Context, op string, a address) (*types.Service, error) {
	var out *ecs.DescribeServicesOutput
	err := s.o.Session.Paced(ctx, s.o.ServiceReads, op, func(ctx context.Context) (err error) {
		out, err = s.o.ECS.DescribeServices(ctx, &ecs.DescribeServicesInput{Cluster: &a.cluster, Services: []string{a.service}, Include: []types.ServiceField{types.ServiceFieldTags}})
		return err
	})
	switch {
	case aws.ErrorCode(err) == "ClusterNotFoundException":
		// What was done and where stands before it already.
		if e := new(sdk.Error); errors.As(err, &e) && e.Err != nil {
			err = e.Err
		}
		return nil, s.fail(sdk.NotFound, op, fmt.Errorf("there is no cluster %s: %w", a.cluster, err))
	case err != nil:
		return nil, err
	case len(out.Services) == 1 && str(out.Services[0].Status) != "INACTIVE":
		return &out.Services[0], nil
	}
	for _, f := range out.Failures {
		if str(f.Reason) != "MISSING" {
			return nil, s.fail(sdk.Unavailable, op, errors.New("ECS can't describe "+str(f.Arn)+": "+str(f.Reason)+" "+str(f.Detail)))
		}
	}
	return nil, nil
}

// target reads what scales a service by itself; nil is nothing.
// https://docs.aws.amazon.com/autoscaling/application/APIReference/API_DescribeScalableTargets.html
func (s *Services) target(ctx context.Context, op string, a address) (*sdk.Autoscaler, error) {
	id := "service/" + a.cluster + "/" + a.service
	var out *autoscaling.DescribeScalableTargetsOutput
	err := s.call(ctx, op, func(ctx context.Context) (err error) {
		out, err = s.scaling.DescribeScalableTargets(ctx, &autoscaling.DescribeScalableTargetsInput{ServiceNamespace: scaling.ServiceNamespaceEcs,
			ResourceIds: []string{id}, ScalableDimension: scaling.ScalableDimensionECSServiceDesiredCount})
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, t := range out.ScalableTargets {
		if str(t.ResourceId) != id || suspended(t.SuspendedState) || t.MinCapacity == nil || t.MaxCapacity == nil {
			continue
		}
		return &sdk.Autoscaler{Name: "application-autoscaling " + id, Min: int(*t.MinCapacity), Max: int(*t.MaxCapacity)}, nil
	}
	return nil, nil
}

// suspended reports whether a target changes nothing.
func suspended(s *scaling.SuspendedState) bool {
	is := func(b *bool) bool { return b != nil && *b }
	return s != nil && is(s.DynamicScalingInSuspended) && is(s.DynamicScalingOutSuspended) && is(s.ScheduledScalingSuspended)
}

// tasks reads the tasks of a service: those that are to run, then those that stop,
// and those that stopped within the hour.
func (s *Services) tasks(ctx context.Context, op string, a address) ([]types.Task, error) {
	var wanted, leaving []types.Task
	var errs [2]error
	var wg sync.WaitGroup
	wg.Go(func() { wanted, errs[0] = s.tasksOf(ctx, op, a, types.DesiredStatusRunning) })
	leaving, errs[1] = s.tasksOf(ctx, op, a, types.DesiredStatusStopped)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	// A task that stopped between the two looks is in both.
	known := map[string]bool{}
	for _, t := range leaving {
		known[str(t.TaskArn)] = true
	}
	wanted = slices.DeleteFunc(wanted, func(t types.Task) bool { return known[str(t.TaskArn)] })
	return append(wanted, leaving...), nil
}

// tasksOf reads the tasks of a service that are to be in a state.
func (s *Services) tasksOf(ctx context.Context, op string, a address, desired types.DesiredStatus) ([]types.Task, error) {
	var all []types.Task
	in := &ecs.ListTasksInput{Cluster: &a.cluster, ServiceName: &a.service, DesiredStatus: desired}
	for {
		var page *ecs.ListTasksOutput
		err := s.o.Session.Paced(ctx, s.o.Reads, op, func(ctx context.Context) (err error) {
			page, err = s.o.ECS.ListTasks(ctx, in)
			return err
		})
		if aws.ErrorCode(err) == "ServiceNotFoundException" {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if len(page.TaskArns) > 0 {
			var out *ecs.DescribeTasksOutput
			err := s.o.Session.Paced(ctx, s.o.Reads, op, func(ctx context.Context) (err error) {
				out, err = s.o.ECS.DescribeTasks(ctx, &ecs.DescribeTasksInput{Cluster: &a.cluster, Tasks: page.TaskArns})
				return err
			})
			if err != nil {
				return nil, err
			}
			all = append(all, out.Tasks...)
		}
		if in.NextToken = page.NextToken; str(in.NextToken) == "" {
			return all, nil
		}
	}
}

// view is all that is known of a service at a moment.
type view struct {
	service    *types.Service
	definition *definition
	tasks      []types.Task
	scaler     *sdk.Autoscaler
	// scalerErr is why it isn't known whether something scales the service.
	scalerErr error
	// brief: the tasks weren't read.
	brief bool
}

// sight is what a change is decided on.
type sight struct {
	service *types.Service
	scaler  *sdk.Autoscaler
	// scalerErr is why it isn't known whether something scales the service, where
	// that was asked for.
	scalerErr error
}

// fresh is how old a sight may be. Nothing at ECS compares versions at a change, so
// that others may change the service between any read and the update.
const fresh = time.Second

// glance reads a service, and what scales it where that is asked for, at once. service
// is nil where there is none.
func (s *Services) glance(ctx context.Context, op string, a address, scaled bool) (sight, error) {
	var v sight
	var wg sync.WaitGroup
	if scaled {
		wg.Go(func() { v.scaler, v.scalerErr = s.target(ctx, op, a) })
	}
	service, err := s.describe(ctx, op, a)
	wg.Wait()
	v.service = service
	return v, err
}

// brief is look without the tasks: what the record of a change keeps, and what the
// change is decided on.
func (s *Services) brief(ctx context.Context, op string, a address) (view, error) {
	at := s.o.Clock.Now()
	g, err := s.glance(ctx, op, a, true)
	if err != nil || g.service == nil {
		return view{}, err
	}
	v := view{service: g.service, scaler: g.scaler, scalerErr: g.scalerErr, brief: true}
	if v.definition, err = s.definition(ctx, op, str(g.service.TaskDefinition)); err != nil {
		return view{}, err
	}
	s.seen.Put(a, g, at)
	return v, nil
}

// look reads everything side by side. service is nil where there is none.
func (s *Services) look(ctx context.Context, op string, a address) (view, error) {
	var v view
	var wg sync.WaitGroup
	var tasksErr error
	wg.Go(func() { v.tasks, tasksErr = s.tasks(ctx, op, a) })
	wg.Go(func() { v.scaler, v.scalerErr = s.target(ctx, op, a) })
	service, err := s.describe(ctx, op, a)
	if err == nil && service != nil {
		v.service = service
		v.definition, err = s.definition(ctx, op, str(service.TaskDefinition))
	}
	wg.Wait()
	if err != nil {
		return view{}, err
	}
	return v, tasksErr
}

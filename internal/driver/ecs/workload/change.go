package workload

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/sdk"
)

// change is one change of a service, as its verb describes it.
type change struct {
	op  string
	req sdk.OpRequest
	// count: it changes the number of tasks, which an autoscaler may own.
	count bool
	// plan says what is to be done with the service as it is; nothing where it is so
	// already.
	plan func(ctx context.Context, v *types.Service) (*update, error)
}

// update is what a change sends.
type update struct {
	// want is what the mark asks for.
	want string
	// restores, when not empty, is what the tag of that name becomes.
	restores string
	// in is the request, but for cluster and service.
	in ecs.UpdateServiceInput
	// before are the calls that come before the mark, with how they are planned.
	before []step
	// after tidies up once the update is accepted; its warnings are told.
	after func(ctx context.Context) []string
	// args are those of the planned UpdateService.
	args map[string]string
}

// step is a call that prepares an update.
type step struct {
	planned sdk.PlannedCall
	do      func(ctx context.Context, u *update) error
}

// mutate carries a change out: the service is read, what forbids the change is
// refused, the mark is left, and the update is sent once. It returns the service
// as it was before.
func (s *Services) mutate(ctx context.Context, c change) (sdk.OpResult, *types.Service, error) {
	a, err := s.address(c.op, c.req.Path)
	if err != nil {
		return sdk.OpResult{}, nil, err
	}
	v, scaler, err := s.before(ctx, c, a)
	if err != nil {
		return sdk.OpResult{}, nil, err
	}
	m, marked := markOf(v)
	if marked && m.op == c.req.OpID && m.done(v) {
		return result(v, m.op, true), v, nil // it was carried out before
	}
	if err := s.allowed(c, v, scaler); err != nil {
		return sdk.OpResult{}, nil, err
	}
	u, err := c.plan(ctx, v)
	if err != nil {
		return sdk.OpResult{}, nil, err
	}
	if u == nil {
		return sdk.OpResult{Generation: generation(v, m.op)}, v, nil
	}
	res, err := s.send(ctx, c, a, v, u)
	if err == nil && scaler != nil && c.count {
		res.Warnings = append(res.Warnings, fmt.Sprintf("%s keeps the count between %d and %d, and will change it again", scaler.Name, scaler.Min, scaler.Max))
	}
	return res, v, err
}

// before reads the service, and what scales it where that matters.
func (s *Services) before(ctx context.Context, c change, a address) (*types.Service, *sdk.Autoscaler, error) {
	var scaler *sdk.Autoscaler
	var scalerErr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c.count {
			scaler, scalerErr = s.target(ctx, c.op, a)
		}
	}()
	v, err := s.describe(ctx, c.op, a)
	<-done
	switch {
	case err != nil:
		return nil, nil, err
	case v == nil:
		return nil, nil, s.absent(c.op, a)
	case scalerErr != nil && !c.req.AgainstAutoscaler:
		return nil, nil, scalerErr
	}
	return v, scaler, nil
}

// allowed refuses what can't be changed.
func (s *Services) allowed(c change, v *types.Service, scaler *sdk.Autoscaler) error {
	m, _ := markOf(v)
	desired := int(v.DesiredCount)
	if err := c.req.Expect.Check(c.op, sdk.DeploymentStatus{Path: c.req.Path, Desired: &desired, Generation: generation(v, m.op)}); err != nil {
		return err
	}
	refuse := func(format string, args ...any) error {
		return s.fail(sdk.FailedPrecondition, c.op, fmt.Errorf("%s "+format, append([]any{c.req.Path}, args...)...))
	}
	switch {
	case str(v.Status) != "ACTIVE":
		return refuse("is being deleted")
	case newest(v) == nil:
		return refuse("has deployments of another controller than ECS; change it there")
	case c.count && v.SchedulingStrategy == types.SchedulingStrategyDaemon:
		return refuse("is a daemon: it has a task on each instance, and no count")
	case c.count && scaler != nil && !c.req.AgainstAutoscaler:
		e := s.fail(sdk.FailedPrecondition, c.op, fmt.Errorf("%s is scaled by %s between %d and %d, which would undo it", c.req.Path, scaler.Name, scaler.Min, scaler.Max))
		e.ID, e.Remedy = sdk.ErrAutoscaler, "change the target's bounds, or repeat the command with --against-autoscaler"
		return e
	}
	return nil
}

// send leaves the mark and sends the update, or says what it would send.
func (s *Services) send(ctx context.Context, c change, a address, v *types.Service, u *update) (sdk.OpResult, error) {
	d := newest(v)
	if c.req.DryRun {
		res := sdk.OpResult{Changed: true}
		for _, st := range u.before {
			res.Calls = append(res.Calls, st.planned)
		}
		object := "service " + string(c.req.Path)
		res.Calls = append(res.Calls, sdk.PlannedCall{Name: "ecs:TagResource", Object: object, Args: map[string]string{"tags": tagOp}},
			sdk.PlannedCall{Name: "ecs:UpdateService", Object: object, Args: u.args})
		return res, nil
	}
	for _, st := range u.before {
		if err := st.do(ctx, u); err != nil {
			return sdk.OpResult{}, err
		}
	}
	m := mark{op: c.req.OpID, want: u.want, deployment: str(d.Id), count: int(v.DesiredCount)}
	tags := []types.Tag{{Key: new(tagOp), Value: new(m.text())}}
	if u.restores != "" {
		tags = append(tags, types.Tag{Key: new(tagRestores), Value: &u.restores})
	}
	if err := s.call(ctx, c.op, func(ctx context.Context) error {
		_, err := s.o.ECS.TagResource(ctx, &ecs.TagResourceInput{ResourceArn: v.ServiceArn, Tags: tags})
		return err
	}); err != nil {
		return sdk.OpResult{}, err
	}
	u.in.Cluster, u.in.Service = &a.cluster, &a.service
	var out *ecs.UpdateServiceOutput
	if err := s.call(ctx, c.op, func(ctx context.Context) (err error) {
		out, err = s.o.ECS.UpdateService(ctx, &u.in)
		return err
	}); err != nil {
		return sdk.OpResult{}, err
	}
	if out.Service == nil {
		return sdk.OpResult{}, s.fail(sdk.Unavailable, c.op, errors.New("the answer holds no service"))
	}
	res := result(out.Service, c.req.OpID, true)
	if u.after != nil {
		res.Warnings = u.after(ctx)
	}
	return res, nil
}

// result is what was accepted.
func result(v *types.Service, op sdk.ID, changed bool) sdk.OpResult {
	res := sdk.OpResult{Changed: changed, Generation: generation(v, op), Trace: traceWords(v)}
	if d := newest(v); d != nil {
		res.Rollout = str(d.Id)
	}
	return res
}

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
//
// It is decided on what a brief status has just read, where there is such a read. Where
// that leads to no call, it is decided on a read of its own.
func (s *Services) mutate(ctx context.Context, c change) (sdk.OpResult, *types.Service, error) {
	a, err := s.address(c.op, c.req.Path)
	if err != nil {
		return sdk.OpResult{}, nil, err
	}
	v, ok := s.seen.Take(a, s.o.Clock.Now(), fresh)
	if ok && !c.req.DryRun && ctx.Err() == nil && (v.scalerErr == nil || !c.count) {
		u, res, err := s.decide(ctx, c, v)
		if u != nil {
			res, err = s.send(ctx, c, a, v, u)
		}
		if u != nil || err == nil && res.Changed {
			return res, v.service, err
		}
	}
	if v, err = s.before(ctx, c, a); err != nil {
		return sdk.OpResult{}, nil, err
	}
	u, res, err := s.decide(ctx, c, v)
	if u != nil {
		res, err = s.send(ctx, c, a, v, u)
	}
	return res, v.service, err
}

// decide refuses what can't be, and says what is to be sent; nothing where res tells
// what the service is already.
func (s *Services) decide(ctx context.Context, c change, now sight) (u *update, res sdk.OpResult, err error) {
	v := now.service
	m, marked := markOf(v)
	if marked && m.op == c.req.OpID && m.done(v) {
		return nil, result(v, m.op, true), nil // it was carried out before
	}
	if err := s.allowed(c, v, now.scaler); err != nil {
		return nil, sdk.OpResult{}, err
	}
	if u, err = c.plan(ctx, v); err != nil || u != nil {
		return u, sdk.OpResult{}, err
	}
	return nil, sdk.OpResult{Generation: generation(v, m.op)}, nil
}

// before reads the service, and what scales it where that matters.
func (s *Services) before(ctx context.Context, c change, a address) (sight, error) {
	v, err := s.glance(ctx, c.op, a, c.count)
	switch {
	case err != nil:
		return sight{}, err
	case v.service == nil:
		return sight{}, s.absent(c.op, a)
	case v.scalerErr != nil && !c.req.AgainstAutoscaler:
		return sight{}, v.scalerErr
	}
	return v, nil
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
func (s *Services) send(ctx context.Context, c change, a address, now sight, u *update) (sdk.OpResult, error) {
	var warnings []string
	if x := now.scaler; x != nil && c.count {
		warnings = []string{fmt.Sprintf("%s keeps the count between %d and %d, and will change it again", x.Name, x.Min, x.Max)}
	}
	v := now.service
	d := newest(v)
	if c.req.DryRun {
		res := sdk.OpResult{Changed: true, Warnings: warnings}
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
	res.Warnings = append(res.Warnings, warnings...)
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

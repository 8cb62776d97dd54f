package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// ResourcePlan is what apply would do and why.
type ResourcePlan struct {
	Action ResourceAction
	// Current is nil where nothing is there.
	Current *ResourceState
	// Changes have the values of sensitive members masked.
	Changes []sdk.FieldChange
	// Problems are every reason why apply would refuse it, as far as that can be
	// told without trying: InvalidArgument is a value that the provider doesn't
	// take, Unimplemented a change that it can't make, FailedPrecondition one that
	// it doesn't make of this resource.
	Problems []sdk.Problem
}

// DiffResource works out what ApplyResource would do. It changes nothing.
func (e *Engine) DiffResource(ctx context.Context, req ResourceRequest) (ResourcePlan, error) {
	c, err := e.resource(ctx, req)
	if err != nil {
		if ps := specProblems(err); len(ps) > 0 {
			return ResourcePlan{Problems: ps}, nil
		}
		return ResourcePlan{}, err
	}
	plan, _, err := c.plan(ctx)
	return plan, err
}

// PlanDeleteResource works out what DeleteResource would do. It changes nothing.
func (e *Engine) PlanDeleteResource(ctx context.Context, req ResourceRequest) (ResourcePlan, error) {
	c, err := e.resource(ctx, req)
	if err != nil {
		return ResourcePlan{}, err
	}
	return c.planDelete(ctx)
}

func (c *resourceCall) planDelete(ctx context.Context) (ResourcePlan, error) {
	now, err := c.read(ctx)
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
		return ResourcePlan{Action: ResourceNothing}, nil
	case err != nil:
		return ResourcePlan{}, err
	}
	st := c.state(now)
	plan := ResourcePlan{Action: ResourceDelete, Current: &st}
	plan.refuse(c.row(), now, c.e.o.Owner)
	return plan, nil
}

// plan also returns what there is, unmasked. A spec that is wrong by itself is compared
// with nothing: the backend isn't even asked, whose words for a name that it can't have
// would be other ones.
func (c *resourceCall) plan(ctx context.Context) (ResourcePlan, sdk.ResourceOutput, error) {
	row := c.row()
	if ps, err := c.wrong(ctx, row); err != nil || len(ps) > 0 {
		return ResourcePlan{Problems: ps}, sdk.ResourceOutput{}, err
	}
	plan := ResourcePlan{Action: ResourceNothing}
	now, err := c.read(ctx)
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
		plan.Action = ResourceCreate
		plan.refuse(row, now, c.e.o.Owner)
		return plan, sdk.ResourceOutput{}, nil
	case err != nil:
		return ResourcePlan{}, sdk.ResourceOutput{}, err
	}
	st := c.state(now)
	plan.Current = &st
	d, err := c.diff(ctx, now.Output)
	if ps := specProblems(err); len(ps) > 0 {
		plan.Problems = ps
		return plan, now.Output, nil
	}
	if err != nil {
		return ResourcePlan{}, sdk.ResourceOutput{}, err
	}
	switch {
	case d.NeedsReplace:
		plan.Action = ResourceReplace
	case d.NeedsUpdate:
		plan.Action = ResourceUpdate
	}
	plan.Changes = c.mask.changes(d.Changes)
	plan.refuse(row, now, c.e.o.Owner)
	return plan, now.Output, nil
}

// wrong is what is wrong with the spec by itself: by the driver's table, and by the
// driver, which compares it with nothing; one without a row may not.
func (c *resourceCall) wrong(ctx context.Context, row *sdk.ResourceType) ([]sdk.Problem, error) {
	if row == nil {
		return nil, nil
	}
	if ps := row.Config.Validate("config", c.req.Spec.Config); len(ps) > 0 {
		return ps, nil
	}
	if !row.Has(sdk.VerbDiff) {
		return nil, nil
	}
	_, err := c.diff(ctx, sdk.ResourceOutput{Name: c.req.Spec.Name, Type: c.req.Spec.Type, Outputs: []byte("{}")})
	if ps := specProblems(err); len(ps) > 0 {
		return ps, nil
	}
	return nil, err
}

func (c *resourceCall) diff(ctx context.Context, now sdk.ResourceOutput) (sdk.DiffResourceResult, error) {
	d, err := resourceAsk(ctx, c, "compare resource", sdk.DiffResourceRequest{Desired: c.req.Spec, Current: now}, c.d.DiffResource)
	return d, c.fail(err)
}

// row is the type's row in the driver's table; nil for a driver that has none, as a
// published plugin's.
func (c *resourceCall) row() *sdk.ResourceType {
	i := slices.IndexFunc(c.back.Driver.Resources, func(t sdk.ResourceType) bool { return t.Type == c.req.Spec.Type })
	if i < 0 {
		return nil
	}
	return &c.back.Driver.Resources[i]
}

// refuse adds what the driver's table and the resource's marks say against the action.
func (p *ResourcePlan) refuse(row *sdk.ResourceType, now sdk.ReadResourceResult, owner string) {
	if row == nil {
		return
	}
	for _, v := range p.Action.verbs() {
		if why := row.Refusal(v); why != "" {
			p.Problems = append(p.Problems, sdk.Problem{Field: "type", Message: why, Code: sdk.Unimplemented})
		}
	}
	if p.Current != nil && p.Action != ResourceNothing && len(p.Problems) == 0 {
		if why := foreign(now, owner); why != "" {
			p.Problems = append(p.Problems, sdk.Problem{Field: "name", Value: now.Output.Name, Message: why, Code: sdk.FailedPrecondition})
		}
	}
}

// verbs are what an action takes.
func (a ResourceAction) verbs() []sdk.ResourceVerb {
	switch a {
	case ResourceCreate:
		return []sdk.ResourceVerb{sdk.VerbCreate}
	case ResourceUpdate:
		return []sdk.ResourceVerb{sdk.VerbUpdate}
	case ResourceReplace:
		return []sdk.ResourceVerb{sdk.VerbDelete, sdk.VerbCreate}
	case ResourceDelete:
		return []sdk.ResourceVerb{sdk.VerbDelete}
	case ResourceScale:
		return []sdk.ResourceVerb{sdk.VerbScale}
	}
	return nil
}

// foreign says why a resource is changed by nobody here; empty where it is ours.
func foreign(now sdk.ReadResourceResult, owner string) string {
	switch {
	case now.Owner == "" || now.OpID.IsZero():
		return "is there, and wasn't made by windlass resource: change it where it was made"
	case now.Owner != owner:
		return fmt.Sprintf("belongs to the owner %q: change it from there", now.Owner)
	}
	return ""
}

// specProblems are what a driver says is wrong with a spec: none for any other error.
func specProblems(err error) []sdk.Problem {
	var e *sdk.Error
	if !errors.As(err, &e) || e.Code != sdk.InvalidArgument || e.Field == "" || e.Field == "ref" || strings.HasPrefix(e.Field, "current") {
		return nil
	}
	var ps sdk.Problems
	if errors.As(e, &ps) {
		return ps
	}
	message := e.Error()
	if e.Err != nil {
		message = e.Err.Error()
	}
	if e.Remedy != "" {
		message += "; " + e.Remedy
	}
	return []sdk.Problem{{Field: e.Field, Message: message, Code: sdk.InvalidArgument}}
}

// refusal is the error of what speaks against a change; nil where that is nothing.
func (c *resourceCall) refusal(op string, ps []sdk.Problem) error {
	if len(ps) == 0 {
		return nil
	}
	return &sdk.Error{Code: ps[0].Code, Op: op + " " + c.req.target(), Provider: c.back.Name, Field: ps[0].Field, ID: ErrResourceRefused, Err: sdk.Problems(ps)}
}

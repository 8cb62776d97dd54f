package control

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

const (
	// resourceVerb begins the action of each row of a resource's change.
	resourceVerb = "resource."

	// Members of the detail of what ends such a row.
	detailID       = "provider_id"
	detailOutputs  = "outputs"
	detailStatus   = "status"
	detailReadBack = "read_back"
)

// ApplyResource brings a resource to what the spec says: it makes what isn't there,
// changes what differs, and leaves what is as wanted. Where another is needed in its
// place it deletes the old one first, and only with replace; else that is
// FailedPrecondition. What the plan has problems with is refused. Each call that
// changes something has its row in the ledger first.
func (e *Engine) ApplyResource(ctx context.Context, req ResourceRequest, replace bool) (ResourceOutcome, error) {
	c, err := e.changing(ctx, req)
	if err != nil {
		return ResourceOutcome{}, err
	}
	plan, now, err := c.plan(ctx)
	if err != nil {
		return ResourceOutcome{}, err
	}
	out := ResourceOutcome{Action: plan.Action}
	if err := c.refusal("apply resource", plan.Problems); err != nil {
		return out, err
	}
	switch plan.Action {
	case ResourceCreate:
		err = c.create(ctx, &out)
	case ResourceUpdate:
		c.id = now.ProviderID
		err = c.update(ctx, &out)
	case ResourceReplace:
		if !replace {
			var paths []string
			for _, ch := range plan.Changes {
				if ch.ForceNew {
					paths = append(paths, ch.Path)
				}
			}
			return out, &sdk.Error{Code: sdk.FailedPrecondition, Op: "apply resource", Provider: c.back.Name, ID: ErrResourceReplace,
				Remedy: "--yes deletes it and makes another",
				Err:    fmt.Errorf("%s differs in %s, which needs another in its place", req.target(), strings.Join(paths, ", "))}
		}
		c.id = now.ProviderID
		if err = c.delete(ctx, &out); err == nil {
			c.id = ""
			err = c.create(context.WithoutCancel(ctx), &out) // nobody who leaves wants neither of both
		}
	}
	return out, err
}

// DeleteResource removes a resource. One that isn't there is left alone, without a row.
func (e *Engine) DeleteResource(ctx context.Context, req ResourceRequest) (ResourceOutcome, error) {
	c, err := e.changing(ctx, req)
	if err != nil {
		return ResourceOutcome{}, err
	}
	plan, err := c.planDelete(ctx)
	if err != nil {
		return ResourceOutcome{}, err
	}
	out := ResourceOutcome{Action: plan.Action}
	if plan.Action == ResourceNothing {
		return out, c.alone(ctx, sdk.ID{})
	}
	if err := c.refusal("delete resource", plan.Problems); err != nil {
		return out, err
	}
	return out, c.delete(ctx, &out)
}

// ScaleResource sets the number of replicas.
func (e *Engine) ScaleResource(ctx context.Context, req ResourceRequest, replicas int) (ResourceOutcome, error) {
	c, err := e.changing(ctx, req)
	if err != nil {
		return ResourceOutcome{}, err
	}
	out := ResourceOutcome{Action: ResourceScale}
	if row := c.row(); row != nil {
		if why := row.Refusal(sdk.VerbScale); why != "" {
			return out, c.refusal("scale resource", []sdk.Problem{{Field: "type", Message: why, Code: sdk.Unimplemented}})
		}
	}
	return out, c.scale(ctx, &out, replicas)
}

// change is one call that changes a resource.
type resourceChange struct {
	action   ResourceAction
	withSpec bool
	replicas *int
	// call makes the call under the ID of its row. A nil output is none.
	call func(ctx context.Context, op sdk.ID) (*sdk.ResourceOutput, error)
}

func (c *resourceCall) create(ctx context.Context, out *ResourceOutcome) error {
	return c.change(ctx, out, resourceChange{action: ResourceCreate, withSpec: true,
		call: func(ctx context.Context, op sdk.ID) (*sdk.ResourceOutput, error) {
			res, err := resourceAsk(ctx, c, "create resource", sdk.CreateResourceRequest{OpID: op, Spec: c.req.Spec}, c.d.CreateResource)
			return &res.Output, err
		}})
}

func (c *resourceCall) update(ctx context.Context, out *ResourceOutcome) error {
	return c.change(ctx, out, resourceChange{action: ResourceUpdate, withSpec: true,
		call: func(ctx context.Context, op sdk.ID) (*sdk.ResourceOutput, error) {
			res, err := resourceAsk(ctx, c, "update resource", sdk.UpdateResourceRequest{OpID: op, Ref: c.ref(), Spec: c.req.Spec}, c.d.UpdateResource)
			return &res.Output, err
		}})
}

func (c *resourceCall) delete(ctx context.Context, out *ResourceOutcome) error {
	return c.change(ctx, out, resourceChange{action: ResourceDelete,
		call: func(ctx context.Context, op sdk.ID) (*sdk.ResourceOutput, error) {
			_, err := resourceAsk(ctx, c, "delete resource", sdk.DeleteResourceRequest{OpID: op, Ref: c.ref()}, c.d.DeleteResource)
			return nil, err
		}})
}

func (c *resourceCall) scale(ctx context.Context, out *ResourceOutcome, replicas int) error {
	return c.change(ctx, out, resourceChange{action: ResourceScale, replicas: &replicas,
		call: func(ctx context.Context, op sdk.ID) (*sdk.ResourceOutput, error) {
			res, err := resourceAsk(ctx, c, "scale resource", sdk.ScaleResourceRequest{OpID: op, Ref: c.ref(), Replicas: replicas}, c.d.ScaleResource)
			return &res.Output, err
		}})
}

// change makes one call that changes the resource: its row first, then the call, then
// the outcome. The end of ctx doesn't cut the call, which goes on to its reply or its own
// time-out: a call that is given up on is carried out all the same, after nobody saw it.
// After a lost reply the resource is read; what that doesn't prove stays open to doubt,
// and is sent again by nobody here.
func (c *resourceCall) change(ctx context.Context, out *ResourceOutcome, ch resourceChange) error {
	spec, err := c.encode(ch.withSpec, ch.replicas)
	if err != nil {
		return err
	}
	asked := c.e.clock.Now()
	act, err := c.e.beginRow(ctx, ledger.Requested{Actor: c.req.Actor, Action: resourceVerb + string(ch.action), Target: c.req.target(),
		Name: c.req.Spec.Name, Spec: spec, SpecHash: sdk.HashCanonical(spec)}, c.back)
	if err != nil {
		return err
	}
	out.Rows = append(out.Rows, act.id)
	if err := c.alone(ctx, act.id); err != nil {
		return act.end(ctx, err, nil)
	}
	if ctx.Err() != nil {
		return act.end(ctx, &sdk.Error{Code: sdk.Canceled, Op: string(ch.action) + " resource", Err: context.Cause(ctx)}, nil)
	}
	res, err := ch.call(context.WithoutCancel(ctx), act.id)
	err = c.fail(err)
	if err != nil && !sdk.IsClear(err) {
		return c.readBack(ctx, act, out, ch, asked, err)
	}
	detail := map[string]string{}
	if err == nil && res != nil {
		masked := c.mask.output(*res)
		out.Output, detail = &masked, outputDetail(masked)
	}
	return act.end(ctx, err, detail)
}

// readBack settles a change whose reply was lost, which was asked for at a time. Where that
// may still come, the row stays open: the next look settles it.
func (c *resourceCall) readBack(ctx context.Context, act action, out *ResourceOutcome, ch resourceChange, asked time.Time, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.settleTime())
	defer cancel()
	p := c.prove(ctx, ch.action, act.id)
	if p.done {
		out.ReadBack = true
		var detail map[string]string
		detail, out.Output = c.proven(p)
		return act.end(ctx, nil, detail)
	}
	doubt := &sdk.Error{Code: sdk.CodeOf(cause), Op: string(ch.action) + " resource", Provider: c.back.Name, ID: ErrResourceUnconfirmed,
		Remedy: "windlass resource diff shows how it is; apply it again then",
		Err:    fmt.Errorf("%s: no reply says whether it was done, and %s: %w", c.req.target(), p.seen, cause)}
	if early := c.early(p, asked); early != nil {
		doubt.RetryAfter = sdk.RetryAfter(early)
		doubt.Remedy = "repeat it in " + wholeSeconds(doubt.RetryAfter).String() + ": what became of this one is looked up first then"
		doubt.Err = fmt.Errorf("%s: no reply says whether it was done, and it may still come: %s: %w", c.req.target(), p.seen, cause)
		return act.leave(ctx, doubt)
	}
	if p.err == nil {
		return act.doubt(ctx, doubt)
	}
	doubt.Remedy = "repeat it when the provider answers: what became of this one is looked up first then"
	doubt.Err = fmt.Errorf("%s: no reply says whether it was done, and it can't be read: %w: %w", c.req.target(), p.err, cause)
	return act.leave(ctx, doubt)
}

// alone refuses a change while an older one of the same resource goes on, which is each
// one that does for a change without a row.
func (c *resourceCall) alone(ctx context.Context, row sdk.ID) error {
	holders, err := c.e.o.Store.Holders(ctx)
	if err != nil {
		return err
	}
	gone := c.e.deadHolders(holders)
	f := ledger.RunFilter{Open: true, Provider: c.back.Name, Target: c.req.target(), OldestFirst: true}
	for run, err := range c.e.o.Store.Runs(ctx, f) {
		switch {
		case err != nil:
			return err
		case run.ID == row:
			return nil
		case !strings.HasPrefix(run.Action, resourceVerb) || gone.free(run):
			continue
		}
		return &sdk.Error{Code: sdk.Aborted, Op: "change resource", Provider: c.back.Name, ID: ErrResourceBusy, Remedy: "try again when it is over",
			Err: fmt.Errorf("%s: %s by %s goes on, row %s", c.req.target(), run.Action, run.Actor, run.ID.Short())}
	}
	return nil
}

// outputDetail is what the ledger keeps of an output, which is masked.
func outputDetail(o sdk.ResourceOutput) map[string]string {
	d := map[string]string{detailID: o.ProviderID, detailStatus: o.Status}
	if len(o.Outputs) > 0 {
		d[detailOutputs] = string(o.Outputs)
	}
	return d
}

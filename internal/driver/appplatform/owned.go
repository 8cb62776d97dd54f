package appplatform

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/internal/cloud/do"
	"github.com/windlass-run/windlass/sdk"
)

const (
	opList   = "list objects"
	opRemove = "remove object"

	typeApp = "app"
)

// ListOwned implements sdk.OwnedLister.
func (p *provider) ListOwned(ctx context.Context, r sdk.ListOwnedRequest) iter.Seq2[sdk.OwnedObject, error] {
	return func(yield func(sdk.OwnedObject, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(sdk.OwnedObject{}, p.fail(sdk.CodeOf(err), opList, err))
			return
		}
		for a, err := range p.apps(ctx, opList) {
			if err != nil {
				yield(sdk.OwnedObject{}, err)
				return
			}
			o, ok := owned(a)
			if ok && (r.Owner == "" || o.Owner == r.Owner) && !yield(o, nil) {
				return
			}
		}
	}
}

// owned makes an object of an app that carries our variables.
func owned(a *godo.App) (sdk.OwnedObject, bool) {
	m, ok := markOf(a)
	if !ok {
		return sdk.OwnedObject{}, false
	}
	o := sdk.OwnedObject{Type: typeApp, ID: a.ID, Name: a.Spec.Name, RunID: m.run, AttemptID: m.attempt, Owner: m.owner, LedgerID: m.ledger,
		CreatedAt: a.CreatedAt.UTC(), Expires: m.expires, State: "ended"}
	for _, d := range []*godo.Deployment{a.ActiveDeployment, a.PendingDeployment, a.InProgressDeployment} {
		if d == nil {
			continue
		}
		o.State = string(d.Phase)
		o.Live = o.Live || !over(d)
		if s := jobStep(d); s != nil {
			o.Started, o.Ended = s.StartedAt.UTC(), s.EndedAt.UTC()
		}
	}
	if job := component(a.Spec); job != nil {
		o.Size.Class = job.InstanceSizeSlug
		if i := slices.IndexFunc(sizes(), func(z size) bool { return z.slug == o.Size.Class }); i >= 0 {
			o.Size.CPU, o.Size.Memory = sizes()[i].cores*1000, sizes()[i].memory*mib
		}
	}
	return o, true
}

// RemoveOwned implements sdk.OwnedLister. A job that runs is stopped with its app's
// deletion.
func (p *provider) RemoveOwned(ctx context.Context, r sdk.RemoveOwnedRequest) (sdk.RemoveOwnedResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.RemoveOwnedResult{}, p.fail(sdk.CodeOf(err), opRemove, err)
	}
	o := r.Object
	if o.Type != typeApp || !uuidForm().MatchString(o.ID) || o.Name != do.AppName(o.AttemptID) {
		return sdk.RemoveOwnedResult{}, p.fail(sdk.InvalidArgument, opRemove, fmt.Errorf("%s %q is no object of ours", o.Type, o.ID))
	}
	a, err := p.app(ctx, opRemove, o.ID)
	switch {
	case notFound(err):
		return sdk.RemoveOwnedResult{}, nil
	case err != nil:
		return sdk.RemoveOwnedResult{}, err
	}
	m, ok := markOf(a)
	if !ok || m.run != o.RunID || m.attempt != o.AttemptID || m.owner != o.Owner || m.ledger != o.LedgerID {
		return sdk.RemoveOwnedResult{}, p.fail(sdk.FailedPrecondition, opRemove, fmt.Errorf("the app %s no longer carries what was listed", o.ID))
	}
	_, err = p.remove(ctx, opRemove, o.ID)
	return sdk.RemoveOwnedResult{}, err
}

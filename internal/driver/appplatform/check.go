package appplatform

import (
	"context"
	"fmt"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/sdk"
)

const opCheck = "check"

// nobody is the ID of no app: no call that names it can change anything.
const nobody = "00000000-0000-0000-0000-000000000000"

// right is a scope that a token needs, and a call that shows its lack and changes
// nothing.
// https://docs.digitalocean.com/reference/api/scopes/
type right struct {
	scope string
	probe func(ctx context.Context) error
}

// Check implements sdk.Provider. It makes a call for each scope that the driver
// needs: a refusal for the scope is told from one for the thing.
func (p *provider) Check(ctx context.Context, _ sdk.CheckRequest) (sdk.CheckResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CheckResult{}, p.fail(sdk.CodeOf(err), opCheck, err)
	}
	var res sdk.CheckResult
	team, err := p.session.WhoAmI(ctx, opCheck)
	switch {
	case sdk.CodeOf(err) == sdk.PermissionDenied:
		res.Items = append(res.Items, lacking("account:read", err))
	case err != nil:
		return res, err
	case team != p.identity.Account:
		return res, p.fail(sdk.FailedPrecondition, opCheck, fmt.Errorf("the token is of the team %s now, and was of %s", team, p.identity.Account))
	default:
		res.Items = append(res.Items, sdk.CheckItem{Name: "account:read", OK: true, Detail: "the token is of the team " + team})
	}
	for _, r := range p.rights() {
		err := p.session.Call(ctx, opCheck, r.probe)
		switch sdk.CodeOf(err) {
		case sdk.PermissionDenied:
			res.Items = append(res.Items, lacking(r.scope, err))
		case 0, sdk.NotFound, sdk.InvalidArgument, sdk.FailedPrecondition, sdk.Aborted:
			res.Items = append(res.Items, sdk.CheckItem{Name: r.scope, OK: true, Detail: "allowed"})
		default:
			return res, err
		}
	}
	return res, nil
}

func lacking(scope string, err error) sdk.CheckItem {
	return sdk.CheckItem{Name: scope, Detail: oneLine(err.Error()), Remedy: "make a token with the scope " + scope + "; docs/drivers/digitalocean.md has the least that is needed"}
}

// rights are the scopes that the driver needs, besides account:read.
func (p *provider) rights() []right {
	apps := p.session.Client.Apps
	return []right{
		{"app:read", func(ctx context.Context) error {
			_, _, err := apps.List(ctx, &godo.ListOptions{Page: 1, PerPage: 1})
			return err
		}},
		{"app:create", func(ctx context.Context) error {
			// An app needs a name of two characters, and a component.
			_, _, err := apps.Create(ctx, &godo.AppCreateRequest{Spec: &godo.AppSpec{Name: "-"}})
			return err
		}},
		{"app:update", func(ctx context.Context) error { return p.postCancel(ctx, nobody, nobody) }},
		{"app:delete", func(ctx context.Context) error {
			_, err := apps.Delete(ctx, nobody)
			return err
		}},
	}
}

package argo

import (
	"context"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

const opCheck = "check"

// rights are all that the driver needs of the Kubernetes API.
func rights() []kube.Right {
	return []kube.Right{
		{Group: "argoproj.io", Resource: "workflows", Verbs: []string{"create", "get", "list", "patch", "delete"}},
		{Resource: "pods", Verbs: []string{"list", "patch"}},
		{Resource: "pods", Sub: "log", Verbs: []string{"get"}},
		{Resource: "secrets", Verbs: []string{"create", "get", "list", "patch", "delete"}},
	}
}

// Check implements sdk.Provider. It asks the API server what it would allow. Argo
// Server can't be asked that, but by a list whether it takes the token.
func (p *provider) Check(ctx context.Context, _ sdk.CheckRequest) (sdk.CheckResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CheckResult{}, p.fail(sdk.CodeOf(err), opCheck, err)
	}
	var res sdk.CheckResult
	if p.server != nil {
		return p.checkServer(ctx)
	}
	for _, r := range rights() {
		for _, verb := range r.Verbs {
			it := sdk.CheckItem{Name: r.Name(verb), Detail: "allowed in the namespace " + p.session.Namespace}
			var why string
			err := p.spend(ctx, opCheck, func() (err error) {
				it.OK, why, err = p.session.May(ctx, opCheck, r, verb)
				return err
			})
			if err != nil {
				return res, err
			}
			if !it.OK {
				it.Detail = oneLine("denied in the namespace " + p.session.Namespace + ": " + why)
				it.Remedy = "allow " + it.Name + " by a Role; docs/drivers/argo.md has one"
			}
			res.Items = append(res.Items, it)
		}
	}
	return res, nil
}

func (p *provider) checkServer(ctx context.Context) (sdk.CheckResult, error) {
	it := sdk.CheckItem{Name: "list workflows.argoproj.io", OK: true, Detail: "Argo Server takes the token, and lists the namespace " + p.session.Namespace}
	_, err := p.client.List(ctx, opCheck, sdk.LabelRun+"=none")
	switch sdk.CodeOf(err) {
	case 0:
	case sdk.PermissionDenied:
		it.OK, it.Detail = false, oneLine(err.Error())
		it.Remedy = "allow " + it.Name + " to the token's service account; docs/drivers/argo.md has a Role"
	default:
		return sdk.CheckResult{}, err
	}
	return sdk.CheckResult{Items: []sdk.CheckItem{it}}, nil
}

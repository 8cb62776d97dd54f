package kubernetes

import (
	"context"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

const opCheck = "check"

// rights are all that the driver needs.
func rights() []kube.Right {
	return []kube.Right{
		{Group: "batch", Resource: "jobs", Verbs: []string{"create", "get", "list", "patch", "delete"}},
		{Resource: "pods", Verbs: []string{"list", "watch", "patch"}},
		{Resource: "pods", Sub: "log", Verbs: []string{"get"}},
		{Resource: "secrets", Verbs: []string{"create", "get", "list", "patch", "delete"}},
		{Group: "networking.k8s.io", Resource: "networkpolicies", Verbs: []string{"create", "get", "list", "patch", "delete"}},
	}
}

// Check implements sdk.Provider. It asks the API server what it would allow.
func (p *provider) Check(ctx context.Context, _ sdk.CheckRequest) (sdk.CheckResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CheckResult{}, p.fail(sdk.CodeOf(err), opCheck, err)
	}
	var res sdk.CheckResult
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
				it.Remedy = "allow " + it.Name + " by a Role; docs/drivers/kubernetes.md has one"
			}
			res.Items = append(res.Items, it)
		}
	}
	return res, nil
}

package kubernetes

import (
	"context"
	"slices"

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

// Check implements sdk.Provider. It looks for the namespace and for what the
// configuration names in it, and asks the API server what it would allow.
func (p *provider) Check(ctx context.Context, _ sdk.CheckRequest) (sdk.CheckResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CheckResult{}, p.fail(sdk.CodeOf(err), opCheck, err)
	}
	c := kube.Checker{Session: p.session, Op: opCheck, Page: "docs/drivers/kubernetes.md", Spend: p.spend}
	namespace, err := c.Namespace(ctx)
	if err != nil {
		return sdk.CheckResult{}, err
	}
	allowed, err := c.Rights(ctx, rights())
	if err != nil {
		return sdk.CheckResult{}, err
	}
	things, err := c.Things(ctx, p.cfg.Things(p.session.Namespace))
	if err != nil {
		return sdk.CheckResult{}, err
	}
	return sdk.CheckResult{Items: slices.Concat([]sdk.CheckItem{namespace}, allowed, things)}, nil
}

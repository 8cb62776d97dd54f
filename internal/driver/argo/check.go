package argo

import (
	"context"
	"errors"
	"slices"

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

// Check implements sdk.Provider. It looks for the namespace, for Argo and for what
// the configuration names, and asks the API server what it would allow. Argo Server
// can't be asked that, but by a list whether it takes the token.
func (p *provider) Check(ctx context.Context, _ sdk.CheckRequest) (sdk.CheckResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CheckResult{}, p.fail(sdk.CodeOf(err), opCheck, err)
	}
	if p.server != nil {
		return p.checkServer(ctx)
	}
	c := kube.Checker{Session: p.session, Op: opCheck, Page: "docs/drivers/argo.md", Spend: p.spend}
	namespace, err := c.Namespace(ctx)
	if err != nil {
		return sdk.CheckResult{}, err
	}
	if err := p.checkInstalled(ctx); err != nil {
		return sdk.CheckResult{}, err
	}
	allowed, err := c.Rights(ctx, rights())
	if err != nil {
		return sdk.CheckResult{}, err
	}
	needed := p.cfg.Things(p.session.Namespace)
	if name := p.cfg.ExecutorAccount; name != "" {
		needed = append(needed, kube.Thing{At: kube.Accounts(p.session.Namespace, name), Field: "executor_service_account"})
	}
	things, err := c.Things(ctx, needed)
	if err != nil {
		return sdk.CheckResult{}, err
	}
	return sdk.CheckResult{Items: slices.Concat([]sdk.CheckItem{namespace}, allowed, things)}, nil
}

// checkInstalled finds a cluster out that doesn't know Workflows: rules may allow
// them all the same.
func (p *provider) checkInstalled(ctx context.Context) error {
	_, err := p.client.List(ctx, opCheck, sdk.LabelRun+"=none")
	switch sdk.CodeOf(err) {
	case sdk.PermissionDenied:
		return nil // the rights tell
	case sdk.NotFound:
		e := p.fail(sdk.FailedPrecondition, opCheck, errors.New("the cluster doesn't know workflows.argoproj.io: Argo isn't installed there"))
		e.Remedy = "install Argo Workflows (https://argo-workflows.readthedocs.io/en/latest/installation/), or set context in the provider's config to a cluster that has it"
		return e
	}
	return err
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
	// It lists a namespace that isn't there, too.
	namespace := sdk.CheckItem{Name: "namespace " + p.session.Namespace, OK: true,
		Detail: "may be there or not: Argo Server can't be asked, so it would be missed when a job is sent"}
	return sdk.CheckResult{Items: []sdk.CheckItem{it, namespace}}, nil
}

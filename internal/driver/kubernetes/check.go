package kubernetes

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/cloud/kube"
	"github.com/windlass-run/windlass/sdk"
)

const opCheck = "check"

// right is something that the driver must be allowed to do in the namespace.
type right struct {
	group, resource, sub string
	verbs                []string
}

// rights are all that the driver needs.
func rights() []right {
	return []right{
		{"batch", "jobs", "", []string{"create", "get", "list", "patch", "delete"}},
		{"", "pods", "", []string{"list", "watch", "patch"}},
		{"", "pods", "log", []string{"get"}},
		{"", "secrets", "", []string{"create", "get", "list", "patch", "delete"}},
		{"networking.k8s.io", "networkpolicies", "", []string{"create", "get", "list", "patch", "delete"}},
	}
}

func (r right) name(verb string) string {
	s := verb + " " + r.resource
	if r.sub != "" {
		s += "/" + r.sub
	}
	if r.group != "" {
		s += "." + r.group
	}
	return s
}

// Check implements sdk.Provider. It asks the API server what it would allow, which
// anybody may.
// https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access
func (p *provider) Check(ctx context.Context, _ sdk.CheckRequest) (sdk.CheckResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.CheckResult{}, p.fail(sdk.CodeOf(err), opCheck, err)
	}
	var res sdk.CheckResult
	for _, r := range rights() {
		for _, verb := range r.verbs {
			review := &authorizationv1.SelfSubjectAccessReview{
				TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: p.session.Namespace, Verb: verb, Group: r.group, Resource: r.resource, Subresource: r.sub}},
			}
			var out authorizationv1.SelfSubjectAccessReview
			if err := p.spend(ctx, opCheck, func() error { return p.session.Create(ctx, opCheck, kube.Reviews(), review, &out) }); err != nil {
				return res, err
			}
			it := sdk.CheckItem{Name: r.name(verb), OK: out.Status.Allowed, Detail: "allowed in the namespace " + p.session.Namespace}
			if !it.OK {
				it.Detail = oneLine("denied in the namespace " + p.session.Namespace + ": " + out.Status.Reason)
				it.Remedy = "allow " + it.Name + " by a Role; docs/drivers/kubernetes.md has one"
			}
			res.Items = append(res.Items, it)
		}
	}
	return res, nil
}

package kube

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Right is something that one must be allowed to do in a namespace.
type Right struct {
	Group, Resource, Sub string
	Verbs                []string
}

// Name is the right to a verb in one line: "create jobs.batch", "get pods/log".
func (r Right) Name(verb string) string {
	s := verb + " " + r.Resource
	if r.Sub != "" {
		s += "/" + r.Sub
	}
	if r.Group != "" {
		s += "." + r.Group
	}
	return s
}

// May asks the API server whether it would allow a verb of a right in the session's
// namespace, which anybody may ask. Why has its words, if any.
// https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access
func (x *Session) May(ctx context.Context, op string, r Right, verb string) (ok bool, why string, err error) {
	review := &authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: x.Namespace, Verb: verb, Group: r.Group, Resource: r.Resource, Subresource: r.Sub}},
	}
	var out authorizationv1.SelfSubjectAccessReview
	if err := x.Create(ctx, op, Reviews(), review, &out); err != nil {
		return false, "", err
	}
	return out.Status.Allowed, out.Status.Reason, nil
}

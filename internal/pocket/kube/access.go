package kube

import (
	"crypto/subtle"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reader is the user of [Access.Read].
const Reader = "reader"

// Access says which tokens are taken. The zero value takes any, and none.
type Access struct {
	// Token may do all.
	Token string
	// Read may only look; empty is nobody's.
	Read string
}

// Right is what a caller may do.
type Right int

// Rights.
const (
	// None is for a token that isn't known.
	None Right = iota
	// Look is to read, watch and ask what one may do.
	Look
	// All is everything.
	All
)

// Of is the right of a request, by its bearer token.
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#putting-a-bearer-token-in-a-request
func (a Access) Of(r *http.Request) Right {
	if a == (Access{}) {
		return All
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	is := func(want string) bool {
		return want != "" && subtle.ConstantTimeCompare([]byte(token), []byte(want)) == 1
	}
	switch {
	case ok && is(a.Token):
		return All
	case ok && is(a.Read):
		return Look
	}
	return None
}

// reads reports whether a verb changes nothing.
func reads(verb string) bool {
	switch verb {
	case "get", "list", "watch", "log":
		return true
	}
	return false
}

// permit refuses a call that its caller may not make: without a known token in the
// words of an API server that takes no anonymous ones, and without the right in those
// of its authorizer.
// https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/apiserver/pkg/endpoints/filters/authentication.go
// https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go
func (s *Server) permit(c call) error {
	switch right := s.access(c.request); {
	case right == None:
		return refuse(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
	case right == All || reads(c.verb) || c.resource == "selfsubjectaccessreviews":
		return nil
	}
	group, _, named := strings.Cut(c.res.group, "/")
	resource := c.resource
	if named {
		resource += "." + group
	} else {
		group = ""
	}
	name := ""
	if c.name != "" {
		name = ` "` + c.name + `"`
	}
	return refuse(http.StatusForbidden, metav1.StatusReasonForbidden, "%s%s is forbidden: User %q cannot %s resource %q in API group %q in the namespace %q",
		resource, name, Reader, c.verb, c.resource, group, Namespace)
}

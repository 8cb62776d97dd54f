package kube

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/sdk"
)

// Checker asks an API server what a driver's Check tells. It changes nothing.
type Checker struct {
	Session *Session
	// Op is what its errors are of.
	Op string
	// Page is the document that has a Role with the rights.
	Page string
	// Spend makes a call when the budget allows.
	Spend func(ctx context.Context, op string, call func() error) error
}

// Thing is an object that jobs need and that the configuration names.
type Thing struct {
	At Place
	// Field is the key that names it.
	Field string
}

// unseen is said of what the caller may not look at.
const unseen = "may be there or not: reading it is denied, so it would be missed when a job is sent"

// Namespace tells whether the session's namespace is there and takes objects. An
// access review doesn't: its answer is that of the rules, which may well allow what
// is asked in a namespace that isn't there. One that isn't is an error of NotFound,
// one that is being deleted of FailedPrecondition; where the caller may not look, the
// item says that it isn't known.
//
// A Role within the namespace can give the right: the address of a namespace counts
// as one within it.
// https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/apiserver/pkg/endpoints/request/requestinfo.go
func (c Checker) Namespace(ctx context.Context) (sdk.CheckItem, error) {
	name := c.Session.Namespace
	it := sdk.CheckItem{Name: "namespace " + name, OK: true, Detail: "is there"}
	meta, err := c.read(ctx, Namespaces(name))
	switch {
	case sdk.CodeOf(err) == sdk.PermissionDenied:
		it.Detail = unseen + "; a Role with get of namespaces allows it"
	case sdk.CodeOf(err) == sdk.NotFound:
		return it, &sdk.Error{Code: sdk.NotFound, Op: c.Op, Provider: c.Session.provider, Field: "config.namespace", Err: fmt.Errorf("the cluster has no namespace %q", name),
			Remedy: "create it (`kubectl create namespace " + name + "`), or set namespace in the provider's config to one that is there"}
	case err != nil:
		return it, err
	case meta.DeletionTimestamp != nil:
		return it, &sdk.Error{Code: sdk.FailedPrecondition, Op: c.Op, Provider: c.Session.provider, Field: "config.namespace", Err: fmt.Errorf("the namespace %q is being deleted, and takes no jobs", name),
			Remedy: "create it again once it is gone, or set namespace in the provider's config to another one"}
	}
	return it, nil
}

// Things tells of each whether it is there. Without it the cluster makes no pod, and
// says so in an event alone.
func (c Checker) Things(ctx context.Context, things []Thing) ([]sdk.CheckItem, error) {
	var out []sdk.CheckItem
	for _, t := range things {
		it := sdk.CheckItem{Name: strings.ReplaceAll(t.Field, "_", " ") + " " + t.At.Name, OK: true, Detail: "is there"}
		_, err := c.read(ctx, t.At)
		switch sdk.CodeOf(err) {
		case 0:
		case sdk.PermissionDenied:
			it.Detail = unseen
		case sdk.NotFound:
			it.OK, it.Detail = false, t.where()
			it.Remedy = "create it, or name another one as " + t.Field + " in the provider's config"
		default:
			return out, err
		}
		out = append(out, it)
	}
	return out, nil
}

func (t Thing) where() string {
	if t.At.Namespace == "" {
		return "the cluster has none of that name"
	}
	return "the namespace " + t.At.Namespace + " has none of that name"
}

func (c Checker) read(ctx context.Context, at Place) (metav1.ObjectMeta, error) {
	var o metav1.PartialObjectMetadata
	err := c.Spend(ctx, c.Op, func() error { return c.Session.Get(ctx, c.Op, at.Metadata(), nil, &o) })
	return o.ObjectMeta, err
}

// Rights asks of each whether it would be allowed.
func (c Checker) Rights(ctx context.Context, rights []Right) ([]sdk.CheckItem, error) {
	var out []sdk.CheckItem
	for _, r := range rights {
		for _, verb := range r.Verbs {
			it := sdk.CheckItem{Name: r.Name(verb), Detail: "allowed in the namespace " + c.Session.Namespace}
			var why string
			err := c.Spend(ctx, c.Op, func() (err error) {
				it.OK, why, err = c.Session.May(ctx, c.Op, r, verb)
				return err
			})
			if err != nil {
				return out, err
			}
			if !it.OK {
				it.Detail = "denied in the namespace " + c.Session.Namespace
				if why = strings.Join(strings.Fields(why), " "); why != "" {
					it.Detail += ": " + why
				}
				it.Remedy = "allow " + it.Name + " by a Role; " + c.Page + " has one"
			}
			out = append(out, it)
		}
	}
	return out, nil
}

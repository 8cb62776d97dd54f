package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"

	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/cloud/azure"
	"github.com/windlass-run/windlass/sdk"
)

// settings are those of a workload in the store, by name; nil where there is no
// store.
type settings map[string]azure.ConfigValue

// has reports whether nothing is to be written.
func (s settings) has(set map[string]string, unset []string) bool {
	if s == nil {
		return true
	}
	for k, v := range set {
		if old, ok := s[k]; !ok || old.Value != v {
			return false
		}
	}
	return !slices.ContainsFunc(unset, func(k string) bool { _, ok := s[k]; return ok })
}

// label is that of a workload's settings in the store.
func label(w at) string { return string(w.path()) }

// stored reads a workload's settings in the store.
func (o *Operator) stored(ctx context.Context, op string, w at) (settings, error) {
	if o.AppConfiguration == "" {
		return nil, nil
	}
	s, err := o.Session.ConfigStore(o.AppConfiguration)
	if err != nil {
		return nil, err
	}
	return s.List(ctx, op, label(w))
}

// store writes settings into the store, each where it is still as it was read. Undo
// takes that back after a deployment that was refused: given its error it returns
// what is to be said, which proves nothing any more where something was left.
func (o *Operator) store(ctx context.Context, op string, w at, set map[string]string, unset []string) (undo func(error) error, _ error) {
	nothing := func(err error) error { return err }
	if o.AppConfiguration == "" || len(set)+len(unset) == 0 {
		return nothing, nil
	}
	s, err := o.Session.ConfigStore(o.AppConfiguration)
	if err != nil {
		return nil, err
	}
	before, err := s.List(ctx, op, label(w))
	if err != nil {
		return nil, err
	}
	// Each is how one setting is put back.
	var back []func(ctx context.Context) error
	undo = func(err error) error {
		if !sdk.IsClear(err) {
			return err // the deployment may go on with them
		}
		ctx := context.WithoutCancel(ctx)
		var left error
		for _, f := range back {
			left = errors.Join(left, f(ctx))
		}
		if left == nil {
			return err
		}
		e := o.fail(sdk.Unknown, op, fmt.Errorf("the store %s of App Configuration has new settings, and the group hasn't: %w", o.AppConfiguration, errors.Join(err, left)))
		e.Remedy = "repeat the command once the group can be deployed; `windlass svc status` tells what differs"
		return e
	}
	for _, k := range sortedKeys(set) {
		old, there := before[k]
		if there && old.Value == set[k] {
			continue
		}
		etag, err := s.Set(ctx, op, label(w), k, set[k], old.ETag)
		if err != nil {
			return nil, undo(changed(err, k))
		}
		back = append(back, func(ctx context.Context) error {
			if !there {
				return s.Delete(ctx, op, label(w), k, etag)
			}
			_, err := s.Set(ctx, op, label(w), k, old.Value, etag)
			return err
		})
	}
	for _, k := range unset {
		old, there := before[k]
		if !there {
			continue
		}
		if err := s.Delete(ctx, op, label(w), k, old.ETag); err != nil {
			return nil, undo(changed(err, k))
		}
		back = append(back, func(ctx context.Context) error {
			_, err := s.Set(ctx, op, label(w), k, old.Value, "")
			return err
		})
	}
	return undo, nil
}

// changed says which setting somebody else has changed meanwhile.
func changed(err error, name string) error {
	var e *sdk.Error
	if errors.As(err, &e) && e.Code == sdk.Aborted {
		e.Field, e.Remedy = "config."+name, "somebody has changed it meanwhile: look, and repeat the command"
	}
	return err
}

// storeCalls are the planned calls to the store.
func (o *Operator) storeCalls(w at, set map[string]string, unset []string) []sdk.PlannedCall {
	if o.AppConfiguration == "" || len(set)+len(unset) == 0 {
		return nil
	}
	args := map[string]string{}
	for k := range set {
		args[k] = "(redacted)"
	}
	for _, k := range unset {
		args[k] = "(removed)"
	}
	return []sdk.PlannedCall{{Name: "Microsoft.AppConfiguration/configurationStores/keyValues/write", Object: "label " + label(w) + " of the store " + o.AppConfiguration, Args: args}}
}

// drift are the names of settings whose values in the store aren't those that the
// group was deployed with.
func (o *Operator) drift(ctx context.Context, w at, g *arm.ContainerGroup) ([]string, error) {
	stored, err := o.stored(ctx, opStatus, w)
	if err != nil {
		return nil, err
	}
	has := map[string]string{}
	for _, v := range containersOf(g)[0].Properties.EnvironmentVariables {
		if v != nil && !secure(v) {
			has[deref(v.Name)] = *v.Value
		}
	}
	var out []string
	for _, k := range sortedKeys(stored) {
		if v, ok := has[k]; !ok || v != stored[k].Value {
			out = append(out, k)
		}
	}
	return out, nil
}

package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/sdk"
)

// ApplyConfig implements sdk.Configurer. Settings are variables of the group's first
// container, which nothing changes while it runs: the group is deployed again as it
// is, with other ones. With a store of App Configuration they are written there
// first. Naming a secret is always a change: whether its value is another can't be
// seen.
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-update
func (o *Operator) ApplyConfig(ctx context.Context, r sdk.ApplyConfigRequest) (sdk.ApplyConfigResult, error) {
	w, g, err := o.open(ctx, opConfig, r.Op.Path)
	if err != nil {
		return sdk.ApplyConfigResult{}, err
	}
	if ps := append(sdk.ValidateConfig(r.Set, r.Secrets, r.Unset), o.checkConfig(r)...); len(ps) > 0 {
		return sdk.ApplyConfigResult{}, o.refuse(opConfig, ps)
	}
	v := viewOf(g)
	first := v.containers[0].Properties
	known := func(name string) sdk.SecretRef { return refOf(g, name) }
	if m, ok := markOf(g); ok && m.id == r.Op.OpID {
		return sdk.ApplyConfigResult{Op: sdk.OpResult{Changed: true, Generation: generationOf(g), Trace: traceWords(w)}, Revision: revision(first, known)}, nil
	}
	if err := r.Op.Expect.Check(opConfig, o.status(w, v)); err != nil {
		return sdk.ApplyConfigResult{}, err
	}
	stored, err := o.stored(ctx, opConfig, w)
	if err != nil {
		return sdk.ApplyConfigResult{}, err
	}
	next, err := o.configured(g, r)
	if err != nil {
		return sdk.ApplyConfigResult{}, err
	}
	after := containersOf(next)[0].Properties
	out := sdk.ApplyConfigResult{Revision: revision(after, func(name string) sdk.SecretRef { return refOf(next, name) })}
	if len(r.Secrets) == 0 && out.Revision == revision(first, known) && stored.has(r.Set, r.Unset) {
		out.Op.Generation = generationOf(g)
		return out, nil
	}
	if err := o.deployable(v, next, r); err != nil {
		return sdk.ApplyConfigResult{}, err
	}
	m := newMark(r.Op.OpID, verbConfig, o.Clock.Now(), &v)
	next.Tags[tagOp] = to.Ptr(m.String())
	out.Op = sdk.OpResult{Changed: true, Warnings: addressWarning(v)}
	if r.Op.DryRun {
		args := map[string]string{"tags." + tagOp: m.String()}
		for _, name := range slices.Concat(sortedKeys(r.Set), sortedKeys(r.Secrets)) {
			args["environmentVariables."+name] = "(redacted)"
		}
		for _, name := range r.Unset {
			args["environmentVariables."+name] = "(removed)"
		}
		out.Op.Calls = append(o.storeCalls(w, r.Set, r.Unset), sdk.PlannedCall{Name: callWrite, Object: "container group " + string(w.path()), Args: args})
		return out, nil
	}
	if err := o.seal(ctx, opConfig, after, secretsOf(next)); err != nil {
		return sdk.ApplyConfigResult{}, err
	}
	if err := o.sealPasswords(ctx, opConfig, next, o.Password); err != nil {
		return sdk.ApplyConfigResult{}, err
	}
	undo, err := o.store(ctx, opConfig, w, r.Set, r.Unset)
	if err != nil {
		return sdk.ApplyConfigResult{}, err
	}
	if err := o.put(ctx, opConfig, w, next); err != nil {
		return sdk.ApplyConfigResult{}, undo(err)
	}
	out.Op.Trace = traceWords(w)
	return out, nil
}

// checkConfig returns what Container Instances can't take of a change.
func (o *Operator) checkConfig(r sdk.ApplyConfigRequest) []sdk.Problem {
	ps := o.checkSecrets(r.Secrets)
	for _, k := range sortedKeys(r.Set) {
		if msg := checkVariable(k, r.Set[k]); msg != "" {
			ps = append(ps, sdk.Problem{Field: "config", Value: k, Message: msg, Code: sdk.Unimplemented})
		}
	}
	return ps
}

// configured is a group as it is to be deployed with other settings, without the
// values of secrets.
func (o *Operator) configured(g *arm.ContainerGroup, r sdk.ApplyConfigRequest) (*arm.ContainerGroup, error) {
	data, err := json.Marshal(g)
	if err != nil {
		return nil, o.fail(sdk.Internal, opConfig, err)
	}
	next := new(arm.ContainerGroup)
	if err := json.Unmarshal(data, next); err != nil {
		return nil, o.fail(sdk.Internal, opConfig, err)
	}
	// What a read has and a write hasn't.
	next.ID, next.Name, next.Type = nil, nil, nil
	p := next.Properties
	p.InstanceView, p.ProvisioningState = nil, nil
	if p.IPAddress != nil {
		p.IPAddress.IP, p.IPAddress.Fqdn = nil, nil
	}
	if next.Identity != nil {
		next.Identity.PrincipalID, next.Identity.TenantID = nil, nil
		for id := range next.Identity.UserAssignedIdentities {
			next.Identity.UserAssignedIdentities[id] = &arm.UserAssignedIdentities{}
		}
	}
	for _, c := range containersOf(next) {
		c.Properties.InstanceView = nil
	}
	for _, c := range p.InitContainers {
		if c != nil && c.Properties != nil {
			c.Properties.InstanceView = nil
		}
	}
	if next.Tags == nil {
		next.Tags = map[string]*string{}
	}
	first := containersOf(next)[0].Properties
	first.EnvironmentVariables = slices.DeleteFunc(first.EnvironmentVariables, func(v *arm.EnvironmentVariable) bool {
		return v == nil || slices.Contains(r.Unset, deref(v.Name))
	})
	for _, k := range sortedKeys(r.Set) {
		first.EnvironmentVariables = setVariable(first.EnvironmentVariables, &arm.EnvironmentVariable{Name: to.Ptr(k), Value: to.Ptr(r.Set[k])})
	}
	for _, k := range sortedKeys(r.Secrets) {
		first.EnvironmentVariables = setVariable(first.EnvironmentVariables, &arm.EnvironmentVariable{Name: to.Ptr(k)})
	}
	noteSecrets(next.Tags, r.Secrets, append(sortedKeys(r.Set), r.Unset...))
	return next, nil
}

// secretsOf are the references of a group's secure variables.
func secretsOf(g *arm.ContainerGroup) map[string]sdk.SecretRef {
	out := map[string]sdk.SecretRef{}
	for _, v := range containersOf(g)[0].Properties.EnvironmentVariables {
		if secure(v) {
			out[deref(v.Name)] = refOf(g, deref(v.Name))
		}
	}
	return out
}

// deployable refuses a group that can't be deployed again as it is: Azure shows none
// of its secrets, and not all of them have a reference that is known.
func (o *Operator) deployable(v view, next *arm.ContainerGroup, r sdk.ApplyConfigRequest) error {
	if v.deploying() {
		return o.busy(opConfig)
	}
	fail := func(remedy, format string, args ...any) error {
		e := o.fail(sdk.FailedPrecondition, opConfig, fmt.Errorf(format, args...))
		e.Remedy = remedy
		return e
	}
	if v.stopped() {
		return fail("`windlass svc start` it first", "it is stopped, and a deployment with other settings would start it")
	}
	const again = "deploy the group again by what made it, with the settings changed there"
	for _, name := range sortedKeys(secretsOf(next)) {
		if _, ok := r.Secrets[name]; !ok && refOf(next, name) == "" {
			return fail("name it, too: `windlass svc config TARGET --secret "+name+"=secret://...`", "the variable %s is secure: Azure doesn't show its value, and the group has no reference to it", name)
		}
	}
	for _, reg := range next.Properties.ImageRegistryCredentials {
		if reg != nil && deref(reg.Username) != "" && o.Password(deref(reg.Server)) == "" {
			return fail("give the password's reference under registries: of the provider's config", "Azure doesn't show the password for the registry %s, and the provider has none", deref(reg.Server))
		}
	}
	var hidden []string
	note := func(what string, found bool) {
		if found {
			hidden = append(hidden, what)
		}
	}
	for _, c := range containersOf(next)[1:] {
		note("secure variables of the container "+*c.Name, slices.ContainsFunc(c.Properties.EnvironmentVariables, secure))
	}
	for _, c := range next.Properties.InitContainers {
		note("secure variables of an init container", c != nil && c.Properties != nil && slices.ContainsFunc(c.Properties.EnvironmentVariables, secure))
	}
	for _, vol := range next.Properties.Volumes {
		if vol != nil {
			note("the volume "+deref(vol.Name), vol.AzureFile != nil || vol.Secret != nil)
		}
	}
	note("the key of its log workspace", next.Properties.Diagnostics != nil && next.Properties.Diagnostics.LogAnalytics != nil)
	note("extensions", len(next.Properties.Extensions) > 0)
	if len(hidden) > 0 {
		return fail(again, "the group can't be deployed again from what Azure shows of it: %s have secrets", strings.Join(hidden, ", "))
	}
	if v.ended() {
		return fail("`windlass svc start` it first", "its containers have ended by themselves, and a deployment with other settings would start them")
	}
	return nil
}

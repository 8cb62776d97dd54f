package aci

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/cloud/azure"
	"github.com/windlass-run/windlass/internal/driver/launch"
	"github.com/windlass-run/windlass/sdk"
)

const opPrepare = "prepare job"

// plan is a launch in the making.
type plan struct {
	launch.Draft
	p     *provider
	place placement
	read  map[string]string
}

// PrepareJob implements sdk.JobRunner. It makes no call to Azure; the image's
// registry is asked where the image's own entrypoint has to be known.
func (p *provider) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	if err := ctx.Err(); err != nil {
		return sdk.Launch{}, p.fail(sdk.CodeOf(err), opPrepare, err)
	}
	l := launch.For(r, sdk.SubmitBySearch, p.identity, p.owner, p.ledgerID)
	w := &plan{Draft: launch.New(r.Spec, support()), p: p}
	var o options
	w.Options(optionsSchema(), &o)
	w.place = p.cfg.placement.with(o.placement)
	w.Within("options", w.place.problems())
	w.refuseFields()
	group := w.group(r)
	w.missing(ctx)
	// The registry is asked last: nothing else depends on its answer, and what is
	// wrong already is told also where it can't be reached.
	if err := w.command(ctx, group.Properties.Containers[0].Properties); err != nil && len(w.Problems) == 0 {
		return l, err
	}
	l.Problems, l.Fitted, l.Warnings, l.Read = w.Problems, w.Fitted, w.Warnings, w.read
	if len(l.Problems) > 0 {
		return l, nil
	}
	l.Names = map[string]string{"container group": groupID(r.AttemptID)}
	req := request{Group: group, Passwords: map[string]sdk.SecretRef{}}
	for _, reg := range w.place.Registries {
		if reg.Identity == "" {
			req.Passwords[reg.Server] = reg.Password
		}
	}
	var err error
	if l.Request, err = req.encode(); err != nil {
		return l, p.fail(sdk.Internal, opPrepare, err)
	}
	return l, nil
}

// refuseFields refuses what Container Instances has no place for.
func (l *plan) refuseFields() {
	l.Image("Container Instances")
	l.Permissive("Container Instances")
}

// group is the container group, without its command and without the values of
// secrets. It never restarts what has ended.
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-restart-policy
func (l *plan) group(r sdk.PrepareJobRequest) *arm.ContainerGroup {
	g := l.place.group(l.p.cfg.Location)
	g.Properties.Containers = []*arm.Container{{Name: to.Ptr(container), Properties: l.container()}}
	g.Properties.RestartPolicy = to.Ptr(arm.ContainerGroupRestartPolicyNever)
	g.Tags = l.tags(r)
	return g
}

// group is a container group of a placement, without its containers and tags.
func (p placement) group(location string) *arm.ContainerGroup {
	props := &arm.ContainerGroupPropertiesProperties{OSType: to.Ptr(arm.OperatingSystemTypesLinux), SKU: to.Ptr(arm.ContainerGroupSKUStandard)}
	if p.Subnet != "" {
		props.SubnetIDs = []*arm.ContainerGroupSubnetID{{ID: to.Ptr(p.Subnet)}}
	}
	if p.Priority == prioritySpot {
		props.Priority = to.Ptr(arm.ContainerGroupPrioritySpot)
	}
	for _, reg := range p.Registries {
		c := &arm.ImageRegistryCredential{Server: to.Ptr(reg.Server)}
		if reg.Identity != "" {
			c.Identity = to.Ptr(reg.Identity)
		} else {
			c.Username = to.Ptr(reg.Username)
		}
		props.ImageRegistryCredentials = append(props.ImageRegistryCredentials, c)
	}
	g := &arm.ContainerGroup{Location: to.Ptr(location), Properties: props, Identity: identityOf(p)}
	if p.Zone != "" {
		g.Zones = []*string{to.Ptr(p.Zone)}
	}
	return g
}

// identityOf is the group's identity, nil for none.
func identityOf(place placement) *arm.ContainerGroupIdentity {
	kind := arm.ResourceIdentityType("")
	switch {
	case place.System && len(place.Identities) > 0:
		kind = arm.ResourceIdentityTypeSystemAssignedUserAssigned
	case place.System:
		kind = arm.ResourceIdentityTypeSystemAssigned
	case len(place.Identities) > 0:
		kind = arm.ResourceIdentityTypeUserAssigned
	default:
		return nil
	}
	out := &arm.ContainerGroupIdentity{Type: to.Ptr(kind)}
	for _, id := range place.Identities {
		if out.UserAssignedIdentities == nil {
			out.UserAssignedIdentities = map[string]*arm.UserAssignedIdentities{}
		}
		out.UserAssignedIdentities[id] = &arm.UserAssignedIdentities{}
	}
	return out
}

// container says what runs, but for its command.
func (l *plan) container() *arm.ContainerProperties {
	s := l.Spec
	c := &arm.ContainerProperties{Image: to.Ptr(s.Image)}
	l.variables(c)
	l.checkSecrets()
	if s.CPU < 0 || s.Memory < 0 {
		return c // sdk.ValidateSpec has said so
	}
	cores, gigabytes := fitSize(s.CPU, s.Memory, func(field, message string) { l.Wrong(field, "%s", message) })
	if s.CPU == 0 {
		l.Fit("cpu", number(cores), "the least that a container group has")
	}
	if s.Memory == 0 {
		l.Fit("memory", sdk.MemoryText(defaultMemory), "what Azure's own command line asks for")
	}
	c.Resources = &arm.ResourceRequirements{Requests: &arm.ResourceRequests{CPU: to.Ptr(cores), MemoryInGB: to.Ptr(gigabytes)}}
	return c
}

// variableForm is what a variable's name may be.
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-environment-variables
var variableForm = form(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (l *plan) variables(c *arm.ContainerProperties) {
	for _, k := range sortedKeys(l.Spec.Env) {
		v := l.Spec.Env[k]
		switch {
		case !variableForm().MatchString(k):
			l.Bad(sdk.Unimplemented, "env."+k, "", "Container Instances takes names of letters, digits and _ that don't begin with a digit")
		case !utf8.ValidString(v):
			l.Bad(sdk.Unimplemented, "env."+k, "", "is not UTF-8, and Container Instances takes text alone")
		}
		c.EnvironmentVariables = append(c.EnvironmentVariables, &arm.EnvironmentVariable{Name: to.Ptr(k), Value: to.Ptr(v)})
	}
}

// tags are ours, the user's and the config's. Names of tags are the same in any
// case.
func (l *plan) tags(r sdk.PrepareJobRequest) map[string]*string {
	tags := map[string]string{
		sdk.LabelRun: r.RunID.String(), sdk.LabelAttempt: r.AttemptID.String(), sdk.LabelNumber: fmt.Sprint(r.Attempt),
		sdk.LabelOwner: azure.TagValue(l.p.owner), sdk.LabelLedger: azure.TagValue(l.p.ledgerID), sdk.LabelExpires: itoa(r.Expires.Unix()),
	}
	if l.Spec.Name != "" {
		tags[tagName] = azure.TagValue(l.Spec.Name)
	}
	seen := map[string]string{}
	for k, v := range l.place.Tags {
		tags[k], seen[strings.ToLower(k)] = v, k
	}
	for _, k := range sortedKeys(l.Spec.Labels) {
		if msg := azure.CheckTag(k, l.Spec.Labels[k]); msg != "" {
			l.Bad(sdk.InvalidArgument, "labels", k, "%s", msg)
			continue
		}
		if other, ok := seen[strings.ToLower(k)]; ok && other != k {
			l.Bad(sdk.InvalidArgument, "labels", k, "Azure takes it for the same tag as %q", other)
			continue
		}
		tags[k], seen[strings.ToLower(k)] = l.Spec.Labels[k], k
	}
	if len(tags) > azure.MaxTags {
		l.Bad(sdk.InvalidArgument, "labels", fmt.Sprint(len(l.Spec.Labels)), "a container group has at most %d tags, ours and the provider's among them; these would be %d", azure.MaxTags, len(tags))
	}
	out := map[string]*string{}
	for k, v := range tags {
		out[k] = to.Ptr(v)
	}
	return out
}

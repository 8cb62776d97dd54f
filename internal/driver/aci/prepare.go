package aci

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/cloud/azure"
	"github.com/windlass-run/windlass/sdk"
)

const opPrepare = "prepare job"

// plan is a launch in the making.
type plan struct {
	p        *provider
	spec     sdk.JobSpec
	place    placement
	read     map[string]string
	problems []sdk.Problem
	fitted   []sdk.Fitted
	warnings []string
}

func (l *plan) bad(code sdk.Code, field, value, format string, args ...any) {
	l.problems = append(l.problems, sdk.Problem{Field: field, Value: value, Message: fmt.Sprintf(format, args...), Code: code})
}

func (l *plan) fit(field, value, why string) {
	l.fitted = append(l.fitted, sdk.Fitted{Field: field, Value: value, Why: why})
}

// PrepareJob implements sdk.JobRunner. It makes no call to Azure; the image's
// registry is asked where the image's own entrypoint has to be known.
func (p *provider) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	if err := ctx.Err(); err != nil {
		return sdk.Launch{}, p.fail(sdk.CodeOf(err), opPrepare, err)
	}
	l := sdk.Launch{V: sdk.LaunchVersion, Kind: Kind, Identity: p.identity, RunID: r.RunID, AttemptID: r.AttemptID, Attempt: r.Attempt,
		Owner: p.owner, LedgerID: p.ledgerID, Secrets: r.Spec.Secrets, Stdin: r.Spec.Stdin, Expires: r.Expires,
		Resubmit: sdk.ResubmitRule{By: sdk.SubmitBySearch}}
	w := &plan{p: p, spec: r.Spec, problems: sdk.ValidateSpec(r.Spec)}
	var o options
	if ps := optionsSchema().Validate("options", r.Spec.Options); len(ps) > 0 {
		w.problems = append(w.problems, ps...)
	} else {
		var err error
		if o, err = decodeOptions(r.Spec.Options); err != nil {
			return l, p.fail(sdk.InvalidArgument, opPrepare, err)
		}
	}
	w.place = p.cfg.placement.with(o.placement)
	for _, problem := range w.place.problems() {
		problem.Field = "options." + problem.Field
		w.problems = append(w.problems, problem)
	}
	w.refuseFields()
	group := w.group(r)
	if len(w.problems) == 0 {
		// The registry is asked last: nothing else depends on its answer.
		if err := w.command(ctx, group.Properties.Containers[0].Properties); err != nil {
			return l, err
		}
	} else {
		w.checkCommand()
	}
	l.Problems, l.Fitted, l.Warnings, l.Read = w.problems, w.fitted, w.warnings, w.read
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
	s := l.spec
	no := func(field, value, why string) { l.bad(sdk.Unimplemented, field, value, "%s", why) }
	if s.Image == "" {
		l.bad(sdk.InvalidArgument, "image", "", "Container Instances runs images, and none is given")
	}
	if strings.ContainsAny(s.Image, " \t\n") {
		l.bad(sdk.InvalidArgument, "image", s.Image, "an image's reference has no spaces")
	}
	if s.Workdir != "" {
		no("workdir", s.Workdir, "Container Instances can't set the working folder; change to it in the command, or in the image")
	}
	if s.User != "" {
		no("user", s.User, "Container Instances runs a container as the user that its image names; set it there")
	}
	if s.GPU > 0 {
		no("gpu", itoa(s.GPU), "GPUs of Container Instances aren't offered here")
	}
	if s.EphemeralStorage > 0 {
		no("ephemeral_storage", memoryText(s.EphemeralStorage), "Container Instances gives a group a disk of its own size")
	}
	if s.PIDs > 0 {
		no("pids", itoa(s.PIDs), "Container Instances has no bound on processes")
	}
	if s.Network != "" {
		no("network", s.Network, "use the option subnet")
	}
	for i, m := range s.Mounts {
		no(fmt.Sprintf("mounts[%d]", i), m.Target, "Container Instances mounts no folder of the submitter's")
	}
	for i, f := range s.Files {
		no(fmt.Sprintf("files[%d]", i), f.Path, "Container Instances has no place for single input files; put them into the image, or fetch them in the job")
	}
	if s.Stdin == sdk.StdinAttached || s.Stdin == sdk.StdinSpooled {
		no("stdin", string(s.Stdin), "Container Instances gives a job no input")
	}
	if s.Profile == sdk.ProfileStrict || s.Profile == sdk.ProfileStandard {
		no("profile", string(s.Profile), "Container Instances can't bound processes or take the network away; leave it out, or choose permissive")
	}
	if s.Grace != nil {
		no("grace", s.Grace.String(), "Container Instances doesn't say how long it waits between TERM and KILL, and nothing changes it; leave it out")
	}
}

// group is the container group, without its command and without the values of
// secrets. It never restarts what has ended.
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-restart-policy
func (l *plan) group(r sdk.PrepareJobRequest) *arm.ContainerGroup {
	place := l.place
	props := &arm.ContainerGroupPropertiesProperties{
		Containers: []*arm.Container{{Name: to.Ptr(container), Properties: l.container()}}, OSType: to.Ptr(arm.OperatingSystemTypesLinux),
		RestartPolicy: to.Ptr(arm.ContainerGroupRestartPolicyNever), SKU: to.Ptr(arm.ContainerGroupSKUStandard),
	}
	if place.Subnet != "" {
		props.SubnetIDs = []*arm.ContainerGroupSubnetID{{ID: to.Ptr(place.Subnet)}}
	}
	if place.Priority == prioritySpot {
		props.Priority = to.Ptr(arm.ContainerGroupPrioritySpot)
	}
	for _, reg := range place.Registries {
		c := &arm.ImageRegistryCredential{Server: to.Ptr(reg.Server)}
		if reg.Identity != "" {
			c.Identity = to.Ptr(reg.Identity)
		} else {
			c.Username = to.Ptr(reg.Username)
		}
		props.ImageRegistryCredentials = append(props.ImageRegistryCredentials, c)
	}
	g := &arm.ContainerGroup{Location: to.Ptr(l.p.cfg.Location), Properties: props, Tags: l.tags(r), Identity: identityOf(place)}
	if place.Zone != "" {
		g.Zones = []*string{to.Ptr(place.Zone)}
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
	s := l.spec
	c := &arm.ContainerProperties{Image: to.Ptr(s.Image)}
	l.variables(c)
	l.checkSecrets()
	if s.CPU < 0 || s.Memory < 0 {
		return c // sdk.ValidateSpec has said so
	}
	cores, gigabytes := fitSize(s.CPU, s.Memory, func(field, value, message string) { l.bad(sdk.InvalidArgument, field, value, "%s", message) })
	if s.CPU == 0 {
		l.fit("cpu", number(cores), "the least that a container group has")
	}
	if s.Memory == 0 {
		l.fit("memory", memoryText(defaultMemory), "what Azure's own command line asks for")
	}
	c.Resources = &arm.ResourceRequirements{Requests: &arm.ResourceRequests{CPU: to.Ptr(cores), MemoryInGB: to.Ptr(gigabytes)}}
	return c
}

// variableForm is what a variable's name may be.
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-environment-variables
var variableForm = form(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (l *plan) variables(c *arm.ContainerProperties) {
	for _, k := range sortedKeys(l.spec.Env) {
		v := l.spec.Env[k]
		switch {
		case !variableForm().MatchString(k):
			l.bad(sdk.Unimplemented, "env."+k, "", "Container Instances takes names of letters, digits and _ that don't begin with a digit")
		case !utf8.ValidString(v):
			l.bad(sdk.Unimplemented, "env."+k, "", "is not UTF-8, and Container Instances takes text alone")
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
	if l.spec.Name != "" {
		tags[tagName] = azure.TagValue(l.spec.Name)
	}
	seen := map[string]string{}
	for k, v := range l.place.Tags {
		tags[k], seen[strings.ToLower(k)] = v, k
	}
	for _, k := range sortedKeys(l.spec.Labels) {
		if msg := azure.CheckTag(k, l.spec.Labels[k]); msg != "" {
			l.bad(sdk.InvalidArgument, "labels", k, "%s", msg)
			continue
		}
		if other, ok := seen[strings.ToLower(k)]; ok && other != k {
			l.bad(sdk.InvalidArgument, "labels", k, "Azure takes it for the same tag as %q", other)
			continue
		}
		tags[k], seen[strings.ToLower(k)] = l.spec.Labels[k], k
	}
	if len(tags) > azure.MaxTags {
		l.bad(sdk.InvalidArgument, "labels", fmt.Sprint(len(l.spec.Labels)), "a container group has at most %d tags, ours and the provider's among them; these would be %d", azure.MaxTags, len(tags))
	}
	out := map[string]*string{}
	for k, v := range tags {
		out[k] = to.Ptr(v)
	}
	return out
}

package ecs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/internal/cloud/aws/fargate"
	"github.com/windlass-run/windlass/internal/cloud/aws/secretref"
	"github.com/windlass-run/windlass/internal/driver/launch"
	"github.com/windlass-run/windlass/sdk"
)

const opPrepare = "prepare job"

// maxDefinition is the most bytes of a task definition.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/service-quotas.html
const maxDefinition = 64 << 10

// maxImage is the most characters of an image's reference.
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_ContainerDefinition.html
const maxImage = 255

// plan is a launch in the making.
type plan struct {
	launch.Draft
	p     *provider
	place placement
	def   definition
	run   runTask
}

// PrepareJob implements sdk.JobRunner. It reads nothing from AWS but the ARNs
// of secrets.
func (p *provider) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	if err := ctx.Err(); err != nil {
		return sdk.Launch{}, p.fail(sdk.CodeOf(err), opPrepare, err)
	}
	l := launch.For(r, sdk.SubmitByToken, p.identity, p.owner, p.ledgerID)
	l.Token, l.Resubmit.Window = r.AttemptID.String(), tokenWindow
	w := &plan{Draft: launch.New(r.Spec, support()), p: p}
	var o options
	w.Options(optionsSchema(), &o)
	w.place = p.cfg.placement.with(o.placement)
	w.refuseFields()
	w.placeTask()
	w.command()
	w.sizes()
	w.rest()
	secrets, err := p.secrets.Plan(ctx, r.Spec, w.Bad)
	if err != nil {
		return l, err
	}
	if len(secrets.From) > 0 {
		w.def.Container.Secrets = secrets.From
	}
	w.roles(secrets)
	w.tags(r)
	if err := w.finish(secrets.Visible); err != nil && len(w.Problems) == 0 {
		return l, p.fail(sdk.Internal, opPrepare, err)
	}
	l.Problems, l.Fitted, l.Warnings = w.Problems, w.Fitted, w.Warnings
	if len(l.Problems) > 0 {
		return l, nil
	}
	l.Names = map[string]string{"definition": w.def.Family}
	if l.Request, err = sdk.EncodeCanonical(request{Definition: w.def, Run: w.run}); err != nil {
		return l, err
	}
	return l, nil
}

// refuseFields refuses what ECS has no place for.
func (l *plan) refuseFields() {
	l.Image("ECS")
	if n := len(l.Spec.Image); n > maxImage {
		l.Wrong("image", "an image's reference has at most %d characters, and this has %d", maxImage, n)
	}
	l.Permissive("ECS")
	l.Workdir()
	switch g := l.Spec.Grace; {
	case g == nil:
		l.Fit("grace", defaultGrace.String(), "ECS's default")
	case *g < 0: // sdk.ValidateSpec has said so
	case *g < minGrace || *g > maxGrace:
		l.Lacks("grace", "ECS takes %s to %s", minGrace, maxGrace)
	case *g%time.Second != 0:
		l.Lacks("grace", "ECS takes whole seconds; the nearest is %s", g.Round(time.Second))
	default:
		l.def.Container.StopTimeout = int32(*g / time.Second)
	}
}

// placeTask says where the task runs and on which network.
func (l *plan) placeTask() {
	fargate := l.fargate()
	l.run.Cluster = l.p.cfg.Cluster
	if len(l.place.CapacityProviders) > 0 {
		l.run.CapacityProviders = slices.Clone(l.place.CapacityProviders)
		for i := range l.run.CapacityProviders {
			if c := &l.run.CapacityProviders[i]; c.Weight == 0 && c.Base == 0 {
				c.Weight = 1
			}
		}
	} else {
		l.run.LaunchType = strings.ToUpper(l.place.LaunchType)
	}
	l.def.RequiresCompatibilities = []string{strings.ToUpper(l.place.LaunchType)}
	l.def.Architecture = strings.ToUpper(l.place.Architecture)
	if l.place.PlatformVersion != "" {
		if fargate {
			l.run.PlatformVersion = l.place.PlatformVersion
		} else {
			l.Bad(sdk.InvalidArgument, "options.platform_version", l.place.PlatformVersion, "only Fargate has platform versions")
		}
	}
	mode := l.Spec.Network
	switch {
	case mode != "" && fargate && mode != "awsvpc":
		l.Lacks("network", "Fargate has awsvpc only")
	case mode != "" && !slices.Contains([]string{"awsvpc", "bridge", "host", "none"}, mode):
		l.Wrong("network", "ECS has awsvpc, bridge, host and none")
	case mode == "" && (fargate || len(l.place.Subnets) > 0):
		mode = "awsvpc"
	case mode == "":
		mode = "bridge"
	}
	l.def.NetworkMode = mode
	if mode != "awsvpc" {
		return
	}
	if len(l.place.Subnets) == 0 {
		l.Bad(sdk.FailedPrecondition, "options.subnets", "", "a task with a network interface of its own needs subnets: set subnets under config: of provider %s, or as an option", l.p.name)
	}
	public := l.place.AssignPublicIP != nil && *l.place.AssignPublicIP
	if public && !fargate {
		l.Bad(sdk.Unimplemented, "options.assign_public_ip", "true", "only Fargate gives tasks a public address")
	}
	l.run.Network = &network{Subnets: l.place.Subnets, SecurityGroups: l.place.SecurityGroups, PublicIP: public}
}

func (l *plan) fargate() bool { return l.place.LaunchType == launchFargate }

// command says what the container runs. ECS takes no empty lists.
func (l *plan) command() {
	l.TextArgv("ECS")
	l.TextEnv("ECS")
	entry, args := l.Command("ECS")
	l.def.Container.EntryPoint = entry
	if len(args) > 0 {
		l.run.Override.Command = args
	}
	l.run.Override.Environment = l.Spec.Env
}

// sizes fits cores, memory and disk.
func (l *plan) sizes() {
	s := l.Spec
	if s.CPU < 0 || s.Memory < 0 {
		return // sdk.ValidateSpec has said so
	}
	if l.fargate() {
		got, ps := fargate.Fit(s.CPU, s.Memory)
		for _, p := range ps {
			l.Wrong(p.Field, "%s", p.Message)
		}
		l.def.CPU, l.def.Memory = itoa(got.CPU), itoa(got.Memory)
		if s.CPU == 0 {
			l.Fit("cpu", fargate.CPUText(got.CPU), "the least that Fargate has for it")
		}
		if s.Memory == 0 {
			l.Fit("memory", sdk.MemoryText(got.Memory*mib), "the least that Fargate has for it")
		}
		if s.GPU > 0 {
			l.Lacks("gpu", "Fargate has no GPUs; use launch_type: ec2")
		}
		l.disk()
		return
	}
	// On instances the container has the bounds, rounded up to what ECS counts in.
	l.def.Container.CPU = int32((s.CPU*1024 + 999) / 1000)
	memory := (s.Memory + mib - 1) / mib
	switch {
	case s.Memory == 0:
		memory = defaultInstanceMemory
		l.Fit("memory", sdk.MemoryText(memory*mib), "ECS wants a bound")
	case memory < minInstanceMemory:
		l.Wrong("memory", "ECS gives a container %dMi or more", minInstanceMemory)
	case s.Memory%mib != 0:
		l.Wrong("memory", "ECS counts in MiB; the nearest is %s", sdk.MemoryText(memory*mib))
	}
	l.def.Container.Memory, l.def.Container.GPU = int32(memory), s.GPU
	if s.EphemeralStorage > 0 {
		l.Lacks("ephemeral_storage", "only Fargate bounds a task's disk")
	}
}

// Fargate's disk: 20 GiB, or more where that is set.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-task-storage.html
const (
	defaultDisk = 20
	maxDisk     = 200
)

func (l *plan) disk() {
	want := l.p.cfg.EphemeralStorage
	if s := l.Spec.EphemeralStorage; s > 0 {
		want = s / gib
		if s%gib != 0 || want < defaultDisk || want > maxDisk {
			near := min(max((s+gib-1)/gib, defaultDisk), maxDisk)
			l.Wrong("ephemeral_storage", "Fargate has %dGi to %dGi in whole GiB; the nearest is %dGi", defaultDisk, maxDisk, near)
			return
		}
	}
	if want > defaultDisk {
		l.def.EphemeralStorage = int32(want)
	}
}

// rest carries over what needs no fitting.
func (l *plan) rest() {
	s := l.Spec
	l.def.Container.Image, l.def.Container.Workdir, l.def.Container.User = s.Image, s.Workdir, s.User
	l.def.Container.LogOptions = l.p.logOptions(l.p.session)
}

// roles checks that the task can be started at all.
func (l *plan) roles(secrets secretref.Plan) {
	l.def.ExecutionRoleARN, l.def.TaskRoleARN = l.place.ExecutionRole, l.place.TaskRole
	if l.place.ExecutionRole != "" {
		return
	}
	why := ""
	switch {
	case l.fargate():
		why = "on Fargate a task writes its log by it"
	case len(secrets.From) > 0:
		why = "ECS fetches secrets by it"
	}
	if why != "" {
		l.Bad(sdk.FailedPrecondition, "options.execution_role", "", "is missing: %s; set execution_role under config: of provider %s, or as an option", why, l.p.name)
	}
}

// tags gives the task our labels, the user's and the config's.
func (l *plan) tags(r sdk.PrepareJobRequest) {
	tags := map[string]string{
		sdk.LabelRun: r.RunID.String(), sdk.LabelAttempt: r.AttemptID.String(), sdk.LabelNumber: fmt.Sprint(r.Attempt),
		sdk.LabelOwner: l.p.owner, sdk.LabelLedger: l.p.ledgerID, sdk.LabelExpires: itoa(r.Expires.Unix()),
	}
	if l.Spec.Name != "" {
		tags[labelName] = aws.TagValue(l.Spec.Name)
	}
	for k, v := range l.place.Tags {
		if msg := aws.CheckUserTag(k, v); msg != "" {
			l.Bad(sdk.InvalidArgument, "options.tags."+k, v, "%s", msg)
		}
		tags[k] = v
	}
	for k, v := range l.Spec.Labels {
		if msg := aws.CheckTag(k, v); msg != "" {
			l.Bad(sdk.InvalidArgument, "labels", k, "labels are tags on ECS: %s", msg)
		}
		tags[k] = v
	}
	if len(tags) > aws.MaxTags {
		l.Bad(sdk.InvalidArgument, "labels", fmt.Sprint(len(l.Spec.Labels)), "a task has at most %d tags, ours and the provider's among them; these would be %d", aws.MaxTags, len(tags))
	}
	l.run.Tags = tags
	l.run.StartedBy, l.run.Token = r.RunID.String(), r.AttemptID.String()
	l.run.Group = groupOf(r.AttemptID, r.Attempt)
}

// finish moves what is too long for the overrides into the definition, and
// names the definition.
func (l *plan) finish(visible bool) error {
	n, err := l.run.Override.size()
	if err != nil {
		return err
	}
	if n > maxOverrides {
		l.def.Container.Command, l.def.Container.Environment = l.run.Override.Command, l.run.Override.Environment
		l.run.Override = override{}
		l.Fit("definition", "one of the job's own", fmt.Sprintf("arguments and variables have %d characters, and a task's overrides at most %d", n, maxOverrides))
	}
	hash, err := l.def.hash()
	if err != nil {
		return err
	}
	if l.def.Family = family(l.p.owner, hash); len(l.def.Family) > maxFamily {
		return fmt.Errorf("the family %s has %d characters", l.def.Family, len(l.def.Family))
	}
	l.run.Family = l.def.Family
	l.def.Tags = map[string]string{sdk.LabelOwner: l.p.owner, sdk.LabelLedger: l.p.ledgerID, labelDefinition: hash}
	b, err := sdk.EncodeCanonical(l.def)
	if err != nil {
		return err
	}
	if len(b) > maxDefinition {
		l.Bad(sdk.InvalidArgument, "args", fmt.Sprintf("%d bytes", len(b)), "arguments and variables are more than a task definition holds, %d bytes; the largest are %s: put them into a secret or a file",
			maxDefinition, aws.Largest(l.def.Container.Environment, l.def.Container.Command))
	}
	if visible {
		l.Warnings = append(l.Warnings, "secrets of the schemes env and file become variables that anyone who may describe tasks can read")
	}
	return nil
}

package ecs

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/internal/cloud/aws/fargate"
	"github.com/windlass-run/windlass/internal/cloud/aws/secretref"
	"github.com/windlass-run/windlass/sdk"
)

const opPrepare = "prepare job"

// maxDefinition is the most bytes of a task definition.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/service-quotas.html
const maxDefinition = 64 << 10

// plan is a launch in the making.
type plan struct {
	p        *provider
	spec     sdk.JobSpec
	place    placement
	def      definition
	run      runTask
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

// PrepareJob implements sdk.JobRunner. It reads nothing from AWS but the ARNs
// of secrets.
func (p *provider) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	if err := ctx.Err(); err != nil {
		return sdk.Launch{}, p.fail(sdk.CodeOf(err), opPrepare, err)
	}
	l := sdk.Launch{V: sdk.LaunchVersion, Kind: Kind, Identity: p.identity, RunID: r.RunID, AttemptID: r.AttemptID, Attempt: r.Attempt,
		Owner: p.owner, LedgerID: p.ledgerID, Token: r.AttemptID.String(), Secrets: r.Spec.Secrets, Stdin: r.Spec.Stdin, Expires: r.Expires,
		Resubmit: sdk.ResubmitRule{By: sdk.SubmitByToken, Window: tokenWindow}}
	w := &plan{p: p, spec: r.Spec, problems: sdk.ValidateSpec(r.Spec)}
	var o options
	if ps := optionsSchema().Validate("options", r.Spec.Options); len(ps) > 0 {
		w.problems = append(w.problems, ps...)
	} else if len(r.Spec.Options) > 0 {
		if err := json.Unmarshal(r.Spec.Options, &o); err != nil {
			return l, p.fail(sdk.InvalidArgument, opPrepare, err)
		}
	}
	w.place = p.cfg.placement.with(o.placement)
	w.refuseFields()
	w.placeTask()
	w.command()
	w.sizes()
	w.rest()
	secrets, err := p.secrets.Plan(ctx, r.Spec, w.bad)
	if err != nil {
		return l, err
	}
	if len(secrets.From) > 0 {
		w.def.Container.Secrets = secrets.From
	}
	w.roles(secrets)
	w.tags(r)
	if len(w.problems) == 0 {
		if err := w.finish(secrets.Visible); err != nil {
			return l, p.fail(sdk.Internal, opPrepare, err)
		}
	}
	l.Problems, l.Fitted, l.Warnings = w.problems, w.fitted, w.warnings
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
	s := l.spec
	no := func(field, value, why string) { l.bad(sdk.Unimplemented, field, value, "%s", why) }
	if s.Image == "" {
		l.bad(sdk.InvalidArgument, "image", "", "ECS runs images, and none is given")
	}
	if strings.ContainsAny(s.Image, " \t\n") || len(s.Image) > 255 {
		l.bad(sdk.InvalidArgument, "image", s.Image, "an image's reference has no spaces and at most 255 characters")
	}
	if s.PIDs > 0 {
		no("pids", itoa(s.PIDs), "ECS has no bound on processes")
	}
	for i, m := range s.Mounts {
		no(fmt.Sprintf("mounts[%d]", i), m.Target, "ECS mounts no folder of the submitter's")
	}
	for i, f := range s.Files {
		no(fmt.Sprintf("files[%d]", i), f.Path, "ECS has no place for input files; put them into the image, or fetch them in the job")
	}
	if s.Stdin == sdk.StdinAttached || s.Stdin == sdk.StdinSpooled {
		no("stdin", string(s.Stdin), "ECS gives a task no input")
	}
	if s.Profile == sdk.ProfileStrict || s.Profile == sdk.ProfileStandard {
		no("profile", string(s.Profile), "ECS can't bound processes or take the network away; leave it out, or choose permissive")
	}
	if g := s.Grace; g != nil && *g >= 0 {
		switch {
		case *g < minGrace || *g > maxGrace:
			no("grace", g.String(), fmt.Sprintf("ECS takes %s to %s", minGrace, maxGrace))
		case *g%time.Second != 0:
			no("grace", g.String(), fmt.Sprintf("ECS takes whole seconds; the nearest is %s", g.Round(time.Second)))
		default:
			l.def.Container.StopTimeout = int32(*g / time.Second)
		}
	} else if g == nil {
		l.fit("grace", defaultGrace.String(), "ECS's default")
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
			l.bad(sdk.InvalidArgument, "options.platform_version", l.place.PlatformVersion, "only Fargate has platform versions")
		}
	}
	mode := l.spec.Network
	switch {
	case mode != "" && fargate && mode != "awsvpc":
		l.bad(sdk.Unimplemented, "network", mode, "Fargate has awsvpc only")
	case mode != "" && !slices.Contains([]string{"awsvpc", "bridge", "host", "none"}, mode):
		l.bad(sdk.InvalidArgument, "network", mode, "ECS has awsvpc, bridge, host and none")
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
		l.bad(sdk.FailedPrecondition, "options.subnets", "", "a task with a network interface of its own needs subnets: set subnets under config: of provider %s, or as an option", l.p.name)
	}
	public := l.place.AssignPublicIP != nil && *l.place.AssignPublicIP
	if public && !fargate {
		l.bad(sdk.Unimplemented, "options.assign_public_ip", "true", "only Fargate gives tasks a public address")
	}
	l.run.Network = &network{Subnets: l.place.Subnets, SecurityGroups: l.place.SecurityGroups, PublicIP: public}
}

func (l *plan) fargate() bool { return l.place.LaunchType == launchFargate }

// command says what the container runs. ECS takes no empty lists: a cleared
// entrypoint moves the command's first word into its place, and cleared
// arguments follow from a set entrypoint, which drops the image's own.
func (l *plan) command() {
	s := l.spec
	for field, list := range map[string]sdk.Argv{"entrypoint": s.Entrypoint, "args": s.Args, "image_entrypoint": s.ImageEntrypoint} {
		for i, a := range list {
			if !utf8.ValidString(a) {
				l.bad(sdk.Unimplemented, fmt.Sprintf("%s[%d]", field, i), "", "is not UTF-8, and ECS takes text alone")
			}
		}
	}
	for k, v := range s.Env {
		if !utf8.ValidString(v) {
			l.bad(sdk.Unimplemented, "env."+k, "", "is not UTF-8, and ECS takes text alone")
		}
	}
	entry, args := []string(s.Entrypoint), []string(s.Args)
	if s.Entrypoint == nil && s.Args != nil && len(s.Args) == 0 {
		if s.ImageEntrypoint == nil {
			l.bad(sdk.FailedPrecondition, "args", "[]", "ECS can't clear the image's arguments; say entrypoint, or image_entrypoint, which is then used")
			return
		}
		entry = s.ImageEntrypoint
	}
	if len(entry) == 0 && len(args) == 0 && (s.Entrypoint != nil || s.Args != nil) {
		l.bad(sdk.InvalidArgument, "args", "", "nothing is left to run: entrypoint and args are both empty")
		return
	}
	if s.Entrypoint != nil && len(entry) == 0 {
		entry, args = args[:1], args[1:]
	}
	l.def.Container.EntryPoint = entry
	if len(args) > 0 {
		l.run.Override.Command = args
	}
	l.run.Override.Environment = s.Env
}

// sizes fits cores, memory and disk.
func (l *plan) sizes() {
	s := l.spec
	if s.CPU < 0 || s.Memory < 0 {
		return // sdk.ValidateSpec has said so
	}
	if l.fargate() {
		got, ps := fargate.Fit(s.CPU, s.Memory)
		for _, p := range ps {
			l.bad(sdk.InvalidArgument, p.Field, p.Value, "%s", p.Message)
		}
		l.def.CPU, l.def.Memory = itoa(got.CPU), itoa(got.Memory)
		if s.CPU == 0 {
			l.fit("cpu", fargate.CPUText(got.CPU), "the least that Fargate has for it")
		}
		if s.Memory == 0 {
			l.fit("memory", fargate.MemoryText(got.Memory*mib), "the least that Fargate has for it")
		}
		if s.GPU > 0 {
			l.bad(sdk.Unimplemented, "gpu", itoa(s.GPU), "Fargate has no GPUs; use launch_type: ec2")
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
		l.fit("memory", fargate.MemoryText(memory*mib), "ECS wants a bound")
	case memory < minInstanceMemory:
		l.bad(sdk.InvalidArgument, "memory", fargate.MemoryText(s.Memory), "ECS gives a container %dMi or more", minInstanceMemory)
	case s.Memory%mib != 0:
		l.bad(sdk.InvalidArgument, "memory", fargate.MemoryText(s.Memory), "ECS counts in MiB; the nearest is %s", fargate.MemoryText(memory*mib))
	}
	l.def.Container.Memory, l.def.Container.GPU = int32(memory), s.GPU
	if s.EphemeralStorage > 0 {
		l.bad(sdk.Unimplemented, "ephemeral_storage", fargate.MemoryText(s.EphemeralStorage), "only Fargate bounds a task's disk")
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
	if s := l.spec.EphemeralStorage; s > 0 {
		want = s / gib
		if s%gib != 0 || want < defaultDisk || want > maxDisk {
			near := min(max((s+gib-1)/gib, defaultDisk), maxDisk)
			l.bad(sdk.InvalidArgument, "ephemeral_storage", fargate.MemoryText(s), "Fargate has %dGi to %dGi in whole GiB; the nearest is %dGi", defaultDisk, maxDisk, near)
			return
		}
	}
	if want > defaultDisk {
		l.def.EphemeralStorage = int32(want)
	}
}

// rest carries over what needs no fitting.
func (l *plan) rest() {
	s := l.spec
	if s.Workdir != "" && !path.IsAbs(s.Workdir) {
		l.bad(sdk.InvalidArgument, "workdir", s.Workdir, "needs an absolute path")
	}
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
		l.bad(sdk.FailedPrecondition, "options.execution_role", "", "is missing: %s; set execution_role under config: of provider %s, or as an option", why, l.p.name)
	}
}

// tags gives the task our labels, the user's and the config's.
func (l *plan) tags(r sdk.PrepareJobRequest) {
	tags := map[string]string{
		sdk.LabelRun: r.RunID.String(), sdk.LabelAttempt: r.AttemptID.String(), sdk.LabelNumber: fmt.Sprint(r.Attempt),
		sdk.LabelOwner: l.p.owner, sdk.LabelLedger: l.p.ledgerID, sdk.LabelExpires: itoa(r.Expires.Unix()),
	}
	if l.spec.Name != "" {
		tags[labelName] = aws.TagValue(l.spec.Name)
	}
	for k, v := range l.place.Tags {
		if msg := aws.CheckUserTag(k, v); msg != "" {
			l.bad(sdk.InvalidArgument, "options.tags."+k, v, "%s", msg)
		}
		tags[k] = v
	}
	for k, v := range l.spec.Labels {
		if msg := aws.CheckTag(k, v); msg != "" {
			l.bad(sdk.InvalidArgument, "labels", k, "labels are tags on ECS: %s", msg)
		}
		tags[k] = v
	}
	if len(tags) > aws.MaxTags {
		l.bad(sdk.InvalidArgument, "labels", fmt.Sprint(len(l.spec.Labels)), "a task has at most %d tags, ours and the provider's among them; these would be %d", aws.MaxTags, len(tags))
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
		l.fit("definition", "one of the job's own", fmt.Sprintf("arguments and variables have %d characters, and a task's overrides at most %d", n, maxOverrides))
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
		l.bad(sdk.InvalidArgument, "args", fmt.Sprintf("%d bytes", len(b)), "arguments and variables are more than a task definition holds, %d bytes; the largest are %s: put them into a secret or a file",
			maxDefinition, aws.Largest(l.def.Container.Environment, l.def.Container.Command))
	}
	if visible {
		l.warnings = append(l.warnings, "secrets of the schemes env and file become variables that anyone who may describe tasks can read")
	}
	return nil
}

package batch

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/internal/cloud/aws/secretref"
	"github.com/windlass-run/windlass/internal/driver/launch"
	"github.com/windlass-run/windlass/sdk"
)

const opPrepare = "prepare job"

// plan is a launch in the making.
type plan struct {
	launch.Draft
	p     *provider
	place placement
	def   definition
	job   submitJob
}

// PrepareJob implements sdk.JobRunner. It reads nothing from AWS but the ARNs
// of secrets.
func (p *provider) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	if err := ctx.Err(); err != nil {
		return sdk.Launch{}, p.fail(sdk.CodeOf(err), opPrepare, err)
	}
	l := launch.For(r, sdk.SubmitBySearch, p.identity, p.owner, p.ledgerID)
	w := &plan{Draft: launch.New(r.Spec, support()), p: p}
	var o options
	w.Options(optionsSchema(), &o)
	w.place = p.cfg.placement.with(o.placement)
	w.refuseFields()
	w.platform()
	w.command()
	w.sizes()
	l.NativeDeadline = w.deadline()
	secrets, err := p.secrets.Plan(ctx, r.Spec, w.Bad)
	if err != nil {
		return l, err
	}
	if len(secrets.From) > 0 {
		w.def.Container.Secrets = secrets.From
	}
	w.roles(secrets)
	w.tags(r)
	if err := w.finish(r, secrets.Visible); err != nil && len(w.Problems) == 0 {
		return l, p.fail(sdk.Internal, opPrepare, err)
	}
	l.Problems, l.Fitted, l.Warnings = w.Problems, w.Fitted, w.Warnings
	if len(l.Problems) > 0 {
		return l, nil
	}
	l.Names = map[string]string{"definition": w.def.Name, "job": w.job.Name}
	if l.Request, err = sdk.EncodeCanonical(request{Definition: w.def, Job: w.job}); err != nil {
		return l, err
	}
	return l, nil
}

// image is the form of an image's reference.
// https://docs.aws.amazon.com/batch/latest/APIReference/API_ContainerProperties.html
var image = regexp.MustCompile(`^[a-zA-Z0-9_:./#@-]+$`)

const maxImage = 255

// refuseFields refuses what AWS Batch has no place for.
func (l *plan) refuseFields() {
	s := l.Spec
	switch {
	case s.Image == "":
		l.Wrong("image", "AWS Batch runs images, and none is given")
	case len(s.Image) > maxImage || !image.MatchString(s.Image):
		l.Wrong("image", "an image's reference has at most %d characters: letters, digits and - _ : . / # @", maxImage)
	}
	l.Permissive("AWS Batch")
	if s.Grace == nil {
		l.Fit("grace", "30s", "AWS Batch's own, which can't be changed")
	}
	if n := s.Network; n != "" {
		if has := map[bool]string{true: "awsvpc", false: "host"}[l.fargate()]; n != has {
			l.Lacks("network", "the queue's compute environment decides, and gives %s", has)
		}
	}
}

func (l *plan) fargate() bool { return l.place.Platform == onFargate }

// platform says what the job runs on.
func (l *plan) platform() {
	l.job.Queue, l.def.Platform = l.p.cfg.Queue, strings.ToUpper(l.place.Platform)
	c := &l.def.Container
	c.Image, c.User, c.LogOptions = l.Spec.Image, l.Spec.User, l.p.logOptions()
	public := l.place.AssignPublicIP != nil && *l.place.AssignPublicIP
	if !l.fargate() {
		for field, v := range map[string]string{"platform_version": l.place.PlatformVersion, "architecture": l.place.Architecture} {
			if v != "" {
				l.Bad(sdk.InvalidArgument, "options."+field, v, "only on Fargate can it be chosen")
			}
		}
		if public {
			l.Bad(sdk.Unimplemented, "options.assign_public_ip", "true", "only on Fargate do jobs get a public address")
		}
		return
	}
	c.PlatformVersion, c.Architecture, c.PublicIP = l.place.PlatformVersion, strings.ToUpper(l.place.Architecture), "DISABLED"
	if public {
		c.PublicIP = "ENABLED"
	}
}

// command says what the container runs: AWS Batch replaces the image's own
// arguments, and nothing else. An entrypoint that begins with the image's own
// differs from it in arguments alone.
func (l *plan) command() {
	s := l.Spec
	for field, list := range map[string]sdk.Argv{"entrypoint": s.Entrypoint, "args": s.Args} {
		for i, a := range list {
			if msg := badArgument(a); msg != "" {
				l.Bad(sdk.Unimplemented, fmt.Sprintf("%s[%d]", field, i), strings.ToValidUTF8(a, "?"), "%s", msg)
			}
		}
	}
	for _, k := range sortedKeys(s.Env) {
		if !utf8.ValidString(s.Env[k]) {
			l.Bad(sdk.Unimplemented, "env."+k, "", "is not UTF-8, and AWS Batch takes text alone")
		}
		if strings.HasPrefix(k, "AWS_BATCH") {
			l.Bad(sdk.InvalidArgument, "env."+k, "", "names that start with AWS_BATCH are AWS Batch's own")
		}
	}
	command := []string(s.Args)
	if s.Entrypoint != nil {
		n := len(s.ImageEntrypoint)
		if s.ImageEntrypoint == nil || len(s.Entrypoint) < n || !slices.Equal(s.Entrypoint[:n], s.ImageEntrypoint) {
			l.Bad(sdk.Unimplemented, "entrypoint", fmt.Sprintf("%q", []string(s.Entrypoint)),
				"AWS Batch can't replace an image's entrypoint; leave it out, or say image_entrypoint where the image's own is what this begins with ([] for an image that has none)")
			return
		}
		command = append(slices.Clone([]string(s.Entrypoint[n:])), s.Args...)
	}
	if len(command) == 0 && (s.Args != nil || s.Entrypoint != nil) {
		l.Bad(sdk.FailedPrecondition, "args", "[]", "AWS Batch can't clear the image's arguments; give some, or leave entrypoint and args out")
		return
	}
	if len(command) > 0 {
		l.job.Override.Command = command
	}
	l.job.Override.Environment = s.Env
}

// badArgument returns why AWS Batch doesn't pass an argument on as it is, or
// nothing. How a reference to a parameter could be escaped isn't documented.
// https://docs.aws.amazon.com/batch/latest/userguide/job_definition_parameters.html
// https://docs.aws.amazon.com/batch/latest/APIReference/API_ContainerOverrides.html
func badArgument(a string) string {
	switch {
	case a == "":
		return "AWS Batch takes no empty argument"
	case strings.Contains(a, "Ref::"):
		return "AWS Batch replaces Ref::NAME, which can't be escaped; put the text into a variable"
	case !utf8.ValidString(a):
		return "is not UTF-8, and AWS Batch takes text alone"
	}
	return ""
}

// deadline sets AWS Batch's own time-out, which counts from the start of the
// container: a backstop for when nobody holds the run.
func (l *plan) deadline() time.Duration {
	t := l.Spec.Timeout
	if t <= 0 || t > maxDeadline/11*10 {
		return 0
	}
	seconds := max(int64(minDeadline/time.Second), int64((t+t/10+time.Second-1)/time.Second))
	l.job.Timeout = int32(seconds)
	return time.Duration(seconds) * time.Second
}

// roles checks that the job can be started at all.
func (l *plan) roles(secrets secretref.Plan) {
	l.def.Container.ExecutionRole, l.def.Container.JobRole = l.place.ExecutionRole, l.place.JobRole
	if l.place.ExecutionRole != "" {
		return
	}
	why := ""
	switch {
	case l.fargate():
		why = "AWS Batch wants it on Fargate"
	case len(secrets.From) > 0:
		why = "secrets are fetched by it"
	}
	if why != "" {
		l.Bad(sdk.FailedPrecondition, "options.execution_role", "", "is missing: %s; set execution_role under config: of provider %s, or as an option", why, l.p.name)
	}
}

// definitionTags is how many tags of a definition a job hasn't itself: both
// together go to the task, which may have 50.
const definitionTags = 1

// tags gives the job our labels, the user's and the config's.
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
			l.Bad(sdk.InvalidArgument, "labels", k, "labels are tags on AWS Batch: %s", msg)
		}
		tags[k] = v
	}
	if most := aws.MaxTags - definitionTags; len(tags) > most {
		l.Bad(sdk.InvalidArgument, "labels", fmt.Sprint(len(l.Spec.Labels)), "a job has at most %d tags, ours and the provider's among them; these would be %d", most, len(tags))
	}
	l.job.Tags = tags
}

// finish moves what is too long for the overrides into the definition, and names
// definition and job.
func (l *plan) finish(r sdk.PrepareJobRequest, visible bool) error {
	n, err := l.job.Override.size()
	if err != nil {
		return err
	}
	if n > maxOverrides {
		l.def.Container.Command, l.def.Container.Environment = l.job.Override.Command, l.job.Override.Environment
		l.job.Override = override{}
		l.Fit("definition", "one of the job's own", fmt.Sprintf("arguments and variables have %d characters, and a job's overrides at most %d", n, maxOverrides))
	}
	hash, err := l.def.hash()
	if err != nil {
		return err
	}
	l.def.Name, l.job.Name = definitionName(l.p.owner, hash), jobName(r.RunID, r.AttemptID, r.Attempt)
	if len(l.def.Name) > maxName || len(l.job.Name) > maxName {
		return fmt.Errorf("the names %s and %s are too long", l.def.Name, l.job.Name)
	}
	l.job.Definition = l.def.Name
	l.def.Tags = map[string]string{sdk.LabelOwner: l.p.owner, sdk.LabelLedger: l.p.ledgerID, labelDefinition: hash}
	// As AWS has it, with a pair of name and value for each variable.
	n, err = wireSize(l.def)
	if err != nil {
		return err
	}
	if n > maxDefinition {
		l.Bad(sdk.InvalidArgument, "args", fmt.Sprintf("%d bytes", n), "arguments and variables are more than a job definition holds, %d bytes; the largest are %s: put them into a secret or a file",
			maxDefinition, aws.Largest(l.def.Container.Environment, l.def.Container.Command))
	}
	if n, err = jsonSize(l.job); err != nil {
		return err
	}
	if n > maxSubmit-batchOwn {
		l.Bad(sdk.InvalidArgument, "labels", fmt.Sprintf("%d bytes", n), "the submission is longer than AWS Batch takes, %d bytes; give fewer or shorter labels", maxSubmit)
	}
	if visible {
		l.Warnings = append(l.Warnings, "secrets of the schemes env and file become variables that anyone who may describe jobs can read")
	}
	return nil
}

// wireSize is no less than the bytes of a definition as it is sent.
func wireSize(d definition) (int, error) {
	n, err := jsonSize(d)
	const each, fixed = len(`{"name":,"value":},`), 512
	return n + fixed + each*(len(d.Container.Environment)+len(d.Container.Secrets)), err
}

// logOptions are those of the awslogs driver. The default group isn't named: AWS
// Batch then sees to it. Blocking: what the job writes is never dropped for a
// full buffer, which is ECS's default. AWS Batch's own page doesn't list that
// option; it hands options on to the driver.
// https://docs.aws.amazon.com/batch/latest/userguide/using_awslogs.html
// https://docs.aws.amazon.com/batch/latest/APIReference/API_LogConfiguration.html
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/specify-log-config.html
func (p *provider) logOptions() map[string]string {
	o := map[string]string{"awslogs-region": p.session.Region}
	if *p.cfg.LogBlocking {
		o["mode"] = "blocking"
	}
	if p.cfg.LogGroup != defaultLogGroup {
		o["awslogs-group"] = p.cfg.LogGroup
		if *p.cfg.CreateLogGroup {
			o["awslogs-create-group"] = "true"
		}
	}
	return o
}

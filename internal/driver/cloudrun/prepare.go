package cloudrun

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/windlass-run/windlass/internal/cloud/gcp"
	"github.com/windlass-run/windlass/sdk"
)

const opPrepare = "prepare job"

// The bounds of a container.
// https://cloud.google.com/run/docs/configuring/jobs/environment-variables
// https://cloud.google.com/run/quotas
const (
	maxVariables = 1000
	maxVariable  = 32768
	maxArgs      = 1000
)

// plan is a launch in the making.
type plan struct {
	p        *provider
	spec     sdk.JobSpec
	place    placement
	visible  bool
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

// PrepareJob implements sdk.JobRunner. It makes no call.
func (p *provider) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	if err := ctx.Err(); err != nil {
		return sdk.Launch{}, p.fail(sdk.CodeOf(err), opPrepare, err)
	}
	l := sdk.Launch{V: sdk.LaunchVersion, Kind: Kind, Identity: p.identity, RunID: r.RunID, AttemptID: r.AttemptID, Attempt: r.Attempt,
		Owner: p.owner, LedgerID: p.ledgerID, Secrets: r.Spec.Secrets, Stdin: r.Spec.Stdin, Expires: r.Expires,
		Resubmit: sdk.ResubmitRule{By: sdk.SubmitByName}}
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
	for _, problem := range w.place.problems() {
		problem.Field = "options." + problem.Field
		w.problems = append(w.problems, problem)
	}
	w.refuseFields()
	task := &runpb.TaskTemplate{Retries: &runpb.TaskTemplate_MaxRetries{}, Timeout: durationpb.New(w.timeout()), ServiceAccount: w.place.ServiceAccount,
		VpcAccess: w.vpc(), Containers: []*runpb.Container{w.container()}}
	labels, annotations := w.labels(r)
	l.NativeDeadline = task.GetTimeout().AsDuration()
	if w.visible {
		w.warnings = append(w.warnings, "secrets of the schemes env and file become variables that anyone who may see the job can read")
	}
	l.Problems, l.Fitted, l.Warnings = w.problems, w.fitted, w.warnings
	if len(l.Problems) > 0 {
		return l, nil
	}
	id := jobID(r.AttemptID)
	l.Names = map[string]string{"job": id}
	var err error
	l.Request, err = encodeRequest(&runpb.CreateJobRequest{Parent: p.session.Location(), JobId: id, Job: &runpb.Job{
		Labels: labels, Annotations: annotations, Client: client, CreateExecution: &runpb.Job_StartExecutionToken{StartExecutionToken: executionToken},
		Template: &runpb.ExecutionTemplate{Labels: labels, Annotations: annotations, TaskCount: 1, Parallelism: 1, Template: task},
	}})
	if err != nil {
		return l, p.fail(sdk.Internal, opPrepare, err)
	}
	return l, nil
}

// refuseFields refuses what Cloud Run has no place for.
func (l *plan) refuseFields() {
	s := l.spec
	no := func(field, value, why string) { l.bad(sdk.Unimplemented, field, value, "%s", why) }
	if s.Image == "" {
		l.bad(sdk.InvalidArgument, "image", "", "Cloud Run runs images, and none is given")
	}
	if strings.ContainsAny(s.Image, " \t\n") {
		l.bad(sdk.InvalidArgument, "image", s.Image, "an image's reference has no spaces")
	}
	if s.User != "" {
		no("user", s.User, "Cloud Run runs a container as the user that its image names; set it there")
	}
	if s.GPU > 0 {
		no("gpu", itoa(s.GPU), "GPUs of Cloud Run jobs aren't offered here")
	}
	if s.EphemeralStorage > 0 {
		no("ephemeral_storage", memoryText(s.EphemeralStorage), "Cloud Run keeps a container's files in its memory; set memory")
	}
	if s.PIDs > 0 {
		no("pids", itoa(s.PIDs), "Cloud Run has no bound on processes")
	}
	if s.Network != "" {
		no("network", s.Network, "use the options network, subnetwork or connector")
	}
	for i, m := range s.Mounts {
		no(fmt.Sprintf("mounts[%d]", i), m.Target, "Cloud Run mounts no folder of the submitter's")
	}
	for i, f := range s.Files {
		no(fmt.Sprintf("files[%d]", i), f.Path, "Cloud Run has no place for input files; put them into the image, or fetch them in the job")
	}
	if s.Stdin == sdk.StdinAttached || s.Stdin == sdk.StdinSpooled {
		no("stdin", string(s.Stdin), "Cloud Run gives a job no input")
	}
	if s.Profile == sdk.ProfileStrict || s.Profile == sdk.ProfileStandard {
		no("profile", string(s.Profile), "Cloud Run can't bound processes or take the network away; leave it out, or choose permissive")
	}
	if s.Grace != nil {
		no("grace", s.Grace.String(), "Cloud Run gives 10 seconds between TERM and KILL, and nothing changes that; leave it out")
	}
}

// timeout is the platform's own bound: a tenth above the job's, which is kept by
// whoever holds the run, and the longest that there is where the job has none.
// Without it Cloud Run would end a task after 10 minutes.
func (l *plan) timeout() time.Duration {
	want := l.spec.Timeout
	switch {
	case want <= 0:
		l.fit("timeout", maxTimeout.String(), "the longest that Cloud Run lets a task run")
		return maxTimeout
	case want > maxTimeout:
		l.bad(sdk.Unimplemented, "timeout", want.String(), "Cloud Run ends a task after %s", maxTimeout)
		return maxTimeout
	}
	native := (want + want/10 + time.Second - 1).Truncate(time.Second)
	return min(max(native, time.Second), maxTimeout)
}

// vpc is the way into a VPC network.
func (l *plan) vpc() *runpb.VpcAccess {
	p := l.place
	if p.Connector == "" && p.Network == "" && p.Subnetwork == "" {
		return nil
	}
	v := &runpb.VpcAccess{Connector: p.Connector, Egress: runpb.VpcAccess_PRIVATE_RANGES_ONLY}
	if p.Egress == egressAll {
		v.Egress = runpb.VpcAccess_ALL_TRAFFIC
	}
	if p.Connector == "" {
		v.NetworkInterfaces = []*runpb.VpcAccess_NetworkInterface{{Network: p.Network, Subnetwork: p.Subnetwork, Tags: p.NetworkTags}}
	}
	return v
}

// container says what runs.
func (l *plan) container() *runpb.Container {
	s := l.spec
	c := &runpb.Container{Image: s.Image, WorkingDir: s.Workdir}
	if s.Workdir != "" && !path.IsAbs(s.Workdir) {
		l.bad(sdk.InvalidArgument, "workdir", s.Workdir, "needs an absolute path")
	}
	l.command(c)
	l.variables(c)
	l.secrets(c)
	if n := len(s.Env) + len(s.Secrets); n > maxVariables {
		l.bad(sdk.InvalidArgument, "env", fmt.Sprint(n), "Cloud Run gives a container at most %d variables, secrets among them", maxVariables)
	}
	if s.CPU < 0 || s.Memory < 0 {
		return c // sdk.ValidateSpec has said so
	}
	cores, memory := fitSize(s.CPU, s.Memory, func(field, value, message string) { l.bad(sdk.InvalidArgument, field, value, "%s", message) })
	if s.CPU == 0 {
		l.fit("cpu", itoa(cores), "the least that Cloud Run has for it")
	}
	if s.Memory == 0 {
		l.fit("memory", memoryText(memory*mib), "the least that Cloud Run has for it")
	}
	c.Resources = &runpb.ResourceRequirements{Limits: map[string]string{"cpu": itoa(cores), "memory": itoa(memory) + "Mi"}}
	return c
}

// command sets entrypoint and arguments. An empty list is the same as none on
// the wire: a cleared entrypoint moves the command's first word into its place,
// and cleared arguments follow from a set entrypoint, which drops the image's own.
// https://cloud.google.com/run/docs/configuring/jobs/containers
func (l *plan) command(c *runpb.Container) {
	s := l.spec
	for field, list := range map[string]sdk.Argv{"entrypoint": s.Entrypoint, "args": s.Args, "image_entrypoint": s.ImageEntrypoint} {
		for i, a := range list {
			if !utf8.ValidString(a) {
				l.bad(sdk.Unimplemented, fmt.Sprintf("%s[%d]", field, i), "", "is not UTF-8, and Cloud Run takes text alone")
			}
		}
		if len(list) > maxArgs {
			l.bad(sdk.InvalidArgument, field, fmt.Sprint(len(list)), "Cloud Run takes at most %d arguments", maxArgs)
		}
	}
	entry, args := []string(s.Entrypoint), []string(s.Args)
	if s.Entrypoint == nil && s.Args != nil && len(s.Args) == 0 {
		if s.ImageEntrypoint == nil {
			l.bad(sdk.FailedPrecondition, "args", "[]", "Cloud Run can't clear the image's arguments; say entrypoint, or image_entrypoint, which is then used")
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
	c.Command, c.Args = entry, args
}

// reserved are the variables that Cloud Run sets itself.
// https://cloud.google.com/run/docs/container-contract#jobs-env-vars
func reserved() []string {
	return []string{"CLOUD_RUN_JOB", "CLOUD_RUN_EXECUTION", "CLOUD_RUN_TASK_INDEX", "CLOUD_RUN_TASK_ATTEMPT", "CLOUD_RUN_TASK_COUNT"}
}

func (l *plan) variables(c *runpb.Container) {
	for _, k := range sortedKeys(l.spec.Env) {
		v := l.spec.Env[k]
		switch {
		case !utf8.ValidString(v):
			l.bad(sdk.Unimplemented, "env."+k, "", "is not UTF-8, and Cloud Run takes text alone")
		case utf8.RuneCountInString(k) > maxVariable || utf8.RuneCountInString(v) > maxVariable:
			l.bad(sdk.InvalidArgument, "env."+k, fmt.Sprintf("%d bytes", len(v)), "Cloud Run gives a variable at most %d characters: put it into a secret", maxVariable)
		}
		c.Env = append(c.Env, &runpb.EnvVar{Name: k, Values: &runpb.EnvVar_Value{Value: v}})
	}
	for _, names := range [][]string{sortedKeys(l.spec.Env), sortedKeys(l.spec.Secrets)} {
		for _, k := range names {
			if slices.Contains(reserved(), k) {
				l.bad(sdk.InvalidArgument, "env."+k, "", "Cloud Run sets this variable itself")
			}
		}
	}
}

// labels are ours, the user's and the config's. What a label can't hold as it is
// stands in an annotation in full.
func (l *plan) labels(r sdk.PrepareJobRequest) (labels, annotations map[string]string) {
	labels = map[string]string{
		sdk.LabelRun: r.RunID.String(), sdk.LabelAttempt: r.AttemptID.String(), sdk.LabelNumber: fmt.Sprint(r.Attempt),
		sdk.LabelOwner: gcp.LabelValue(l.p.owner), sdk.LabelLedger: gcp.LabelValue(l.p.ledgerID), sdk.LabelExpires: itoa(r.Expires.Unix()),
	}
	annotations = map[string]string{sdk.LabelOwner: l.p.owner, sdk.LabelLedger: l.p.ledgerID}
	if l.spec.Name != "" {
		labels[labelName], annotations[labelName] = gcp.LabelValue(l.spec.Name), l.spec.Name
	}
	for k, v := range l.place.Labels {
		labels[k] = v
	}
	for _, k := range sortedKeys(l.spec.Labels) {
		if msg := gcp.CheckLabel(k, l.spec.Labels[k]); msg != "" {
			l.bad(sdk.InvalidArgument, "labels", k, "%s", msg)
		}
		labels[k] = l.spec.Labels[k]
	}
	if len(labels) > gcp.MaxLabels {
		l.bad(sdk.InvalidArgument, "labels", fmt.Sprint(len(l.spec.Labels)), "a job has at most %d labels, ours and the provider's among them; these would be %d", gcp.MaxLabels, len(labels))
	}
	return labels, annotations
}

package cloudrun

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/windlass-run/windlass/internal/cloud/gcp"
	"github.com/windlass-run/windlass/internal/driver/launch"
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
	launch.Draft
	p       *provider
	place   placement
	visible bool
}

// PrepareJob implements sdk.JobRunner. It makes no call.
func (p *provider) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	if err := ctx.Err(); err != nil {
		return sdk.Launch{}, p.fail(sdk.CodeOf(err), opPrepare, err)
	}
	l := launch.For(r, sdk.SubmitByName, p.identity, p.owner, p.ledgerID)
	w := &plan{Draft: launch.New(r.Spec, support()), p: p}
	var o options
	w.Options(optionsSchema(), &o)
	w.place = p.cfg.placement.with(o.placement)
	w.Within("options", w.place.problems())
	w.refuseFields()
	task := &runpb.TaskTemplate{Retries: &runpb.TaskTemplate_MaxRetries{}, Timeout: durationpb.New(w.timeout()), ServiceAccount: w.place.ServiceAccount,
		VpcAccess: w.place.vpc(), Containers: []*runpb.Container{w.container()}}
	w.missing(ctx)
	labels, annotations := w.labels(r)
	l.NativeDeadline = task.GetTimeout().AsDuration()
	if w.visible {
		w.Warnings = append(w.Warnings, "secrets of the schemes env and file become variables that anyone who may see the job can read")
	}
	l.Problems, l.Fitted, l.Warnings = w.Problems, w.Fitted, w.Warnings
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
	l.Image("Cloud Run")
	l.Permissive("Cloud Run")
	l.Workdir()
}

// timeout is the platform's own bound: a tenth above the job's, which is kept by
// whoever holds the run, and the longest that there is where the job has none.
// Without it Cloud Run would end a task after 10 minutes.
func (l *plan) timeout() time.Duration {
	want := l.Spec.Timeout
	switch {
	case want <= 0:
		l.Fit("timeout", maxTimeout.String(), "the longest that Cloud Run lets a task run")
		return maxTimeout
	case want > maxTimeout:
		l.Lacks("timeout", "Cloud Run ends a task after %s", maxTimeout)
		return maxTimeout
	}
	native := (want + want/10 + time.Second - 1).Truncate(time.Second)
	return min(max(native, time.Second), maxTimeout)
}

// container says what runs.
func (l *plan) container() *runpb.Container {
	s := l.Spec
	c := &runpb.Container{Image: s.Image, WorkingDir: s.Workdir}
	l.command(c)
	l.variables(c)
	l.secrets(c)
	if n := len(s.Env) + len(s.Secrets); n > maxVariables {
		l.Bad(sdk.InvalidArgument, "env", fmt.Sprint(n), "Cloud Run gives a container at most %d variables, secrets among them", maxVariables)
	}
	if s.CPU < 0 || s.Memory < 0 {
		return c // sdk.ValidateSpec has said so
	}
	cores, memory := fitSize(s.CPU, s.Memory, func(field, message string) { l.Wrong(field, "%s", message) })
	if s.CPU == 0 {
		l.Fit("cpu", itoa(cores), "the least that Cloud Run has for it")
	}
	if s.Memory == 0 {
		l.Fit("memory", sdk.MemoryText(memory*mib), "the least that Cloud Run has for it")
	}
	c.Resources = &runpb.ResourceRequirements{Limits: map[string]string{"cpu": itoa(cores), "memory": itoa(memory) + "Mi"}}
	return c
}

// command sets entrypoint and arguments. An empty list is the same as none on
// the wire.
// https://cloud.google.com/run/docs/configuring/jobs/containers
func (l *plan) command(c *runpb.Container) {
	s := l.Spec
	l.TextArgv("Cloud Run")
	for _, f := range []struct {
		name string
		list sdk.Argv
	}{{"entrypoint", s.Entrypoint}, {"args", s.Args}, {"image_entrypoint", s.ImageEntrypoint}} {
		if len(f.list) > maxArgs {
			l.Bad(sdk.InvalidArgument, f.name, fmt.Sprint(len(f.list)), "Cloud Run takes at most %d arguments", maxArgs)
		}
	}
	c.Command, c.Args = l.Command("Cloud Run")
}

// reserved are the variables that Cloud Run sets itself.
// https://cloud.google.com/run/docs/container-contract#jobs-env-vars
func reserved() []string {
	return []string{"CLOUD_RUN_JOB", "CLOUD_RUN_EXECUTION", "CLOUD_RUN_TASK_INDEX", "CLOUD_RUN_TASK_ATTEMPT", "CLOUD_RUN_TASK_COUNT"}
}

func (l *plan) variables(c *runpb.Container) {
	for _, k := range sortedKeys(l.Spec.Env) {
		v := l.Spec.Env[k]
		switch {
		case !utf8.ValidString(v):
			l.Bad(sdk.Unimplemented, "env."+k, "", "is not UTF-8, and Cloud Run takes text alone")
		case utf8.RuneCountInString(k) > maxVariable || utf8.RuneCountInString(v) > maxVariable:
			l.Bad(sdk.InvalidArgument, "env."+k, fmt.Sprintf("%d bytes", len(v)), "Cloud Run gives a variable at most %d characters: put it into a secret", maxVariable)
		}
		c.Env = append(c.Env, &runpb.EnvVar{Name: k, Values: &runpb.EnvVar_Value{Value: v}})
	}
	for _, names := range [][]string{sortedKeys(l.Spec.Env), sortedKeys(l.Spec.Secrets)} {
		for _, k := range names {
			if slices.Contains(reserved(), k) {
				l.Bad(sdk.InvalidArgument, "env."+k, "", "Cloud Run sets this variable itself")
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
	if l.Spec.Name != "" {
		labels[labelName], annotations[labelName] = gcp.LabelValue(l.Spec.Name), l.Spec.Name
	}
	for k, v := range l.place.Labels {
		labels[k] = v
	}
	for _, k := range sortedKeys(l.Spec.Labels) {
		if msg := gcp.CheckLabel(k, l.Spec.Labels[k]); msg != "" {
			l.Bad(sdk.InvalidArgument, "labels", k, "%s", msg)
		}
		labels[k] = l.Spec.Labels[k]
	}
	if len(labels) > gcp.MaxLabels {
		l.Bad(sdk.InvalidArgument, "labels", fmt.Sprint(len(l.Spec.Labels)), "a job has at most %d labels, ours and the provider's among them; these would be %d", gcp.MaxLabels, len(labels))
	}
	return labels, annotations
}

package appplatform

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/internal/cloud/do"
	"github.com/windlass-run/windlass/sdk"
)

const opPrepare = "prepare job"

// envForm is that of a variable's name.
// https://docs.digitalocean.com/products/app-platform/reference/app-spec/
var envForm = form(`^[_A-Za-z][_A-Za-z0-9]*$`)

// plan is a launch in the making.
type plan struct {
	p        *provider
	spec     sdk.JobSpec
	opts     options
	place    placement
	nonce    string
	problems []sdk.Problem
	fitted   []sdk.Fitted
	read     map[string]string
}

func (l *plan) bad(code sdk.Code, field, value, format string, args ...any) {
	l.problems = append(l.problems, sdk.Problem{Field: field, Value: value, Message: fmt.Sprintf(format, args...), Code: code})
}

func (l *plan) fit(field, value, why string) {
	l.fitted = append(l.fitted, sdk.Fitted{Field: field, Value: value, Why: why})
}

// exitCode reports whether the command is to write its exit code.
func (l *plan) exitCode() bool { return l.place.ExitCode != nil && *l.place.ExitCode }

// PrepareJob implements sdk.JobRunner. It makes no call to DigitalOcean's API; the
// image's registry is asked where the image's own entry point has to be known.
func (p *provider) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	if err := ctx.Err(); err != nil {
		return sdk.Launch{}, p.fail(sdk.CodeOf(err), opPrepare, err)
	}
	l := sdk.Launch{V: sdk.LaunchVersion, Kind: Kind, Identity: p.identity, RunID: r.RunID, AttemptID: r.AttemptID, Attempt: r.Attempt,
		Owner: p.owner, LedgerID: p.ledgerID, Secrets: r.Spec.Secrets, Stdin: r.Spec.Stdin, Expires: r.Expires,
		Resubmit: sdk.ResubmitRule{By: sdk.SubmitByName}}
	w := &plan{p: p, spec: r.Spec, nonce: r.AttemptID.String(), problems: sdk.ValidateSpec(r.Spec)}
	if ps := optionsSchema().Validate("options", r.Spec.Options); len(ps) > 0 {
		w.problems = append(w.problems, ps...)
	} else if len(r.Spec.Options) > 0 {
		if err := json.Unmarshal(r.Spec.Options, &w.opts); err != nil {
			return l, p.fail(sdk.InvalidArgument, opPrepare, err)
		}
	}
	w.place = p.cfg.placement.with(w.opts.placement)
	for _, problem := range w.opts.problems() {
		problem.Field = "options." + problem.Field
		w.problems = append(w.problems, problem)
	}
	w.refuseFields()
	timeout := w.timeout()
	job := &godo.AppJobSpec{Name: jobName, Kind: godo.AppJobSpecKind_PreDeploy, Image: w.image(), Envs: w.variables(),
		InstanceSizeSlug: w.size(), InstanceCount: 1, Timeout: timeout.String(),
		Termination: &godo.AppJobSpecTermination{GracePeriodSeconds: int32(w.grace() / time.Second)}} //nolint:gosec // at most 600
	w.checkSecrets()
	// Last: an image's registry is asked only where nothing else is wrong.
	var err error
	if job.RunCommand, err = w.command(ctx, job.Image); err != nil {
		return l, err
	}
	spec := &godo.AppSpec{Name: do.AppName(r.AttemptID), Region: w.place.Region, Envs: w.labels(r), Jobs: []*godo.AppJobSpec{job}}
	l.NativeDeadline, l.Problems, l.Fitted, l.Read = timeout, w.problems, w.fitted, w.read
	if len(l.Problems) > 0 {
		return l, nil
	}
	l.Names = map[string]string{"app": spec.Name}
	req := request{App: &godo.AppCreateRequest{Spec: spec, ProjectID: w.place.Project}, Login: sdk.SecretRef(w.place.RegistryCredentials)}
	if job.Image.RegistryType == godo.ImageSourceSpecRegistryType_DOCR {
		req.Login = ""
	}
	if w.exitCode() {
		req.Nonce = w.nonce
	}
	if l.Request, err = req.encode(); err != nil {
		return l, p.fail(sdk.Internal, opPrepare, err)
	}
	return l, nil
}

// refuseFields refuses what App Platform has no place for.
func (l *plan) refuseFields() {
	s := l.spec
	no := func(field, value, why string) { l.bad(sdk.Unimplemented, field, value, "%s", why) }
	if s.Workdir != "" {
		no("workdir", s.Workdir, "App Platform runs a command in the folder that the image names; set it there, or change it in the command")
	}
	if s.User != "" {
		no("user", s.User, "App Platform runs a container as the user that its image names; set it there")
	}
	if s.GPU > 0 {
		no("gpu", itoa(s.GPU), "App Platform has no GPUs for jobs")
	}
	if s.EphemeralStorage > 0 {
		no("ephemeral_storage", memoryText(s.EphemeralStorage), "App Platform gives each container the same disk")
	}
	if s.PIDs > 0 {
		no("pids", itoa(s.PIDs), "App Platform has no bound on processes")
	}
	if s.Network != "" {
		no("network", s.Network, "a job of App Platform joins no network")
	}
	for i, m := range s.Mounts {
		no(fmt.Sprintf("mounts[%d]", i), m.Target, "App Platform has no volumes")
	}
	for i, f := range s.Files {
		no(fmt.Sprintf("files[%d]", i), f.Path, "App Platform has no place for input files; put them into the image, or fetch them in the job")
	}
	if s.Stdin == sdk.StdinAttached || s.Stdin == sdk.StdinSpooled {
		no("stdin", string(s.Stdin), "App Platform gives a job no input")
	}
	if s.Profile == sdk.ProfileStrict || s.Profile == sdk.ProfileStandard {
		no("profile", string(s.Profile), "App Platform can't bound processes or take the network away; leave it out, or choose permissive")
	}
	if l.opts.App != "" {
		no("options.app", l.opts.App, "a run can't be a job of an app that is there already: adding it rewrites the whole spec, which has no version to compare, so that two changes at once lose one of them; "+
			"it deploys every other component and job again, twice for each run; and a change whose reply was lost can't be sent again without running the job twice. Leave it out: a run has an app of its own")
	}
}

// timeout is the platform's own bound: a tenth above the job's, which is kept by
// whoever holds the run, and the longest that there is where the job has none.
func (l *plan) timeout() time.Duration {
	want := l.spec.Timeout
	switch {
	case want <= 0:
		l.fit("timeout", maxTimeout.String(), "the longest that App Platform lets a deployment's job run")
		return maxTimeout
	case want > maxTimeout:
		l.bad(sdk.Unimplemented, "timeout", want.String(), "App Platform ends a deployment's job after %s", maxTimeout)
		return maxTimeout
	}
	native := (want + want/10 + time.Second - 1).Truncate(time.Second)
	return min(max(native, time.Second), maxTimeout)
}

// grace is the time between TERM and KILL.
func (l *plan) grace() time.Duration {
	want := l.spec.Grace
	switch {
	case want == nil:
		l.fit("grace", defaultGrace.String(), "App Platform's own is two minutes")
		return defaultGrace
	case l.place.ReadBy == "":
		l.bad(sdk.Unimplemented, "grace", want.String(), "whether TERM reaches the job depends on who reads a run command, a shell or not; find out with a job that traps TERM, and set command_read_by: shell or words")
		return defaultGrace
	case *want < minGrace || *want > maxGrace || *want%time.Second != 0:
		l.bad(sdk.Unimplemented, "grace", want.String(), "App Platform takes 1 to 600 whole seconds")
		return defaultGrace
	}
	return *want
}

// size chooses the instance size.
func (l *plan) size() string {
	s := l.spec
	if s.CPU < 0 || s.Memory < 0 {
		return "" // sdk.ValidateSpec has said so
	}
	bad := func(field, value, message string) { l.bad(sdk.InvalidArgument, field, value, "%s", message) }
	chosen := l.opts.Size
	if chosen == "" && s.CPU == 0 && s.Memory == 0 {
		chosen = l.place.Size
	}
	if chosen == "" {
		got := fitSize(s.CPU, s.Memory, bad)
		if s.CPU == 0 {
			l.fit("cpu", cpuText(got.cores*1000), "that of "+got.slug)
		}
		if s.Memory == 0 {
			l.fit("memory", memoryText(got.memory*mib), "that of "+got.slug)
		}
		return got.slug
	}
	if s.CPU > 0 || s.Memory > 0 {
		i := slices.IndexFunc(sizes(), func(z size) bool { return z.slug == chosen })
		if i < 0 || s.CPU > 0 && sizes()[i].cores*1000 != s.CPU || s.Memory > 0 && sizes()[i].memory*mib != s.Memory {
			bad("options.instance_size", chosen, "is not known to have the cores and the memory that are set; leave out one or the other")
		}
	}
	return chosen
}

// variables are the job's own.
func (l *plan) variables() []*godo.AppVariableDefinition {
	var out []*godo.AppVariableDefinition
	for _, k := range slices.Sorted(maps.Keys(l.spec.Env)) {
		v, field := l.spec.Env[k], "env."+k
		switch {
		case !utf8.ValidString(v):
			l.bad(sdk.Unimplemented, field, "", "is not UTF-8, and App Platform takes text alone")
		case k != "" && !envForm().MatchString(k):
			l.bad(sdk.Unimplemented, field, k, "App Platform's variables have letters, digits and _ only, and begin with no digit")
		case slices.Contains(reserved(), k):
			l.bad(sdk.InvalidArgument, field, "", "the app has a variable of this name")
		}
		l.bindable(field, v)
		out = append(out, &godo.AppVariableDefinition{Key: k, Value: v, Scope: godo.AppVariableScope_RunTime, Type: godo.AppVariableType_General})
	}
	return out
}

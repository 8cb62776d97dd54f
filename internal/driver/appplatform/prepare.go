package appplatform

import (
	"context"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/digitalocean/godo"

	"github.com/windlass-run/windlass/internal/cloud/do"
	"github.com/windlass-run/windlass/internal/driver/launch"
	"github.com/windlass-run/windlass/sdk"
)

const opPrepare = "prepare job"

// envForm is that of a variable's name.
// https://docs.digitalocean.com/products/app-platform/reference/app-spec/
var envForm = form(`^[_A-Za-z][_A-Za-z0-9]*$`)

// plan is a launch in the making.
type plan struct {
	launch.Draft
	p     *provider
	opts  options
	place placement
	nonce string
	read  map[string]string
}

// exitCode reports whether the command is to write its exit code.
func (l *plan) exitCode() bool { return l.place.ExitCode != nil && *l.place.ExitCode }

// PrepareJob implements sdk.JobRunner. It makes no call to DigitalOcean's API; the
// image's registry is asked where the image's own entry point has to be known.
func (p *provider) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	if err := ctx.Err(); err != nil {
		return sdk.Launch{}, p.fail(sdk.CodeOf(err), opPrepare, err)
	}
	l := launch.For(r, sdk.SubmitByName, p.identity, p.owner, p.ledgerID)
	w := &plan{Draft: launch.New(r.Spec, support()), p: p, nonce: r.AttemptID.String()}
	w.Options(optionsSchema(), &w.opts)
	w.place = p.cfg.placement.with(w.opts.placement)
	w.Within("options", w.opts.problems())
	w.refuseFields()
	timeout := w.timeout()
	job := &godo.AppJobSpec{Name: jobName, Kind: godo.AppJobSpecKind_PreDeploy, Image: w.image(), Envs: w.variables(),
		InstanceSizeSlug: w.size(), InstanceCount: 1, Timeout: timeout.String(),
		Termination: &godo.AppJobSpecTermination{GracePeriodSeconds: int32(w.grace() / time.Second)}} //nolint:gosec // at most 600
	w.checkSecrets()
	// What is wrong already is told also where the image's registry can't be reached.
	var err error
	if job.RunCommand, err = w.command(ctx, job.Image); err != nil && len(w.Problems) == 0 {
		return l, err
	}
	spec := &godo.AppSpec{Name: do.AppName(r.AttemptID), Region: w.place.Region, Envs: w.labels(r), Jobs: []*godo.AppJobSpec{job}}
	l.NativeDeadline, l.Problems, l.Fitted, l.Read = timeout, w.Problems, w.Fitted, w.read
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
	l.Permissive("App Platform")
	if l.opts.App != "" {
		l.Bad(sdk.Unimplemented, "options.app", l.opts.App, "a run can't be a job of an app that is there already: adding it rewrites the whole spec, which has no version to compare, so that two changes at once lose one of them; "+
			"it deploys every other component and job again, twice for each run; and a change whose reply was lost can't be sent again without running the job twice. Leave it out: a run has an app of its own")
	}
}

// timeout is the platform's own bound: a tenth above the job's, which is kept by
// whoever holds the run, and the longest that there is where the job has none.
func (l *plan) timeout() time.Duration {
	want := l.Spec.Timeout
	switch {
	case want <= 0:
		l.Fit("timeout", maxTimeout.String(), "the longest that App Platform lets a deployment's job run")
		return maxTimeout
	case want > maxTimeout:
		l.Lacks("timeout", "App Platform ends a deployment's job after %s", maxTimeout)
		return maxTimeout
	}
	native := (want + want/10 + time.Second - 1).Truncate(time.Second)
	return min(max(native, time.Second), maxTimeout)
}

// grace is the time between TERM and KILL.
func (l *plan) grace() time.Duration {
	want := l.Spec.Grace
	switch {
	case want == nil:
		l.Fit("grace", defaultGrace.String(), "App Platform's own is two minutes")
		return defaultGrace
	case l.place.ReadBy == "":
		l.Lacks("grace", "whether TERM reaches the job depends on who reads a run command, a shell or not; find out with a job that traps TERM, and set command_read_by: shell or words")
		return defaultGrace
	case *want < minGrace || *want > maxGrace || *want%time.Second != 0:
		l.Lacks("grace", "App Platform takes 1 to 600 whole seconds")
		return defaultGrace
	}
	return *want
}

// size chooses the instance size.
func (l *plan) size() string {
	s := l.Spec
	if s.CPU < 0 || s.Memory < 0 {
		return "" // sdk.ValidateSpec has said so
	}
	chosen := l.opts.Size
	if chosen == "" && s.CPU == 0 && s.Memory == 0 {
		chosen = l.place.Size
	}
	if chosen == "" {
		got := fitSize(s.CPU, s.Memory, func(field, message string) { l.Wrong(field, "%s", message) })
		if s.CPU == 0 {
			l.Fit("cpu", sdk.CPUText(got.cores*1000), "that of "+got.slug)
		}
		if s.Memory == 0 {
			l.Fit("memory", sdk.MemoryText(got.memory*mib), "that of "+got.slug)
		}
		return got.slug
	}
	if s.CPU > 0 || s.Memory > 0 {
		i := slices.IndexFunc(sizes(), func(z size) bool { return z.slug == chosen })
		if i < 0 || s.CPU > 0 && sizes()[i].cores*1000 != s.CPU || s.Memory > 0 && sizes()[i].memory*mib != s.Memory {
			l.Bad(sdk.InvalidArgument, "options.instance_size", chosen, "is not known to have the cores and the memory that are set; leave out one or the other")
		}
	}
	return chosen
}

// variables are the job's own.
func (l *plan) variables() []*godo.AppVariableDefinition {
	var out []*godo.AppVariableDefinition
	for _, k := range slices.Sorted(maps.Keys(l.Spec.Env)) {
		v, field := l.Spec.Env[k], "env."+k
		switch {
		case !utf8.ValidString(v):
			l.Bad(sdk.Unimplemented, field, "", "is not UTF-8, and App Platform takes text alone")
		case k != "" && !envForm().MatchString(k):
			l.Bad(sdk.Unimplemented, field, k, "App Platform's variables have letters, digits and _ only, and begin with no digit")
		case slices.Contains(reserved(), k):
			l.Bad(sdk.InvalidArgument, field, "", "the app has a variable of this name")
		}
		l.bindable(field, v)
		out = append(out, &godo.AppVariableDefinition{Key: k, Value: v, Scope: godo.AppVariableScope_RunTime, Type: godo.AppVariableType_General})
	}
	return out
}

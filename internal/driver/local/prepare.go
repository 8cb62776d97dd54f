//go:build linux || darwin

package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"time"

	"github.com/windlass-run/windlass/internal/driver/local/cgroup"
	"github.com/windlass-run/windlass/sdk"
)

// draft is a launch in the making.
type draft struct {
	p        *provider
	r        sdk.PrepareJobRequest
	request  request
	problems []sdk.Problem
}

func (d *draft) bad(code sdk.Code, field, value, format string, args ...any) {
	d.problems = append(d.problems, sdk.Problem{Field: field, Value: value, Message: fmt.Sprintf(format, args...), Code: code})
}

// PrepareJob looks at the job's folder and user, and at what control groups
// there are.
func (p *provider) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	const op = "prepare job"
	if err := ctx.Err(); err != nil {
		return sdk.Launch{}, p.fail(op, context.Cause(ctx))
	}
	s := r.Spec
	d := &draft{p: p, r: r, problems: sdk.ValidateSpec(s)}
	d.request = request{V: requestVersion, Name: s.Name, Args: append(append(sdk.Argv{}, s.Entrypoint...), s.Args...),
		Env: s.Env, Grace: defaultGrace, MaxOutput: p.config.MaxOutput, NoCgroup: p.config.Cgroup == cgroupOff, Labels: s.Labels}
	d.command()
	d.container()
	d.times()
	d.options()
	d.folder()
	d.user()
	d.limits()
	l := sdk.Launch{
		V: sdk.LaunchVersion, Kind: Kind, Identity: p.identity,
		RunID: r.RunID, AttemptID: r.AttemptID, Attempt: r.Attempt, Owner: p.owner, LedgerID: p.ledgerID,
		Names:   map[string]string{"folder": r.AttemptID.String()},
		Secrets: s.Secrets, Stdin: s.Stdin,
		Resubmit:       sdk.ResubmitRule{By: sdk.SubmitByName},
		NativeDeadline: d.request.Deadline, Expires: r.Expires,
	}
	sort.SliceStable(d.problems, func(i, j int) bool { return d.problems[i].Field < d.problems[j].Field })
	if l.Problems = d.problems; len(l.Problems) > 0 {
		return l, nil
	}
	raw, err := sdk.EncodeCanonical(d.request)
	if err != nil {
		return sdk.Launch{}, p.fail(op, err)
	}
	l.Request = raw
	return l, nil
}

func (d *draft) command() {
	s := d.r.Spec
	switch {
	case len(d.request.Args) == 0:
		d.bad(sdk.InvalidArgument, "args", "", "is empty; a local job needs a command")
	case d.request.Args[0] == "" && len(s.Entrypoint) == 0:
		d.bad(sdk.InvalidArgument, "args[0]", "", "is empty; a command needs a name")
	}
	for _, name := range []string{attemptVariable, runVariable} {
		if _, ok := s.Env[name]; ok {
			d.bad(sdk.InvalidArgument, "env", name, "is set by windlass for each job")
		}
		if _, ok := s.Secrets[name]; ok {
			d.bad(sdk.InvalidArgument, "secrets", name, "is set by windlass for each job")
		}
	}
	if len(s.Secrets) > 0 && d.p.secrets == nil {
		d.bad(sdk.FailedPrecondition, "secrets", "", "nobody here can resolve secrets")
	}
}

// container refuses what only a container can have.
func (d *draft) container() {
	s := d.r.Spec
	const what = "a local job is a process of this machine, not a container; use a provider of kind docker (--on docker)"
	refuse := func(field, value string) { d.bad(sdk.Unimplemented, field, value, what) }
	if s.Image != "" {
		refuse("image", s.Image)
	}
	if len(s.ImageEntrypoint) > 0 {
		refuse("image_entrypoint", "")
	}
	for i, m := range s.Mounts {
		refuse(fmt.Sprintf("mounts[%d]", i), m.Target)
	}
	for i, f := range s.Files {
		d.bad(sdk.Unimplemented, fmt.Sprintf("files[%d]", i), f.Path,
			"would be written into this machine's own folders; write the file before the run, or use a provider of kind docker")
	}
	if s.GPU > 0 {
		d.bad(sdk.Unimplemented, "gpu", s.Value("gpu"), "a process of this machine sees all of its devices; leave gpu out, or use a provider of kind docker")
	}
	if s.EphemeralStorage > 0 {
		d.bad(sdk.Unimplemented, "ephemeral_storage", s.Value("ephemeral_storage"), "the disk of a process can't be bounded")
	}
	if s.Network != "" && s.Network != "host" {
		d.bad(sdk.Unimplemented, "network", s.Network, "a local job has the machine's own network (host)")
	}
	if s.Profile == sdk.ProfileStrict || s.Profile == sdk.ProfileStandard {
		d.bad(sdk.Unimplemented, "profile", string(s.Profile), "nothing shuts a local job in; use a provider of kind docker, or the profile permissive")
	}
}

func (d *draft) times() {
	s := d.r.Spec
	if s.Grace != nil {
		if *s.Grace > maxGrace {
			d.bad(sdk.InvalidArgument, "grace", s.Grace.String(), "is longer than %s", maxGrace)
		}
		d.request.Grace = *s.Grace
	}
	if s.Timeout > 0 {
		d.request.Deadline = min(s.Timeout, maxDeadline/11*10)
		d.request.Deadline += d.request.Deadline / 10
		d.request.Deadline = max(d.request.Deadline, time.Millisecond)
	}
}

// options reads what Driver.Options describes.
func (d *draft) options() {
	ps := optionsSchema().Validate("options", d.r.Spec.Options)
	if d.problems = append(d.problems, ps...); len(ps) > 0 {
		return
	}
	var o struct {
		MaxOutput int64 `json:"max_output"`
	}
	if err := optionsSchema().Decode("options", d.r.Spec.Options, &o); err != nil {
		d.bad(sdk.InvalidArgument, "options", "", "%v", err)
	}
	if o.MaxOutput > 0 {
		d.request.MaxOutput = o.MaxOutput
	}
}

// folder checks the job's folder. A relative one counts from the submitter's,
// which is not known before RunJob and stands in no launch.
func (d *draft) folder() {
	dir := d.r.Spec.Workdir
	if dir == "" {
		return
	}
	d.request.Dir = dir
	if !filepath.IsAbs(dir) {
		if d.r.Ambient == nil {
			d.bad(sdk.InvalidArgument, "workdir", dir, "needs an absolute path, as there is no folder that it could count from")
			return
		}
		dir = filepath.Join(d.r.Ambient.Dir, dir)
	}
	st, err := os.Stat(dir)
	switch {
	case err != nil:
		d.bad(sdk.FailedPrecondition, "workdir", d.r.Spec.Workdir, "%v", err)
	case !st.IsDir():
		d.bad(sdk.FailedPrecondition, "workdir", d.r.Spec.Workdir, "is not a folder")
	}
}

func (d *draft) user() {
	name := d.r.Spec.User
	if name == "" {
		return
	}
	u, err := lookUpUser(name)
	if err != nil {
		d.bad(sdk.FailedPrecondition, "user", name, "%v", err)
		return
	}
	if os.Geteuid() != 0 {
		if int(u.UID) != os.Geteuid() || int(u.GID) != os.Getegid() {
			d.bad(sdk.FailedPrecondition, "user", name, "only root can run a job as somebody else, and windlass runs as UID %d", os.Geteuid())
		}
		return // it is oneself
	}
	d.request.User = u
}

// limits finds out which limits can be set here.
func (d *draft) limits() {
	s := d.r.Spec
	l := cgroup.Limits{Memory: s.Memory, CPU: s.CPU, PIDs: s.PIDs}
	if l.Memory < 0 || l.CPU < 0 || l.PIDs < 0 || l.IsZero() {
		return
	}
	if l.CPU > 0 && l.CPU < cgroup.MinCPU {
		d.bad(sdk.InvalidArgument, "cpu", s.Value("cpu"), "the kernel shares cores out in hundredths; at least %d thousandths", cgroup.MinCPU)
	}
	if l.Memory > 0 && l.Memory < minMemory {
		d.bad(sdk.InvalidArgument, "memory", s.Value("memory"), "no program starts in less than %dm", minMemory>>20)
	}
	host, err := cgroup.Detect()
	if err != nil {
		d.bad(sdk.FailedPrecondition, "memory", "", "%v", err)
		return
	}
	for _, lack := range host.Lacks(l) {
		d.bad(sdk.FailedPrecondition, lack.Controller, s.Value(lack.Controller),
			"can't be limited here: no control group can be made: %s; leave it out, or %s", lack.Why, delegate())
	}
	d.request.Limits = l
}

package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

const (
	minMemory = 6 << 20
	minCPU    = 10
	// maxCPU keeps the number of nanoseconds of a period in range.
	maxCPU = 1 << 40
)

// The keys of Launch.Read and of a handle's metadata.
const keyEngine = "engine_id"

// draft is a launch in the making.
type draft struct {
	p       *provider
	req     sdk.PrepareJobRequest
	spec    sdk.JobSpec
	opts    options
	info    *system.Info
	profile profile

	logDriver       string
	delivery        sdk.SecretDelivery
	files           string
	dns             []netip.Addr
	imageEntrypoint []string

	problems []sdk.Problem
	fitted   []sdk.Fitted
	warnings []string
}

func (d *draft) bad(code sdk.Code, field, value, format string, args ...any) {
	d.problems = append(d.problems, sdk.Problem{Field: field, Value: value, Message: fmt.Sprintf(format, args...), Code: code})
}

// PrepareJob implements sdk.JobRunner. It asks the engine what it can do, at
// most once a minute, and for the image or the network only where the spec
// makes that needed.
func (p *provider) PrepareJob(ctx context.Context, r sdk.PrepareJobRequest) (sdk.Launch, error) {
	const op = "prepare job"
	info, err := p.engineInfo(ctx, op)
	if err != nil {
		return sdk.Launch{}, err
	}
	d := &draft{p: p, req: r, spec: r.Spec, info: info, profile: profileOf(r.Spec)}
	d.problems = sdk.ValidateSpec(r.Spec)
	if ps := optionsSchema().Validate("options", r.Spec.Options); len(ps) > 0 {
		d.problems = append(d.problems, ps...)
	} else if err := optionsSchema().Decode("options", r.Spec.Options, &d.opts); err != nil {
		return sdk.Launch{}, err
	}
	socket := ""
	if e := p.client.Endpoint(); e.Socket {
		socket = strings.TrimPrefix(e.Host, "unix://")
	}
	d.problems = append(d.problems, d.profile.loosened(d.spec, d.opts, socket)...)
	d.fitted = d.profile.fit(&d.spec)
	d.delivery, d.files = p.deliveries(d.spec)
	d.checkText()
	d.checkResources()
	d.checkOptions()
	d.checkFiles()
	d.checkMounts()
	// What is wrong already is told also where the engine doesn't answer.
	if err := d.checkImage(ctx, op); err != nil && len(d.problems) == 0 {
		return sdk.Launch{}, err
	}
	if err := d.checkNetwork(ctx, op); err != nil && len(d.problems) == 0 {
		return sdk.Launch{}, err
	}
	return d.launch()
}

// deliveries says how secrets and input files reach the container.
func (p *provider) deliveries(s sdk.JobSpec) (secrets sdk.SecretDelivery, files string) {
	if len(s.Secrets) > 0 {
		secrets = sdk.SecretVisibleEnv
		if p.local {
			secrets = sdk.SecretFile
		}
	}
	if len(s.Files) > 0 {
		files = filesCopy
		if p.local {
			files = filesBind
		}
	}
	return secrets, files
}

func (d *draft) launch() (sdk.Launch, error) {
	r := d.req
	l := sdk.Launch{
		V: sdk.LaunchVersion, Kind: Kind, Identity: d.p.identity,
		RunID: r.RunID, AttemptID: r.AttemptID, Attempt: r.Attempt,
		Owner: d.p.owner, LedgerID: d.p.ledgerID,
		Names:    map[string]string{"container": containerName(r.AttemptID)},
		Secrets:  d.spec.Secrets,
		Files:    d.spec.Files,
		Stdin:    d.spec.Stdin,
		Resubmit: sdk.ResubmitRule{By: sdk.SubmitByName},
		Fitted:   d.fitted,
		Warnings: d.warnings,
		Read:     map[string]string{keyEngine: d.info.ID},
		Expires:  r.Expires,
	}
	sort.SliceStable(d.problems, func(i, j int) bool { return d.problems[i].Field < d.problems[j].Field })
	l.Problems = d.problems
	if len(d.problems) > 0 {
		return l, nil
	}
	uid := -1
	if n, ok := numericUser(d.spec.User); ok {
		uid = n
	}
	raw, err := sdk.EncodeCanonical(request{
		Name: containerName(r.AttemptID), Platform: d.opts.Platform, Pull: d.pull(), Body: d.body(),
		Secrets: d.delivery, Files: d.files, UID: uid,
	})
	if err != nil {
		return sdk.Launch{}, err
	}
	l.Request = raw
	return l, nil
}

func (d *draft) pull() string {
	if d.opts.Pull == "" {
		return pullMissing
	}
	return d.opts.Pull
}

// checkText refuses bytes that the engine's JSON would change in silence.
func (d *draft) checkText() {
	for field, list := range map[string]sdk.Argv{"entrypoint": d.spec.Entrypoint, "args": d.spec.Args, "image_entrypoint": d.spec.ImageEntrypoint} {
		for i, a := range list {
			if !utf8.ValidString(a) {
				d.bad(sdk.Unimplemented, fmt.Sprintf("%s[%d]", field, i), a, "is not UTF-8, which the engine's API can't carry")
			}
		}
	}
	for k, v := range d.spec.Env {
		if !utf8.ValidString(v) {
			d.bad(sdk.Unimplemented, "env."+k, "", "is not UTF-8, which the engine's API can't carry")
		}
	}
	for k := range d.spec.Secrets {
		if _, ok := d.spec.Env[k+"_FILE"]; ok && d.delivery == sdk.SecretFile {
			d.bad(sdk.InvalidArgument, "env", k+"_FILE", "names the file of the secret %s and can't be set", k)
		}
	}
	if d.delivery == sdk.SecretVisibleEnv && !d.spec.AllowVisibleSecret {
		d.bad(sdk.FailedPrecondition, "secrets", strings.Join(slices.Sorted(maps.Keys(d.spec.Secrets)), ", "),
			"this engine doesn't share a memory file system with this machine, so a secret would be a variable that `docker inspect` shows; allow_visible_secret permits that")
	}
	if d.delivery == sdk.SecretFile || d.files == filesBind {
		for _, o := range d.info.SecurityOptions {
			for _, name := range []string{"selinux", "userns"} {
				if strings.Contains(o, "name="+name) {
					d.warnings = append(d.warnings, "the engine uses "+name+", which may keep the job from reading its secrets and input files")
				}
			}
		}
	}
	if w := d.spec.Workdir; w != "" && !path.IsAbs(w) {
		d.bad(sdk.InvalidArgument, "workdir", w, "wants an absolute path")
	}
}

func (d *draft) checkResources() {
	s, info := d.spec, d.info
	if s.EphemeralStorage > 0 {
		d.bad(sdk.Unimplemented, "ephemeral_storage", s.Value("ephemeral_storage"), "a Docker engine can't bound a container's disk on most storage drivers")
	}
	switch most := int64(info.NCPU) * 1000; {
	case s.CPU == 0:
	case s.CPU < minCPU || s.CPU > maxCPU:
		d.bad(sdk.InvalidArgument, "cpu", s.Value("cpu"), "%s cores or more", cores(minCPU))
	case !info.CPUCfsQuota:
		d.bad(sdk.FailedPrecondition, "cpu", s.Value("cpu"), "the engine at %s can't limit it", d.p.identity.Endpoint)
	case s.CPU > most && most > 0:
		d.bad(sdk.FailedPrecondition, "cpu", s.Value("cpu"), "the engine has %d cores", info.NCPU)
	}
	switch {
	case s.Memory == 0:
	case s.Memory < minMemory:
		d.bad(sdk.InvalidArgument, "memory", s.Value("memory"), "the engine takes %s or more", size(minMemory))
	case !info.MemoryLimit:
		d.bad(sdk.FailedPrecondition, "memory", s.Value("memory"), "the engine at %s can't limit it", d.p.identity.Endpoint)
	case !info.SwapLimit:
		d.warnings = append(d.warnings, "the engine can't limit swap: a job beyond its memory may swap instead of being killed")
	}
	if s.PIDs > 0 && !info.PidsLimit {
		if d.req.Spec.PIDs > 0 || d.profile.named {
			d.bad(sdk.FailedPrecondition, "pids", s.Value("pids"), "the engine at %s can't limit it", d.p.identity.Endpoint)
		}
		d.spec.PIDs = 0
		d.fitted = slices.DeleteFunc(d.fitted, func(f sdk.Fitted) bool { return f.Field == "pids" })
		d.warnings = append(d.warnings, "the engine can't limit the number of processes")
	}
	if g := s.Grace; g != nil && *g > maxGrace {
		d.bad(sdk.OutOfRange, "grace", g.String(), "at most %s", maxGrace)
	}
	if info.OSType != "" && info.OSType != "linux" {
		d.bad(sdk.Unimplemented, "image", s.Image, "the engine runs %s containers, only linux is known here", info.OSType)
	}
}

func (d *draft) checkOptions() {
	o := d.opts
	if _, err := platform(o.Platform); err != nil {
		d.bad(sdk.InvalidArgument, "options.platform", o.Platform, "%v", err)
	}
	for i, a := range o.DNS {
		addr, err := netip.ParseAddr(a)
		if err != nil {
			d.bad(sdk.InvalidArgument, fmt.Sprintf("options.dns[%d]", i), a, "is no address")
			continue
		}
		d.dns = append(d.dns, addr)
	}
	for i, h := range o.ExtraHosts {
		if name, addr, ok := strings.Cut(h, ":"); !ok || name == "" || addr == "" {
			d.bad(sdk.InvalidArgument, fmt.Sprintf("options.extra_hosts[%d]", i), h, "wants NAME:ADDRESS")
		}
	}
	if r := o.Runtime; r != "" && len(d.info.Runtimes) > 0 {
		if _, ok := d.info.Runtimes[r]; !ok {
			d.bad(sdk.FailedPrecondition, "options.runtime", r, "the engine has %s", strings.Join(slices.Sorted(maps.Keys(d.info.Runtimes)), ", "))
		}
	}
	d.logDriver = logDriver(d.info, o.LogDriver)
	if d.logDriver == logJSON {
		d.warnings = append(d.warnings, "the log driver "+d.logDriver+" replaces output that is not UTF-8")
	}
	if have := d.info.Plugins.Log; len(have) > 0 && !slices.Contains(have, d.logDriver) {
		d.bad(sdk.FailedPrecondition, "options.log_driver", d.logDriver, "the engine has %s", strings.Join(have, ", "))
	}
}

// checkFiles looks at what an engine of another machine can't do: its archive
// call writes to the container's own file system alone.
func (d *draft) checkFiles() {
	if d.files != filesCopy {
		return
	}
	for i, f := range d.spec.Files {
		field := fmt.Sprintf("files[%d].path", i)
		if d.profile.name == sdk.ProfileStrict {
			d.bad(sdk.Unimplemented, field, f.Path, "the profile strict has a read-only root, into which an engine of another machine can't copy")
		}
		for _, m := range d.spec.Mounts {
			if strings.HasPrefix(f.Path, path.Clean(m.Target)+"/") {
				d.bad(sdk.Unimplemented, field, f.Path, "an engine of another machine can't copy into the mount %s", m.Target)
			}
		}
	}
}

// checkMounts refuses to bind a folder of this machine that isn't there. Docker
// would make one for docker run -v, as root and empty, which is never what is meant.
func (d *draft) checkMounts() {
	if !d.p.local {
		return // nobody here can look at the engine's machine
	}
	for i, m := range d.spec.Mounts {
		if m.Type != sdk.MountBind {
			continue
		}
		if _, err := os.Stat(m.Source); errors.Is(err, fs.ErrNotExist) {
			d.bad(sdk.FailedPrecondition, fmt.Sprintf("mounts[%d].source", i), m.Source, "isn't there; make it first, or name a volume, which has no slash in its name")
		}
	}
}

func (d *draft) checkImage(ctx context.Context, op string) error {
	s := d.spec
	if s.Image == "" {
		d.bad(sdk.InvalidArgument, "image", "", "is missing: a container needs one")
		return nil
	}
	// An image may also be named by its ID.
	if _, err := reference.ParseAnyReference(s.Image); err != nil {
		d.bad(sdk.InvalidArgument, "image", s.Image, "%v", err)
		return nil
	}
	clearsArgs := s.Args != nil && len(s.Args) == 0
	if s.Entrypoint != nil && len(s.Entrypoint) == 0 && clearsArgs {
		d.bad(sdk.InvalidArgument, "args", "", "entrypoint and args are both empty, so there is nothing to run")
	}
	needsEntrypoint := clearsArgs && s.Entrypoint == nil
	if needsEntrypoint && s.ImageEntrypoint != nil {
		d.imageEntrypoint, needsEntrypoint = s.ImageEntrypoint, false
		if len(s.ImageEntrypoint) == 0 {
			d.bad(sdk.InvalidArgument, "args", "", "the image has no entrypoint and args is empty, so there is nothing to run")
		}
	}
	if !needsEntrypoint && d.pull() != pullNever {
		return nil
	}
	var found client.ImageInspectResult
	err := d.p.client.Call(ctx, op, func(ctx context.Context, api *client.Client) (err error) {
		found, err = api.ImageInspect(ctx, s.Image)
		return err
	})
	if errors.Is(err, sdk.NotFound) {
		if d.pull() == pullNever {
			d.bad(sdk.FailedPrecondition, "image", s.Image, "the engine doesn't have it, and options.pull is never")
		} else {
			d.bad(sdk.FailedPrecondition, "args", "", "to clear the image's arguments its entrypoint must be known: set image_entrypoint, or pull the image first")
		}
		return nil
	}
	if err != nil || !needsEntrypoint {
		return err
	}
	if found.Config == nil || len(found.Config.Entrypoint) == 0 {
		d.bad(sdk.InvalidArgument, "args", "", "the image has no entrypoint and args is empty, so there is nothing to run")
		return nil
	}
	d.imageEntrypoint = found.Config.Entrypoint
	return nil
}

// checkNetwork looks a named network up: the engine itself would only do so
// when the container starts.
func (d *draft) checkNetwork(ctx context.Context, op string) error {
	switch n := d.spec.Network; {
	case n == "" || n == "default" || n == "bridge" || n == "host" || n == networkNone:
	case strings.HasPrefix(n, "container:"):
		if n == "container:" {
			d.bad(sdk.InvalidArgument, "network", n, "wants container:NAME")
		}
	default:
		err := d.p.client.Call(ctx, op, func(ctx context.Context, api *client.Client) error {
			_, err := api.NetworkInspect(ctx, n, client.NetworkInspectOptions{})
			return err
		})
		if errors.Is(err, sdk.NotFound) || cerrdefs.IsNotFound(err) {
			d.bad(sdk.FailedPrecondition, "network", n, "the engine has no such network")
			return nil
		}
		return err
	}
	return nil
}

package docker

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/windlass-run/windlass/sdk"
)

const (
	namePrefix  = "windlass-"
	secretsPath = "/run/secrets"

	nanosPerMilli = int64(time.Second / 1000)
	tmpfsMode     = 0o1777

	// noLogBound is a size that no log reaches: the log driver local can't be
	// told to have no bound.
	noLogBound = "1000000g"
)

// request is a launch's request: the engine's own body of POST
// /containers/create, and what RunJob does around that call.
type request struct {
	Name     string                  `json:"name"`
	Platform string                  `json:"platform,omitzero"`
	Pull     string                  `json:"pull"`
	Body     container.CreateRequest `json:"body"`
	// Secrets is how secret values reach the container: file or visible_env.
	Secrets sdk.SecretDelivery `json:"secrets,omitzero"`
	// Files is how input files do: bind or copy.
	Files string `json:"files,omitzero"`
	// UID is the user that input files are given to; -1 is whoever wrote them.
	UID int `json:"uid"`
}

// The ways of input files.
const (
	filesBind = "bind"
	filesCopy = "copy"
)

func containerName(attempt sdk.ID) string { return namePrefix + attempt.String() }

func decodeRequest(raw json.RawMessage) (request, error) {
	var r request
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, err
	}
	if r.Name == "" || r.Body.Config == nil || r.Body.HostConfig == nil {
		return r, fmt.Errorf("the request has no name or no body")
	}
	return r, nil
}

// platform reads OS/ARCH[/VARIANT].
func platform(s string) (*ocispec.Platform, error) {
	if s == "" {
		return nil, nil
	}
	parts := strings.Split(s, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return nil, fmt.Errorf("wants OS/ARCH or OS/ARCH/VARIANT")
	}
	p := &ocispec.Platform{OS: parts[0], Architecture: parts[1]}
	if len(parts) == 3 {
		p.Variant = parts[2]
	}
	return p, nil
}

// body builds what the engine is asked to create. All that the engine could
// refuse was looked at before; nothing here fails.
func (d *draft) body() container.CreateRequest {
	s, o := d.spec, d.opts
	cfg := &container.Config{
		Image:      s.Image,
		User:       s.User,
		WorkingDir: s.Workdir,
		Hostname:   o.Hostname,
		StopSignal: o.StopSignal,
		Env:        d.env(),
		Labels:     d.labels(),
	}
	cfg.Entrypoint, cfg.Cmd = d.command()
	if s.Stdin != sdk.StdinNone {
		cfg.OpenStdin, cfg.StdinOnce, cfg.AttachStdin = true, true, true
	}
	if s.Grace != nil {
		// Only for others who stop the container: the engine's own shutdown.
		seconds := int((*s.Grace + time.Second - 1) / time.Second)
		cfg.StopTimeout = &seconds
	}
	host := &container.HostConfig{
		NetworkMode: container.NetworkMode(s.Network),
		LogConfig:   d.logConfig(),
		ExtraHosts:  o.ExtraHosts,
		DNS:         d.dns,
		ShmSize:     o.ShmSize,
		CapAdd:      o.CapAdd,
		CapDrop:     o.CapDrop,
		Runtime:     o.Runtime,
		Init:        o.Init,
		Mounts:      d.mounts(),
		Resources: container.Resources{
			Memory: s.Memory,
			// Memory and swap together: no swap comes on top.
			MemorySwap: s.Memory,
			NanoCPUs:   s.CPU * nanosPerMilli,
		},
		// The engine would remove the exit code and the output with it.
		AutoRemove:    false,
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
	}
	if s.PIDs > 0 {
		host.PidsLimit = &s.PIDs
	}
	if s.GPU > 0 {
		host.DeviceRequests = []container.DeviceRequest{{Count: int(s.GPU), Capabilities: [][]string{{"gpu"}}}}
	}
	for _, u := range o.Ulimits {
		host.Ulimits = append(host.Ulimits, &container.Ulimit{Name: u.Name, Soft: u.Soft, Hard: u.Hard})
	}
	d.profile.apply(host, s)
	return container.CreateRequest{Config: cfg, HostConfig: host}
}

// command returns the engine's two lists. An empty entrypoint clears the
// image's, nil leaves it, and the engine takes the image's arguments only when
// there are none here and the entrypoint isn't set.
func (d *draft) command() (entrypoint, cmd []string) {
	s := d.spec
	if s.Entrypoint == nil && s.Args != nil && len(s.Args) == 0 {
		// The engine takes an empty list for "the image's own", unless the
		// entrypoint is given too.
		return slices.Clone(d.imageEntrypoint), []string{}
	}
	if s.Entrypoint != nil {
		entrypoint = slices.Clone([]string(s.Entrypoint))
		if len(entrypoint) == 0 {
			entrypoint = []string{}
		}
	}
	return entrypoint, slices.Clone([]string(s.Args))
}

func (d *draft) env() []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(d.spec.Env)) {
		out = append(out, k+"="+d.spec.Env[k])
	}
	if d.delivery == sdk.SecretFile {
		for _, k := range slices.Sorted(maps.Keys(d.spec.Secrets)) {
			out = append(out, k+"_FILE="+path.Join(secretsPath, k))
		}
	}
	return out
}

func (d *draft) labels() map[string]string {
	out := maps.Clone(d.spec.Labels)
	if out == nil {
		out = map[string]string{}
	}
	r := d.req
	out[sdk.LabelRun] = r.RunID.String()
	out[sdk.LabelAttempt] = r.AttemptID.String()
	out[sdk.LabelNumber] = strconv.Itoa(r.Attempt)
	out[sdk.LabelOwner] = d.p.owner
	out[sdk.LabelLedger] = d.p.ledgerID
	if !r.Expires.IsZero() {
		out[sdk.LabelExpires] = strconv.FormatInt(r.Expires.Unix(), 10)
	}
	return out
}

// logConfig keeps the whole output unless the user bounded it. Every option is
// set, since the engine fills in its own defaults where one is missing: among
// them may be a bound, and a mode that drops what comes too fast.
func (d *draft) logConfig() container.LogConfig {
	size, files := noLogBound, "1"
	if most := d.opts.LogMaxSize; most > 0 {
		// Two files, of which the older goes when the newer is full.
		size, files = strconv.FormatInt(most/logFiles, 10), strconv.Itoa(logFiles)
	}
	return container.LogConfig{Type: d.logDriver, Config: map[string]string{
		"max-size": size, "max-file": files, "compress": "false", "mode": "blocking"}}
}

// logFiles is how many files a bounded log has.
const logFiles = 2

func (d *draft) mounts() []mount.Mount {
	var out []mount.Mount
	for _, m := range d.spec.Mounts {
		em := mount.Mount{Type: mount.Type(m.Type), Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly}
		if m.Type == sdk.MountTmpfs {
			em.TmpfsOptions = &mount.TmpfsOptions{SizeBytes: m.Size, Mode: tmpfsMode}
		}
		out = append(out, em)
	}
	attempt := d.req.AttemptID
	if d.delivery == sdk.SecretFile {
		for _, k := range slices.Sorted(maps.Keys(d.spec.Secrets)) {
			out = append(out, mount.Mount{Type: mount.TypeBind, Source: d.p.tmp.secretPath(attempt, k), Target: path.Join(secretsPath, k), ReadOnly: true})
		}
	}
	if d.files == filesBind {
		for i, f := range d.spec.Files {
			out = append(out, mount.Mount{Type: mount.TypeBind, Source: d.p.files.filePath(attempt, i), Target: f.Path, ReadOnly: true})
		}
	}
	return out
}

// Package docker runs jobs as containers of a Docker engine, through the
// engine's own API.
//
// An attempt is one container with a name that follows from the attempt's ID,
// so that the engine itself refuses a second one. A container is never removed
// by the engine: it stays, with its exit code and its output, until CleanupJob.
package docker

import (
	"context"
	"log/slog"
	"time"

	engine "github.com/windlass-run/windlass/internal/cloud/docker"
	"github.com/windlass-run/windlass/sdk"
)

// Kind is the name of this backend.
const Kind = "docker"

const (
	defaultGrace = 10 * time.Second
	maxGrace     = 24 * time.Hour
	batchMax     = 100
)

// Driver returns the driver.
func Driver() sdk.Driver {
	return sdk.Driver{
		Kind:         Kind,
		Doc:          "Containers of a Docker engine, on this machine or another.",
		Config:       configSchema(),
		Options:      optionsSchema(),
		Capabilities: sdk.CapabilitiesOf[*provider](),
		Guarantees:   guarantees(sdk.SecretFile),
		Support:      support(),
		Schemes:      []string{"env", "file"},
		Resources:    resourceTypes(),
		Open: func(_ context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
			return open(r)
		},
	}
}

// guarantees is what the driver gives. The end of a job is the engine's own
// record of the process, kept until clean-up; its output is kept as bytes.
//
// A grace is kept by the engine, which kills also when nobody holds the run any
// more. There is no deadline of the engine's: the holder keeps the time-out, and
// nobody does while no holder lives.
func guarantees(secrets sdk.SecretDelivery) sdk.Guarantees {
	return sdk.Guarantees{
		Submit:         sdk.SubmitGuarantee{By: sdk.SubmitByName},
		Found:          sdk.FoundGuarantee{Consistent: true},
		Argv:           sdk.ArgvExact,
		ExitCode:       sdk.ExitCodeProcess,
		Logs:           sdk.LogGuarantee{Fidelity: sdk.LogBytes, Apart: true, EndProven: true, Live: true},
		CancelReadBack: true,
		Grace:          sdk.GraceGuarantee{Supported: true, Max: maxGrace, Default: defaultGrace},
		Secrets:        secrets,
		Stdin:          []sdk.StdinMode{sdk.StdinAttached, sdk.StdinSpooled},
	}
}

func support() []sdk.FieldSupport {
	return []sdk.FieldSupport{
		{Field: "name", Values: "any; the container's name follows from the attempt's ID"},
		{Field: "image", Values: "any reference that the engine has or can pull; required"},
		{Field: "entrypoint", Values: "unset, empty or a list; a set list also drops the image's own arguments, as `docker run` does"},
		{Field: "args", Values: "unset or a list; an empty list needs image_entrypoint or an image that the engine has"},
		{Field: "image_entrypoint", Values: "used where args is empty and entrypoint unset"},
		{Field: "env", Values: "UTF-8"},
		{Field: "secrets", Values: "on an engine of this machine a file /run/secrets/NAME, named by NAME_FILE; on another engine the variable NAME, visible to whoever may inspect containers (allow_visible_secret)"},
		{Field: "workdir", Values: "an absolute path"},
		{Field: "user", Values: "NAME, UID, NAME:GROUP or UID:GID"},
		{Field: "cpu", Values: "from 0.01 cores up to the engine's"},
		{Field: "memory", Values: "6 MiB or more; no swap is added"},
		{Field: "gpu", Values: "a number of devices, of the engine's default device driver (the request is tested; no machine with a GPU was at hand)"},
		{Field: "pids", Values: "any"},
		{Field: "ephemeral_storage", Refused: "the engine can't bound a container's disk on most storage drivers"},
		{Field: "timeout", Values: "any; kept by whoever holds the run"},
		{Field: "start_timeout", Values: "any"},
		{Field: "retries", Values: "any"},
		{Field: "grace", Values: "up to 24 h; the signal is the image's STOPSIGNAL, else TERM"},
		{Field: "labels", Values: "any"},
		{Field: "network", Values: "bridge, none, host, container:NAME or the name of a network"},
		{Field: "mounts", Values: "bind, volume and tmpfs; a folder to bind must be there already"},
		{Field: "files", Values: "bind-mounted read-only on an engine of this machine; copied into the container on another one"},
		{Field: "stdin", Values: "attached and spooled; a job whose spooled input was cut off, because the process that fed it was killed, has failed: infrastructure; on an engine of another machine such a cut isn't noticed"},
		{Field: "profile", Values: "strict, standard, permissive"},
		{Field: "ttl", Values: "a label that `windlass reap` goes by; the engine itself removes nothing"},
		{Field: "allow_visible_secret", Values: "needed for secrets on an engine of another machine"},
	}
}

// provider is one configured engine.
//
// It is no ExpiryRenewer: the engine can't change the labels of a container.
type provider struct {
	name     string
	client   *engine.Client
	log      *slog.Logger
	clock    sdk.Clock
	secrets  sdk.SecretResolver
	owner    string
	ledgerID string
	identity sdk.Identity
	pulls    engine.Registries

	// local: the engine shares this machine's files.
	local bool
	// files and tmp are where an attempt's input files and secrets lie on this
	// machine; either may be absent.
	files, tmp *folders

	facts      facts
	inputs     inputs
	started    startTimes
	sending    sending
	background background
}

var (
	_ sdk.Provider    = (*provider)(nil)
	_ sdk.JobRunner   = (*provider)(nil)
	_ sdk.JobFinder   = (*provider)(nil)
	_ sdk.JobCanceler = (*provider)(nil)
	_ sdk.JobCleaner  = (*provider)(nil)
	_ sdk.JobLogger   = (*provider)(nil)
	_ sdk.JobBatcher  = (*provider)(nil)
	_ sdk.JobWatcher  = (*provider)(nil)
	_ sdk.OwnedLister = (*provider)(nil)
)

func open(r sdk.OpenRequest) (*provider, error) {
	r = r.Filled()
	var cfg config
	if err := configSchema().Decode("config", r.Config, &cfg); err != nil {
		return nil, err
	}
	endpoint, err := engine.Resolve(engine.Settings{
		Host: cfg.Host, Context: cfg.Context, CA: cfg.TLSCA, Cert: cfg.TLSCert, Key: cfg.TLSKey,
		Credentials: r.Credentials, Ambient: r.AmbientCredentials,
	})
	if err != nil {
		return nil, err
	}
	client, err := engine.New(endpoint, r.Name, r.CallTimeout)
	if err != nil {
		return nil, err
	}
	p := &provider{
		name: r.Name, client: client, log: r.Log, clock: r.Clock, secrets: r.Secrets,
		owner: r.Owner, ledgerID: r.LedgerID,
		identity: sdk.Identity{Kind: Kind, Endpoint: endpoint.Host},
		pulls:    engine.Registries{Dir: engine.ConfigDir(r.Credentials, r.AmbientCredentials), Helpers: r.AmbientCredentials},
	}
	if endpoint.Socket && !cfg.Remote {
		if r.StateDir != "" {
			p.files = newFolders(r.StateDir, p.identity.Endpoint, false)
		}
		if base := tmpfsBase(); base != "" {
			p.tmp = newFolders(base, p.identity.Endpoint, true)
		}
		p.local = p.files != nil && p.tmp != nil
	}
	return p, nil
}

// Info implements sdk.Provider.
func (p *provider) Info() sdk.Info {
	delivery := sdk.SecretVisibleEnv
	if p.local {
		delivery = sdk.SecretFile
	}
	return sdk.Info{Name: p.name, Kind: Kind, Identity: p.identity, Guarantees: guarantees(delivery), BatchMax: batchMax}
}

// Close implements sdk.Provider. Jobs go on, but for those that still read
// their input from here: it ends.
func (p *provider) Close() error {
	p.background.close()
	p.inputs.closeAll()
	return p.client.Close()
}

// fail returns an error of this provider.
func (p *provider) fail(code sdk.Code, op string, err error) *sdk.Error {
	return &sdk.Error{Code: code, Op: op, Provider: p.name, Err: err}
}

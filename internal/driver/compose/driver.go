// Package compose operates the services of a Compose project: the Compose plugin
// resolves the project and changes it, the engine's own API reads, runs commands,
// and follows output and measures.
//
// A workload is a service. Compose keeps no record of what was asked for, and the
// labels of a running container can't be changed. So every change is noted in a
// journal beside the project, under a lock that the running Compose itself holds,
// and what became of a change whose end nobody saw is judged by the containers.
package compose

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"sync"

	engine "github.com/windlass-run/windlass/internal/cloud/docker"
	"github.com/windlass-run/windlass/sdk"
)

// Kind is the name of this backend.
const Kind = "compose"

// Driver returns the driver.
func Driver() sdk.Driver {
	return sdk.Driver{
		Kind:         Kind,
		Doc:          "The services of a Compose project on a Docker engine; it runs no jobs.",
		Config:       configSchema(),
		Capabilities: sdk.CapabilitiesOf[*provider](),
		Guarantees:   guarantees(sdk.SecretFile),
		Schemes:      []string{"env", "file"},
		Open: func(_ context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
			return open(r)
		},
	}
}

// guarantees is what the driver gives.
//
// Ops: the journal is a file of the machine that changes the project, so an
// operation that another machine sent isn't found here. Compose restarts each
// container where it stands; it keeps those that it stops.
func guarantees(secrets sdk.SecretDelivery) sdk.Guarantees {
	return sdk.Guarantees{
		Secrets: secrets,
		Workload: sdk.WorkloadGuarantees{
			Ops:      sdk.OpGuarantee{By: sdk.OpInHistory},
			Restart:  sdk.RestartInPlace,
			Stop:     sdk.StopStops,
			Failures: true,
			Exec:     sdk.ExecGuarantee{ExitCode: true, Argv: sdk.ArgvExact, Stdin: true, Terminal: true, Apart: true},
			Warms:    warms,
		},
	}
}

// provider is one project on one engine.
type provider struct {
	name     string
	cfg      config
	place    place
	client   *engine.Client
	log      *slog.Logger
	clock    sdk.Clock
	secrets  sdk.SecretResolver
	identity sdk.Identity

	// engineFlags name the engine to Compose. dockerConfig is the vendor's folder
	// that it may read; plugins is where the user's own plugins are.
	engineFlags           []string
	dockerConfig, plugins string
	// local: the engine shares this machine's files.
	local bool

	// resolved is the project as Compose read it, probed what it said of drift: of
	// the last moment.
	resolved lately[map[string]service]
	probed   lately[drift]

	// running are the changes that go on though their callers have left.
	running sync.WaitGroup
}

var (
	_ sdk.Provider         = (*provider)(nil)
	_ sdk.WorkloadLister   = (*provider)(nil)
	_ sdk.WorkloadStatuser = (*provider)(nil)
	_ sdk.Starter          = (*provider)(nil)
	_ sdk.Stopper          = (*provider)(nil)
	_ sdk.Scaler           = (*provider)(nil)
	_ sdk.Restarter        = (*provider)(nil)
	_ sdk.Configurer       = (*provider)(nil)
	_ sdk.Execer           = (*provider)(nil)
	_ sdk.LogTailer        = (*provider)(nil)
	_ sdk.MetricStreamer   = (*provider)(nil)
)

// projectName is what Compose takes for a project's name.
// https://docs.docker.com/reference/compose-file/version-and-name/
var projectName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)

func open(r sdk.OpenRequest) (*provider, error) {
	const op = "open project"
	r = r.Filled()
	var cfg config
	if err := configSchema().Decode("config", r.Config, &cfg); err != nil {
		return nil, err
	}
	if !projectName.MatchString(cfg.Project) {
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: op, Provider: r.Name, Field: "project",
			Err: fmt.Errorf("%q is no project's name: those have lower-case letters, digits, - and _", cfg.Project)}
	}
	at, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	settings := engine.Settings{
		Host: cfg.Host, Context: cfg.Context, CA: cfg.TLSCA, Cert: cfg.TLSCert, Key: cfg.TLSKey,
		Credentials: r.Credentials, Ambient: r.AmbientCredentials,
	}
	endpoint, err := engine.Resolve(settings)
	if err != nil {
		return nil, err
	}
	client, err := engine.New(endpoint, r.Name, r.CallTimeout)
	if err != nil {
		return nil, err
	}
	p := &provider{
		name: r.Name, cfg: cfg, place: at, client: client, log: r.Log, clock: r.Clock, secrets: r.Secrets,
		identity:    sdk.Identity{Kind: Kind, Account: cfg.Project, Endpoint: endpoint.Host},
		engineFlags: endpoint.Flags(), dockerConfig: engine.ConfigDir(r.Credentials, r.AmbientCredentials),
		local: endpoint.Socket && !cfg.Remote,
	}
	if dir := engine.ConfigDir(r.Credentials, true); dir != "" {
		p.plugins = filepath.Join(dir, "cli-plugins")
	}
	if p.dockerConfig == "" {
		// Compose would read the one in the user's home.
		p.dockerConfig = filepath.Join(r.StateDir, "no-docker-config")
	}
	return p, nil
}

// Info implements sdk.Provider.
func (p *provider) Info() sdk.Info {
	return sdk.Info{Name: p.name, Kind: Kind, Identity: p.identity, Guarantees: guarantees(p.delivery())}
}

// delivery is how secrets reach a service: as files of this machine, or not at all.
func (p *provider) delivery() sdk.SecretDelivery {
	if p.local {
		return sdk.SecretFile
	}
	return ""
}

// Close implements sdk.Provider. Services go on, and so does a Compose that
// changes one.
func (p *provider) Close() error { return p.client.Close() }

// fail returns an error of this provider.
func (p *provider) fail(code sdk.Code, op string, format string, args ...any) *sdk.Error {
	return &sdk.Error{Code: code, Op: op, Provider: p.name, Err: fmt.Errorf(format, args...)}
}

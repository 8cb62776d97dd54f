package iac

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/windlass-run/windlass/internal/driver/launch"
	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/iacpb"
)

// The services that this package uses, as a plugin's registry names them.
var (
	serviceRequired = pb.IaCProviderRequired_ServiceDesc.ServiceName
	serviceRunner   = pb.IaCProviderRunner_ServiceDesc.ServiceName
	serviceCanceler = pb.IaCProviderJobCanceler_ServiceDesc.ServiceName
)

// Serves reports whether a plugin with these services, as its live registry lists them,
// is one that Driver takes.
func Serves(services []string) bool { return slices.Contains(services, serviceRequired) }

// Plugin is one process of a plugin.
type Plugin struct {
	// Kind is the name that providers of it have as their kind.
	Kind string
	// Conn leads to the process, and to none that follows it: a process that was
	// started again has been told nothing. It hands call options on, since they tell
	// what was sent.
	Conn grpc.ClientConnInterface
	// Services are those of the live registry. One that isn't listed isn't there.
	Services []string
	// Config is the JSON object that the plugin is initialized with, unless a provider's
	// config has members in the place of its own; nil is {}.
	Config json.RawMessage
	// Told, when not nil, is what the process was initialized with already: it is not told
	// again, since a plugin may forget its jobs then.
	Told json.RawMessage
	// Schemes are the schemes of secret references that the plugin resolves; nil is
	// Schemes().
	Schemes []string
}

// Schemes returns the schemes that are passed on where a plugin's entry doesn't say
// which ones it resolves: those of secret stores that are reached over a network.
func Schemes() []string { return []string{"aws-sm", "aws-ssm", "azure-kv", "gcp-sm", "vault"} }

// Driver returns the driver of a plugin. It makes no call: the plugin is initialized
// when the first provider is opened. A plugin without IaCProviderRequired is
// FailedPrecondition; one without IaCProviderRunner gives providers that run no jobs.
func Driver(p Plugin) (sdk.Driver, error) {
	if !Serves(p.Services) {
		have := "it lists no services at all"
		if len(p.Services) > 0 {
			have = "it lists " + strings.Join(p.Services, ", ")
		}
		return sdk.Driver{}, &sdk.Error{Code: sdk.FailedPrecondition, Op: "use plugin " + p.Kind, Remedy: "install a plugin that provides infrastructure",
			Err: fmt.Errorf("its registry has no %s; %s", serviceRequired, have)}
	}
	c := &conn{kind: p.Kind, grpc: p.Conn, config: p.Config, services: slices.Clone(p.Services), ready: make(chan struct{}, 1), told: p.Told}
	d := sdk.Driver{
		Kind: p.Kind, Doc: "Runs jobs through a plugin of the published ecosystem.",
		Config: configSchema(), Options: optionSchema(), Guarantees: guarantees(defaultQuiet), Support: support(c.serves(serviceCanceler)), Schemes: p.Schemes,
	}
	if d.Schemes == nil {
		d.Schemes = Schemes()
	}
	d.Capabilities = sdk.CapabilityNames(&provider{conn: c})
	d.Open = func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) { return open(ctx, c, d, r) }
	return d, nil
}

// conn is what the providers of one process share.
type conn struct {
	kind     string
	grpc     grpc.ClientConnInterface
	config   json.RawMessage
	services []string
	// ready is held by who initializes; told is what it was initialized with.
	ready chan struct{}
	told  json.RawMessage
	// untroubled remembers that Troubleshoot was Unimplemented: it isn't there.
	untroubled atomic.Bool
}

func (c *conn) serves(service string) bool { return slices.Contains(c.services, service) }

// initialize tells the plugin its configuration, unless that was done. A process has
// one: it can't be told another.
func (c *conn) initialize(ctx context.Context, op string, config json.RawMessage) error {
	select {
	case c.ready <- struct{}{}:
		defer func() { <-c.ready }()
	case <-ctx.Done():
		return &sdk.Error{Code: sdk.CodeOf(ctx.Err()), Op: op, Err: ctx.Err()}
	}
	if c.told != nil {
		if !bytes.Equal(c.told, config) {
			return &sdk.Error{Code: sdk.FailedPrecondition, Op: op, Remedy: "use a process for each configuration",
				Err: errors.New("the plugin's process was initialized with another configuration, and can have only one")}
		}
		return nil
	}
	err := Initialize(ctx, op, c.grpc, config)
	if err == nil {
		c.told = config
	}
	return err
}

// Initialize tells a plugin's process its configuration, of Settings. op begins its
// error.
func Initialize(ctx context.Context, op string, conn grpc.ClientConnInterface, config json.RawMessage) error {
	_, err := call(ctx, op, "IaCProviderRequired.Initialize", &pb.InitializeRequest{ConfigJson: config}, pb.NewIaCProviderRequiredClient(conn).Initialize)
	return err
}

// provider is a configured use of a plugin. It has the methods of every capability
// that a plugin may bring; AskCapability tells which of them are there.
type provider struct {
	conn   *conn
	cfg    config
	info   sdk.Info
	rows   []sdk.FieldSupport
	owner  string
	ledger string
	launch launch.Reader[*pb.JobSpec]
}

var (
	_ sdk.Provider    = (*provider)(nil)
	_ sdk.Asker       = (*provider)(nil)
	_ sdk.JobRunner   = (*provider)(nil)
	_ sdk.JobCanceler = (*provider)(nil)
	_ sdk.JobLogger   = (*provider)(nil)
)

const defaultCallTimeout = 30 * time.Second

func open(ctx context.Context, c *conn, d sdk.Driver, r sdk.OpenRequest) (sdk.Provider, error) {
	op := "open provider " + r.Name
	cfg, err := readConfig(d.Config, r.Config)
	if err != nil {
		return nil, err
	}
	limit := r.CallTimeout
	if limit <= 0 {
		limit = defaultCallTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	theirs, err := merged(c.config, cfg.Plugin)
	if err != nil {
		return nil, named(err, r.Name)
	}
	if err := c.initialize(ctx, op, theirs); err != nil {
		return nil, named(err, r.Name)
	}
	name, err := call(ctx, op, "IaCProviderRequired.Name", &pb.NameRequest{}, pb.NewIaCProviderRequiredClient(c.grpc).Name)
	if err != nil {
		return nil, named(err, r.Name)
	}
	id := sdk.Identity{Kind: d.Kind, Account: cfg.Account, Endpoint: name.GetName()}
	p := &provider{conn: c, cfg: cfg, rows: d.Support, owner: r.Owner, ledger: r.LedgerID,
		info: sdk.Info{Name: r.Name, Kind: d.Kind, Identity: id, Guarantees: guarantees(time.Duration(cfg.LogQuiet))}}
	p.launch = launch.Reader[*pb.JobSpec]{Provider: r.Name, Identity: id, Decode: decodeSpec}
	return p, nil
}

func (p *provider) Info() sdk.Info { return p.info }

func (p *provider) Close() error { return nil }

// AskCapability implements sdk.Asker by the plugin's registry, which is the only
// negative signal.
func (p *provider) AskCapability(name string) any {
	switch name {
	case sdk.Runner().String(), sdk.Logger().String():
		if p.conn.serves(serviceRunner) {
			return p
		}
	case sdk.Canceler().String():
		if p.conn.serves(serviceRunner) && p.conn.serves(serviceCanceler) {
			return p
		}
	case sdk.WorkloadLogs().String():
		if p.conn.serves(serviceCapture) {
			return p
		}
	case sdk.Resources().String():
		if p.conn.serves(serviceResources) {
			return p
		}
	case sdk.Troubleshooting().String():
		if p.conn.serves(serviceResources) && !p.conn.untroubled.Load() {
			return p
		}
	}
	return nil
}

// absent is the error of a call that the plugin has no service for; nil where it has.
func (p *provider) absent(name string) error {
	if p.AskCapability(name) == nil {
		return sdk.Absent(p.info.Name, p.info.Kind, name)
	}
	return nil
}

// Check implements sdk.Provider.
func (p *provider) Check(ctx context.Context, _ sdk.CheckRequest) (sdk.CheckResult, error) {
	const op = "check provider"
	c := pb.NewIaCProviderRequiredClient(p.conn.grpc)
	version, err := call(ctx, op, "IaCProviderRequired.Version", &pb.VersionRequest{}, c.Version)
	if err != nil {
		return sdk.CheckResult{}, named(err, p.info.Name)
	}
	caps, err := call(ctx, op, "IaCProviderRequired.Capabilities", &pb.CapabilitiesRequest{}, c.Capabilities)
	if err != nil {
		return sdk.CheckResult{}, named(err, p.info.Name)
	}
	items := []sdk.CheckItem{
		{Name: "plugin", OK: true, Detail: strings.TrimSpace(p.info.Identity.Endpoint + " " + version.GetVersion())},
		{Name: "resources", OK: true, Detail: fmt.Sprintf("%d types, plan version %q", len(caps.GetCapabilities()), caps.GetComputePlanVersion())},
		{Name: "jobs", OK: p.conn.serves(serviceRunner), Detail: "IaCProviderRunner is served"},
	}
	if !items[2].OK {
		items[2].Detail, items[2].Remedy = "IaCProviderRunner isn't served", "this plugin runs no jobs: use another, or another version"
	}
	cancel := sdk.CheckItem{Name: "cancel", OK: true, Detail: "IaCProviderJobCanceler is served"}
	if !p.conn.serves(serviceCanceler) {
		cancel.Detail = "IaCProviderJobCanceler isn't served: a run needs --allow-no-cancel"
	}
	return sdk.CheckResult{Items: append(items, cancel)}, nil
}

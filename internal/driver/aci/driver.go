// Package aci runs jobs on Azure Container Instances, and operates container groups
// that stay up (package workload).
//
// An attempt is one container group with one container, whose name follows from
// the attempt's ID. Azure has no call that makes a group only where there is
// none: one that names a group that is there runs its container anew. So a group
// is looked for before it is made, by one caller at a time, and a launch in doubt
// is settled by looking. The group is deleted once its output was read.
package aci

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	arm "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/containerinstance/armcontainerinstance/v2"

	"github.com/windlass-run/windlass/internal/cloud/azure"
	"github.com/windlass-run/windlass/internal/driver/aci/workload"
	"github.com/windlass-run/windlass/internal/driver/sight"
	"github.com/windlass-run/windlass/internal/driver/turn"
	"github.com/windlass-run/windlass/sdk"
)

// Kind is the name of this backend.
const Kind = "azure-aci"

// Driver returns the driver. Providers that come of one value share the budgets
// of their subscription, and send no group at the same time.
func Driver() sdk.Driver {
	s := &shared{sends: map[string]*send{}}
	return sdk.Driver{
		Kind:         Kind,
		Doc:          "Container groups of Azure Container Instances.",
		Config:       configSchema(),
		Options:      optionsSchema(),
		Capabilities: sdk.CapabilitiesOf[*provider](),
		Guarantees:   guarantees(config{}.filled()),
		Support:      support(),
		// All are secure values, which no read of a group shows.
		Schemes: []string{azure.SchemeKeyVault, schemeEnv, schemeFile},
		Open: func(_ context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
			p, err := open(r, s)
			if err != nil {
				return nil, err
			}
			return p, nil
		},
	}
}

// shared is what the providers of a process have in common.
type shared struct {
	budgets azure.Budgets

	mu    sync.Mutex
	sends map[string]*send
}

// guarantees is what the driver gives. A group's name is its attempt's, so there
// is never more than one; but a second request for it isn't refused, it runs the
// container again. A launch in doubt is therefore looked for, and sent again only
// when a group of the name was surely not made.
// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-update
func guarantees(c config) sdk.Guarantees {
	return sdk.Guarantees{
		Submit: sdk.SubmitGuarantee{By: sdk.SubmitBySearch},
		// A group is read by its ID, which Resource Manager passes on to Container
		// Instances. That it is shown by then, and that no request comes later, is
		// ours to assume; see visible_within.
		Found: sdk.FoundGuarantee{Within: time.Duration(c.VisibleWithin), Consistent: true},
		// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-start-command
		Argv:           sdk.ArgvOneList,
		ExitCode:       sdk.ExitCodePlatform,
		CancelReadBack: true,
		Secrets:        sdk.SecretSealed,
		// One text with the lines of both streams.
		// https://learn.microsoft.com/en-us/rest/api/container-instances/containers/list-logs
		Logs: sdk.LogGuarantee{Fidelity: sdk.LogLines, Live: true, Looks: true,
			Settle: sdk.LogSettle{Quiet: time.Duration(c.LogQuiet), Max: time.Duration(c.LogMax)}},
		Workload: workload.Guarantees(time.Duration(c.VisibleWithin), c.ExecShell),
	}
}

func support() []sdk.FieldSupport {
	return []sdk.FieldSupport{
		{Field: "name", Values: "any; it becomes the tag windlass-name, fitted to what a tag may hold"},
		{Field: "image", Values: "an image of a public registry, or of one that the option registries names; required"},
		{Field: "entrypoint", Values: "unset, empty or a list in UTF-8; where it is set, the image's own arguments are dropped, as `docker run` does"},
		{Field: "args", Values: "unset or a list in UTF-8; where entrypoint is unset the image's own goes before it, so that image_entrypoint or the registry must tell it"},
		{Field: "image_entrypoint", Values: "goes before args where entrypoint is unset; else it is read from the image's registry"},
		{Field: "env", Values: "UTF-8, names of letters, digits and _; visible to whoever may read the group"},
		{Field: "secrets", Values: "azure-kv, env and file are read here and become secure values, which no read shows; UTF-8"},
		{Field: "workdir", Refused: "Container Instances can't set the working folder; change to it in the command, or in the image"},
		{Field: "user", Refused: "Container Instances runs a container as the user that its image names; set it there"},
		{Field: "cpu", Values: "from 1 to 31 cores, in tenths; the region and the subscription bound it further"},
		{Field: "memory", Values: "from 1 to 240 GiB, in steps of 512 MiB; the region and the subscription bound it further"},
		{Field: "gpu", Refused: "GPUs of Container Instances aren't offered here"},
		{Field: "ephemeral_storage", Refused: "Container Instances gives a group a disk of its own size"},
		{Field: "pids", Refused: "Container Instances has no bound on processes"},
		{Field: "timeout", Values: "any; Container Instances has no time-out of its own, so that whoever holds the run ends it"},
		{Field: "start_timeout", Values: "any"},
		{Field: "grace", Refused: "Container Instances doesn't say how long it waits between TERM and KILL, and nothing changes it; leave it out"},
		{Field: "retries", Values: "any; each is a group of its own"},
		{Field: "labels", Values: "tags of the group, within Azure's rules for tags"},
		{Field: "network", Refused: "a network is set by the option subnet"},
		{Field: "mounts", Refused: "Container Instances mounts no folder of the submitter's"},
		{Field: "files", Refused: "Container Instances has no place for single input files; put them into the image, or fetch them in the job"},
		{Field: "stdin", Refused: "Container Instances gives a job no input"},
		{Field: "profile", Values: "permissive: Container Instances' own isolation. Others are refused"},
		{Field: "ttl", Values: "a tag that `windlass reap` goes by; Azure itself deletes nothing"},
		{Field: "allow_visible_secret", Values: "not needed: no secret is visible"},
	}
}

// provider is one configured resource group and region.
type provider struct {
	*workload.Operator
	name       string
	cfg        config
	session    *azure.Session
	groups     *arm.ContainerGroupsClient
	containers *arm.ContainersClient
	token      azcore.TokenCredential
	clock      sdk.Clock
	log        *slog.Logger
	secrets    sdk.SecretResolver
	owner      string
	ledgerID   string
	identity   sdk.Identity
	shared     *shared
	spool      spool

	// reads is the budget of calls that change nothing, writes that of the others.
	reads, writes *azure.Budget
	seen          sight.Memory[seen]
}

var (
	_ sdk.Provider      = (*provider)(nil)
	_ sdk.JobRunner     = (*provider)(nil)
	_ sdk.JobFinder     = (*provider)(nil)
	_ sdk.JobCanceler   = (*provider)(nil)
	_ sdk.JobCleaner    = (*provider)(nil)
	_ sdk.JobLogger     = (*provider)(nil)
	_ sdk.OwnedLister   = (*provider)(nil)
	_ sdk.ExpiryRenewer = (*provider)(nil)
)

func open(r sdk.OpenRequest, s *shared) (*provider, error) {
	r = r.Filled()
	var cfg config
	if err := configSchema().Decode("config", r.Config, &cfg); err != nil {
		return nil, err
	}
	cfg = cfg.filled()
	if err := cfg.check(r.Name); err != nil {
		return nil, err
	}
	session, err := azure.Open(azure.Settings{Provider: r.Name, Subscription: cfg.Subscription, Cloud: cfg.Cloud, Endpoint: cfg.Endpoint, CAFile: cfg.CAFile,
		Credentials: r.Credentials, Ambient: r.AmbientCredentials, CallTimeout: r.CallTimeout})
	if err != nil {
		return nil, err
	}
	p := &provider{name: r.Name, cfg: cfg, session: session, clock: r.Clock, log: r.Log, secrets: r.Secrets, owner: r.Owner, ledgerID: r.LedgerID, shared: s,
		// Names of resource groups are the same in any case.
		identity: sdk.Identity{Kind: Kind, Account: session.Subscription + "/" + strings.ToLower(cfg.ResourceGroup), Region: cfg.Location,
			Endpoint: cmp.Or(session.Endpoint, strings.TrimPrefix(session.Where(), "https://"))}}
	if r.StateDir != "" {
		p.spool = spool(filepath.Join(r.StateDir, "logs"))
	}
	token, options := session.Client()
	p.token = token
	if p.groups, err = arm.NewContainerGroupsClient(session.Subscription, token, options); err == nil {
		p.containers, err = arm.NewContainersClient(session.Subscription, token, options)
	}
	p.reads = s.budgets.For(session, cfg.Location, "read", cfg.ReadRate, max(cfg.ReadRate/60, 1))
	p.writes = s.budgets.For(session, cfg.Location, "write", cfg.WriteRate, max(cfg.WriteRate/12, 1))
	if err == nil {
		p.Operator, err = p.operator()
	}
	if err != nil {
		_ = session.Close() // what opened is closed as far as it goes
		return nil, p.fail(sdk.Internal, "open provider", err)
	}
	return p, nil
}

// Info implements sdk.Provider.
func (p *provider) Info() sdk.Info {
	return sdk.Info{Name: p.name, Kind: Kind, Identity: p.identity, Guarantees: guarantees(p.cfg),
		Rate: float64(p.cfg.ReadRate) / 60, Burst: max(p.cfg.ReadRate/60, 1)}
}

// Close implements sdk.Provider. Jobs go on.
func (p *provider) Close() error { return p.session.Close() }

// fail makes an error of this provider.
func (p *provider) fail(code sdk.Code, op string, err error) *sdk.Error {
	return &sdk.Error{Code: code, Op: op, Provider: p.name, Err: err}
}

// call makes a call when its budget allows.
func call[R any](ctx context.Context, p *provider, b *azure.Budget, op string, f func(ctx context.Context) (R, error)) (R, error) {
	return turn.Call(ctx, p.name, p.session, b, op, f)
}

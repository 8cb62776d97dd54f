// Package appplatform runs jobs on DigitalOcean's App Platform.
//
// App Platform has no jobs by themselves: a job belongs to an app and runs when
// that is deployed. So an attempt is an app of its own with one job, which runs
// before the app's first deployment is done. The app is never updated nor deployed
// again, for that would run the job once more, and is deleted once its output was
// read. Its name follows from the attempt's ID, and an account has no two apps of
// one name.
package appplatform

import (
	"context"
	"log/slog"
	"time"

	"github.com/windlass-run/windlass/internal/cloud/do"
	"github.com/windlass-run/windlass/internal/cloud/registry"
	"github.com/windlass-run/windlass/internal/driver/sight"
	"github.com/windlass-run/windlass/sdk"
)

// Kind is the name of this backend.
const Kind = "digitalocean"

const (
	// batchMax is the most handles of one JobStatuses call: a page of apps.
	batchMax = pageMax
	// maxTimeout is when App Platform ends a deployment's job.
	// https://docs.digitalocean.com/products/app-platform/details/limits/
	maxTimeout = 30 * time.Minute

	// App Platform waits between TERM and KILL for as long as the job says, in
	// whole seconds. Its own 120 s are long for a shell that ignores TERM.
	// https://docs.digitalocean.com/products/app-platform/how-to/configure-termination/
	minGrace     = time.Second
	maxGrace     = 600 * time.Second
	defaultGrace = 10 * time.Second
)

// Driver returns the driver. Providers that come of one value share the budget of
// calls of their token.
func Driver() sdk.Driver {
	budgets := &do.Budgets{}
	return sdk.Driver{
		Kind:         Kind,
		Doc:          "Jobs of DigitalOcean App Platform, each in an app of its own.",
		Config:       configSchema(),
		Options:      optionsSchema(),
		Capabilities: sdk.CapabilitiesOf[*provider](),
		Guarantees:   guarantees(config{}.filled()),
		Support:      support(),
		Schemes:      []string{schemeEnv, schemeFile},
		Open: func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
			p, err := open(ctx, r, budgets)
			if err != nil {
				return nil, err
			}
			return p, nil
		},
	}
}

// guarantees is what the driver gives. An account has no two apps of one name.
// https://docs.digitalocean.com/reference/api/digitalocean/#operation/apps_create
func guarantees(c config) sdk.Guarantees {
	g := sdk.Guarantees{
		Submit: sdk.SubmitGuarantee{By: sdk.SubmitByName},
		// A list alone proves nothing; that the platform calls the name free does,
		// as far as a second create would be let in.
		Found:          sdk.FoundGuarantee{Within: time.Duration(c.VisibleWithin), Consistent: true},
		Argv:           sdk.ArgvOneString,
		ExitCode:       sdk.ExitCodeAbsent,
		CancelReadBack: true,
		Deadline:       sdk.DeadlineGuarantee{Native: true, Min: time.Second, Max: maxTimeout},
		Secrets:        sdk.SecretSealed,
		// The archive of an ended job's log is its whole log.
		Logs: sdk.LogGuarantee{Fidelity: sdk.LogLines, Live: true, EndProven: true,
			Settle: sdk.LogSettle{Quiet: time.Duration(c.LogMax), Max: time.Duration(c.LogMax)}},
	}
	if c.ExitCode != nil && *c.ExitCode {
		g.ExitCode = sdk.ExitCodeProcess
	}
	if c.ReadBy != "" {
		g.Grace = sdk.GraceGuarantee{Supported: true, Min: minGrace, Max: maxGrace, Default: defaultGrace, AtLaunch: true}
	}
	return g
}

func support() []sdk.FieldSupport {
	return []sdk.FieldSupport{
		{Field: "name", Values: "any; it becomes a variable of the app that the job doesn't see"},
		{Field: "image", Values: "an image in DigitalOcean's registry, on Docker Hub or in GitHub's registry, for amd64; required"},
		{Field: "entrypoint", Values: "unset, empty or a list in UTF-8; it becomes part of the run command"},
		{Field: "args", Values: "unset or a list in UTF-8; where entrypoint is unset the image's own goes before it, so that image_entrypoint or the registry must tell it"},
		{Field: "image_entrypoint", Values: "goes before args where entrypoint is unset; else it is read from the image's registry, but for the account's own"},
		{Field: "env", Values: "UTF-8 without `${`, for which the platform would put something else in; visible to whoever may see the app"},
		{Field: "secrets", Values: "env and file; sealed by the platform, which shows the encrypted value alone"},
		{Field: "workdir", Refused: "App Platform runs a command in the folder that the image names; set it there, or change it in the command"},
		{Field: "user", Refused: "App Platform runs a container as the user that its image names; set it there"},
		{Field: "cpu", Values: "1, 2, 4 or 8 cores, by the price list"},
		{Field: "memory", Values: "512 MiB to 32 GiB, by the price list"},
		{Field: "gpu", Refused: "App Platform has no GPUs for jobs"},
		{Field: "ephemeral_storage", Refused: "App Platform gives each container the same disk"},
		{Field: "pids", Refused: "App Platform has no bound on processes"},
		{Field: "timeout", Values: "up to 30 minutes; App Platform itself ends the job at 1.1 times it, and after 30 minutes where none is set"},
		{Field: "start_timeout", Values: "any"},
		{Field: "grace", Values: "1 s to 10 minutes in whole seconds, fixed at launch; refused unless command_read_by is set"},
		{Field: "retries", Values: "any"},
		{Field: "labels", Values: "any without `${`; they become a variable of the app that the job doesn't see"},
		{Field: "network", Refused: "a job of App Platform joins no network"},
		{Field: "mounts", Refused: "App Platform has no volumes"},
		{Field: "files", Refused: "App Platform has no place for input files; put them into the image, or fetch them in the job"},
		{Field: "stdin", Refused: "App Platform gives a job no input"},
		{Field: "profile", Values: "permissive: App Platform's own sandbox. Others are refused"},
		{Field: "ttl", Values: "a variable of the app that `windlass reap` goes by; App Platform itself deletes nothing"},
		{Field: "allow_visible_secret", Values: "not needed: nothing is visible"},
	}
}

// provider is one configured account.
type provider struct {
	name     string
	cfg      config
	session  *do.Session
	clock    sdk.Clock
	log      *slog.Logger
	secrets  sdk.SecretResolver
	owner    string
	ledgerID string
	identity sdk.Identity
	seen     sight.Memory[seen]
	// entrypoint is registry.Entrypoint, but in tests: App Platform's registries
	// are far away.
	entrypoint func(ctx context.Context, image string, login registry.Login) (sdk.Argv, error)
}

var (
	_ sdk.Provider    = (*provider)(nil)
	_ sdk.JobRunner   = (*provider)(nil)
	_ sdk.JobFinder   = (*provider)(nil)
	_ sdk.JobCanceler = (*provider)(nil)
	_ sdk.JobCleaner  = (*provider)(nil)
	_ sdk.JobLogger   = (*provider)(nil)
	_ sdk.JobBatcher  = (*provider)(nil)
	_ sdk.OwnedLister = (*provider)(nil)
)

func open(ctx context.Context, r sdk.OpenRequest, budgets *do.Budgets) (*provider, error) {
	r = r.Filled()
	var cfg config
	if err := configSchema().Decode("config", r.Config, &cfg); err != nil {
		return nil, err
	}
	cfg = cfg.filled()
	if err := cfg.check(r.Name); err != nil {
		return nil, err
	}
	session, err := do.Open(ctx, do.Settings{Provider: r.Name, Endpoint: cfg.Endpoint, Credentials: r.Credentials, Ambient: r.AmbientCredentials,
		CallTimeout: r.CallTimeout, StateDir: r.StateDir, Budgets: budgets, PerMinute: cfg.MinuteRate, PerHour: cfg.HourRate})
	if err != nil {
		return nil, err
	}
	p := &provider{name: r.Name, cfg: cfg, session: session, clock: r.Clock, log: r.Log, secrets: r.Secrets, owner: r.Owner, ledgerID: r.LedgerID, entrypoint: registry.Entrypoint,
		identity: sdk.Identity{Kind: Kind, Account: session.Team, Endpoint: session.Endpoint}}
	return p, nil
}

// Info implements sdk.Provider.
func (p *provider) Info() sdk.Info {
	return sdk.Info{Name: p.name, Kind: Kind, Identity: p.identity, Guarantees: guarantees(p.cfg), BatchMax: batchMax,
		Rate: do.Rate(p.cfg.HourRate, time.Hour), Burst: do.Burst(p.cfg.MinuteRate), MaxInFlight: p.cfg.MaxApps}
}

// Close implements sdk.Provider. Jobs go on.
func (p *provider) Close() error {
	p.session.Close()
	return nil
}

// fail makes an error of this provider.
func (p *provider) fail(code sdk.Code, op string, err error) *sdk.Error {
	return &sdk.Error{Code: code, Op: op, Provider: p.name, Err: err}
}

// later makes an error after which the same call may succeed.
func (p *provider) later(op string, err error) *sdk.Error {
	e := p.fail(sdk.Unavailable, op, err)
	e.Retryable = true
	return e
}

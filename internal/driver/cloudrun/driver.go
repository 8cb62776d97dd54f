// Package cloudrun runs jobs on Cloud Run, Google Cloud's service for
// containers.
//
// An attempt is one Cloud Run job whose name follows from the attempt's ID. The
// one call that makes the job also has the platform start its only execution, so
// that neither can exist twice, however often the call is sent. The job is
// deleted, with its execution, once its output was read.
//
// The package workload operates its services.
package cloudrun

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"
	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"cloud.google.com/go/run/apiv2/runpb"
	"cloud.google.com/go/secretmanager/apiv1/secretmanagerpb"
	"google.golang.org/grpc"

	"github.com/windlass-run/windlass/internal/cloud/gcp"
	"github.com/windlass-run/windlass/internal/cloud/gcp/logtail"
	"github.com/windlass-run/windlass/internal/driver/cloudrun/workload"
	"github.com/windlass-run/windlass/internal/driver/sight"
	"github.com/windlass-run/windlass/internal/driver/turn"
	"github.com/windlass-run/windlass/sdk"
)

// Kind is the name of this backend.
const Kind = "gcp-cloudrun"

// batchMax is the most handles of one JobStatuses call.
const batchMax = 100

// maxTimeout is the longest that a task may run; longer is a preview feature.
// https://cloud.google.com/run/docs/configuring/task-timeout
const maxTimeout = 24 * time.Hour

// Driver returns the driver. Providers that come of one value share the budgets
// and the reader of logs of their project.
func Driver() sdk.Driver {
	s := &shared{}
	return sdk.Driver{
		Kind:           Kind,
		Doc:            "Jobs and services of Google Cloud Run.",
		Config:         configSchema(),
		Options:        optionsSchema(),
		Capabilities:   sdk.CapabilitiesOf[*provider](),
		Guarantees:     guarantees(config{}.filled()),
		Support:        support(),
		Schemes:        []string{schemeSecretManager, schemeEnv, schemeFile},
		VisibleSchemes: []string{schemeEnv, schemeFile},
		Open: func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
			p, err := open(ctx, r, s)
			if err != nil {
				return nil, err
			}
			return p, nil
		},
	}
}

// shared is what Google counts by project, whichever provider asks.
type shared struct {
	budgets gcp.Budgets
	readers logtail.Readers
}

// guarantees is what the driver gives. The name of an attempt's job is unique in
// its project and region, and Cloud Run refuses a second one of the name.
// https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.jobs/create
func guarantees(c config) sdk.Guarantees {
	return sdk.Guarantees{
		Submit: sdk.SubmitGuarantee{By: sdk.SubmitByName},
		// A job is looked for by its name. That an answer is never stale past this
		// time is ours to assume; where it were, the name would still refuse a
		// second job.
		Found:          sdk.FoundGuarantee{Within: time.Duration(c.VisibleWithin), Consistent: true},
		Argv:           sdk.ArgvExact,
		ExitCode:       sdk.ExitCodePlatform,
		CancelReadBack: true,
		// https://cloud.google.com/run/docs/container-contract
		Grace:    sdk.GraceGuarantee{Default: 10 * time.Second},
		Deadline: sdk.DeadlineGuarantee{Native: true, Min: time.Second, Max: maxTimeout},
		Secrets:  sdk.SecretReference,
		// Lines that are JSON objects are stored as such.
		// https://cloud.google.com/run/docs/logging
		Logs: sdk.LogGuarantee{Fidelity: sdk.LogStructured, Apart: true, Live: true, Looks: true,
			Settle: sdk.LogSettle{Quiet: time.Duration(c.LogQuiet), Max: time.Duration(c.LogMax)}},
		Workload: workload.Guarantees(),
	}
}

func support() []sdk.FieldSupport {
	return []sdk.FieldSupport{
		{Field: "name", Values: "any; it becomes an annotation, and a label fitted to what a label may hold"},
		{Field: "image", Values: "an image in Artifact Registry, Docker Hub or another public registry; required"},
		{Field: "entrypoint", Values: "unset, empty or a list in UTF-8; where it is set, the image's own arguments are dropped, as `docker run` does"},
		{Field: "args", Values: "unset or a list in UTF-8 of up to 1,000; an empty list needs entrypoint or image_entrypoint"},
		{Field: "image_entrypoint", Values: "used where args is empty and entrypoint unset"},
		{Field: "env", Values: "UTF-8, up to 1,000 variables of 32,768 characters; visible to whoever may see the job"},
		{Field: "secrets", Values: "gcp-sm is passed on and fetched by Cloud Run; env and file become visible variables and need allow_visible_secret"},
		{Field: "workdir", Values: "an absolute path"},
		{Field: "user", Refused: "Cloud Run runs a container as the user that its image names; set it there"},
		{Field: "cpu", Values: "1, 2, 4, 6 or 8 cores"},
		{Field: "memory", Values: "512 MiB to what goes with the cores, up to 32 GiB, in whole MiB"},
		{Field: "gpu", Refused: "GPUs of Cloud Run jobs aren't offered here"},
		{Field: "ephemeral_storage", Refused: "Cloud Run keeps a container's files in its memory; set memory"},
		{Field: "pids", Refused: "Cloud Run has no bound on processes"},
		{Field: "timeout", Values: "up to 24 hours; Cloud Run itself ends the job at 1.1 times it, and at 24 hours where none is set"},
		{Field: "start_timeout", Values: "any"},
		{Field: "grace", Refused: "Cloud Run gives 10 seconds between TERM and KILL, and nothing changes that; leave it out"},
		{Field: "retries", Values: "any"},
		{Field: "labels", Values: "labels of the job and its execution, within Google's rules for labels"},
		{Field: "network", Refused: "a network is set by the options network, subnetwork and connector"},
		{Field: "mounts", Refused: "Cloud Run mounts no folder of the submitter's"},
		{Field: "files", Refused: "Cloud Run has no place for input files; put them into the image, or fetch them in the job"},
		{Field: "stdin", Refused: "Cloud Run gives a job no input"},
		{Field: "profile", Values: "permissive: Cloud Run's own sandbox. Others are refused"},
		{Field: "ttl", Values: "a label that `windlass reap` goes by; Cloud Run itself deletes nothing"},
		{Field: "allow_visible_secret", Values: "needed for secrets of the schemes env and file"},
	}
}

// provider is one configured project and region.
type provider struct {
	*workload.Workloads

	name       string
	cfg        config
	session    *gcp.Session
	run        *grpc.ClientConn
	jobs       runpb.JobsClient
	executions runpb.ExecutionsClient
	tasks      runpb.TasksClient
	logs       loggingpb.LoggingServiceV2Client
	vault      secretmanagerpb.SecretManagerServiceClient
	clock      sdk.Clock
	log        *slog.Logger
	secrets    sdk.SecretResolver
	owner      string
	ledgerID   string
	identity   sdk.Identity

	// reads is the budget of calls that change nothing, writes that of the
	// others, logReads that of Cloud Logging.
	reads, writes, logReads *gcp.Budget
	reader                  *logtail.Reader
	seen                    sight.Memory[seen]
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

func open(ctx context.Context, r sdk.OpenRequest, s *shared) (*provider, error) {
	r = r.Filled()
	var cfg config
	if err := configSchema().Decode("config", r.Config, &cfg); err != nil {
		return nil, err
	}
	cfg = cfg.filled()
	if err := cfg.check(r.Name); err != nil {
		return nil, err
	}
	session, err := gcp.Open(ctx, gcp.Settings{Provider: r.Name, Project: cfg.Project, Region: cfg.Region, Endpoint: cfg.Endpoint,
		Credentials: r.Credentials, Ambient: r.AmbientCredentials, CallTimeout: r.CallTimeout})
	if err != nil {
		return nil, err
	}
	p := &provider{name: r.Name, cfg: cfg, session: session, clock: r.Clock, log: r.Log, secrets: r.Secrets, owner: r.Owner, ledgerID: r.LedgerID,
		identity: sdk.Identity{Kind: Kind, Account: session.Project, Region: session.Region, Endpoint: cmp.Or(strings.TrimRight(session.Endpoint, "/"), runService)}}
	if err := p.connect(); err != nil {
		_ = session.Close() // what opened is closed as far as it goes
		return nil, p.fail(sdk.Internal, "open provider", err)
	}
	p.reads = s.budgets.For(session, session.Region, "run read", cfg.ReadRate, max(cfg.ReadRate/60, 1))
	p.writes = s.budgets.For(session, session.Region, "run write", cfg.WriteRate, max(cfg.WriteRate/12, 1))
	p.logReads = s.budgets.For(session, "", "log read", cfg.LogRate, max(cfg.LogRate/12, 1))
	p.reader = s.readers.For(session.Project, session.Endpoint)
	if err := p.operate(s.budgets.For(session, "", "metric read", cfg.MetricRate, max(cfg.MetricRate/12, 1))); err != nil {
		_ = session.Close() // what opened is closed as far as it goes
		return nil, p.fail(sdk.Internal, "open provider", err)
	}
	return p, nil
}

const (
	runService        = "run.googleapis.com"
	loggingService    = "logging.googleapis.com"
	monitoringService = "monitoring.googleapis.com"
	secretService     = "secretmanager.googleapis.com"
)

func (p *provider) connect() error {
	run, err := p.session.Connect(runService, "location="+p.session.Region)
	if err != nil {
		return err
	}
	logs, err := p.session.Connect(loggingService, "")
	if err != nil {
		return err
	}
	vault, err := p.session.Connect(secretService, "")
	if err != nil {
		return err
	}
	p.run, p.vault = run, secretmanagerpb.NewSecretManagerServiceClient(vault)
	p.jobs, p.executions, p.tasks, p.logs = runpb.NewJobsClient(run), runpb.NewExecutionsClient(run), runpb.NewTasksClient(run), loggingpb.NewLoggingServiceV2Client(logs)
	return nil
}

// operate adds what is needed for services.
func (p *provider) operate(metrics *gcp.Budget) error {
	monitoring, err := p.session.Connect(monitoringService, "")
	if err != nil {
		return err
	}
	p.Workloads = workload.In(workload.Region{Provider: p.name, Session: p.session, Services: runpb.NewServicesClient(p.run), Revisions: runpb.NewRevisionsClient(p.run),
		Logs: p.logs, Metrics: monitoringpb.NewMetricServiceClient(monitoring), Reads: p.reads, Writes: p.writes, LogReads: p.logReads, MetricReads: metrics,
		Reader: p.reader, Late: time.Duration(p.cfg.LogLate), Clock: p.clock, Place: p.place})
	return nil
}

// place reads the options of a service.
func (p *provider) place(raw json.RawMessage) (workload.Placement, []sdk.Problem) {
	var o options
	if err := optionsSchema().Decode("options", raw, &o); err != nil {
		return workload.Placement{}, []sdk.Problem{{Field: "options", Code: sdk.InvalidArgument, Message: err.Error()}}
	}
	all := p.cfg.placement.with(o.placement)
	ps := all.problems()
	for i := range ps {
		ps[i].Field = "options." + ps[i].Field
	}
	return workload.Placement{ServiceAccount: all.ServiceAccount, VPC: all.vpc(), Labels: all.Labels}, ps
}

// Info implements sdk.Provider.
func (p *provider) Info() sdk.Info {
	return sdk.Info{Name: p.name, Kind: Kind, Identity: p.identity, Guarantees: guarantees(p.cfg), BatchMax: batchMax,
		Rate: float64(p.cfg.ReadRate) / 60, Burst: max(p.cfg.ReadRate/60, 1)}
}

// Close implements sdk.Provider. Jobs go on.
func (p *provider) Close() error { return p.session.Close() }

// fail makes an error of this provider.
func (p *provider) fail(code sdk.Code, op string, err error) *sdk.Error {
	return &sdk.Error{Code: code, Op: op, Provider: p.name, Err: err}
}

// call makes a call when its budget allows.
func call[R any](ctx context.Context, p *provider, b *gcp.Budget, op string, f func(ctx context.Context) (R, error)) (R, error) {
	return turn.Call(ctx, p.name, p.session, b, op, f)
}

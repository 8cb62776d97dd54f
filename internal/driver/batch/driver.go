// Package batch runs jobs as jobs of AWS Batch, on Fargate or on instances.
//
// An attempt is one job of AWS Batch with a name of its own. What doesn't change
// from run to run stands in a job definition whose name follows from its content
// and its owner, so that equal jobs share it; arguments and variables stand in
// the job's overrides. SubmitJob has no token: a launch in doubt is looked for
// by its name, and never sent again by itself. A job can't be removed: AWS Batch
// forgets it some time after its end.
package batch

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/internal/cloud/aws/logtail"
	"github.com/windlass-run/windlass/internal/cloud/aws/secretref"
	"github.com/windlass-run/windlass/sdk"
)

// Kind is the name of this backend.
const Kind = "aws-batch"

const (
	// batchMax is the most jobs of one call.
	// https://docs.aws.amazon.com/batch/latest/APIReference/API_DescribeJobs.html
	batchMax = 100
	// evidence is how long an ended job is surely described. AWS promises 7
	// days for its state; users saw a day.
	// https://docs.aws.amazon.com/batch/latest/userguide/job_states.html
	// https://github.com/nextflow-io/nextflow/issues/7301
	evidence = 24 * time.Hour
	// minDeadline is the shortest time-out.
	// https://docs.aws.amazon.com/batch/latest/APIReference/API_JobTimeout.html
	minDeadline = time.Minute
	maxDeadline = math.MaxInt32 * time.Second
)

// Driver returns the driver. Providers that come of one value share the budgets
// and the reading of logs of their account and region.
func Driver() sdk.Driver { return DriverWith(&logtail.Account{}) }

// DriverWith returns a driver that shares them with other drivers too.
func DriverWith(shared *logtail.Account) sdk.Driver {
	return sdk.Driver{
		Kind:         Kind,
		Doc:          "Jobs of AWS Batch, on Fargate or on instances of a compute environment.",
		Config:       configSchema(),
		Options:      optionsSchema(),
		Capabilities: sdk.CapabilitiesOf[*provider](),
		Guarantees:   guarantees(config{}.filled()),
		Support:      support(),
		Schemes:      secretref.Schemes(),
		// What is resolved here can only be a variable that DescribeJobs shows.
		VisibleSchemes: secretref.Visible(),
		Open: func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
			p, err := open(ctx, r, shared)
			if err != nil {
				return nil, err
			}
			return p, nil
		},
	}
}

// guarantees is what the driver gives. AWS Batch deduplicates nothing and
// promises nothing about its lists, so that not finding a job proves nothing.
// Ref::NAME in an argument would be replaced, and is refused. The time between
// TERM and KILL is 30 s, whatever is asked.
func guarantees(c config) sdk.Guarantees {
	return sdk.Guarantees{
		Submit:         sdk.SubmitGuarantee{By: sdk.SubmitBySearch},
		Found:          sdk.FoundGuarantee{Within: time.Duration(c.MissingGrace)},
		Argv:           sdk.ArgvSubstituting,
		ExitCode:       sdk.ExitCodeProcess,
		CancelReadBack: true,
		// https://docs.aws.amazon.com/batch/latest/userguide/job_timeouts.html
		Grace:      sdk.GraceGuarantee{Default: 30 * time.Second},
		Deadline:   sdk.DeadlineGuarantee{Native: true, Min: minDeadline, Max: maxDeadline},
		Evidence:   evidence,
		KeepsEnded: true,
		Secrets:    sdk.SecretReference,
		// The awslogs driver sends lines, both streams as one, and no empty line.
		Logs: sdk.LogGuarantee{Fidelity: sdk.LogLines, DropsEmptyLines: true, Live: true, Looks: true,
			Settle: sdk.LogSettle{Quiet: time.Duration(c.LogQuiet), Max: time.Duration(c.LogMax)}},
	}
}

func support() []sdk.FieldSupport {
	return []sdk.FieldSupport{
		{Field: "name", Values: "any; it becomes the tag windlass-name, fitted to what a tag may hold"},
		{Field: "image", Values: "any reference of letters, digits and - _ : . / # @ that the execution role can pull; required"},
		{Field: "entrypoint", Values: "only one that begins with image_entrypoint: AWS Batch can't replace an image's own"},
		{Field: "args", Values: "unset or a list in UTF-8 without Ref:: and without empty arguments; an empty list is refused"},
		{Field: "image_entrypoint", Values: "compared with entrypoint, what follows it goes before args"},
		{Field: "env", Values: "UTF-8, no name that starts with AWS_BATCH; visible to whoever may describe jobs"},
		{Field: "secrets", Values: "aws-sm and aws-ssm are passed on and fetched by ECS; env and file become visible variables and need allow_visible_secret"},
		{Field: "workdir", Refused: "AWS Batch can't set the working folder; change to it in the command"},
		{Field: "user", Values: "NAME, UID, NAME:GROUP or UID:GID"},
		{Field: "cpu", Values: "on Fargate one of 250m, 500m, 1, 2, 4, 8 and 16 cores; on instances whole cores"},
		{Field: "memory", Values: "on Fargate what goes with the cores, from 512 MiB to 120 GiB; on instances 4 MiB or more"},
		{Field: "gpu", Values: "a number of devices, on instances alone"},
		{Field: "ephemeral_storage", Values: "on Fargate 20 to 200 GiB in whole GiB; refused on instances"},
		{Field: "pids", Refused: "AWS Batch has no bound on processes"},
		{Field: "timeout", Values: "any; AWS Batch itself ends the job after 1.1 times it, or a minute where that is more"},
		{Field: "start_timeout", Values: "any"},
		{Field: "grace", Refused: "AWS Batch always waits 30 s between TERM and KILL, and nothing changes that; leave it out"},
		{Field: "retries", Values: "any; each is a job of its own, AWS Batch itself tries once"},
		{Field: "labels", Values: "tags of the job and its task, within AWS's rules for tags"},
		{Field: "network", Values: "awsvpc on Fargate, host on instances: the compute environment decides"},
		{Field: "mounts", Refused: "AWS Batch mounts no folder of the submitter's"},
		{Field: "files", Refused: "AWS Batch has no place for input files; put them into the image, or fetch them in the job"},
		{Field: "stdin", Refused: "AWS Batch gives a job no input"},
		{Field: "profile", Values: "permissive: AWS Batch's own defaults. Others are refused"},
		{Field: "ttl", Values: "a tag that `windlass reap` goes by"},
		{Field: "allow_visible_secret", Values: "needed for secrets of the schemes env and file"},
	}
}

// provider is one configured job queue.
type provider struct {
	name     string
	cfg      config
	session  *aws.Session
	batch    *batch.Client
	logs     *cloudwatchlogs.Client
	clock    sdk.Clock
	log      *slog.Logger
	secrets  *secretref.Source
	owner    string
	ledgerID string
	identity sdk.Identity

	// reads is the budget of DescribeJobs and ListJobs, submits that of
	// SubmitJob, logReads that of GetLogEvents.
	reads, submits, logReads *aws.Budget
	// logSearches is that of FilterLogEvents, and readers read by it.
	logSearches *aws.Budget
	readers     *logtail.Readers
	noSearch    atomic.Bool

	definitions aws.Definitions
	jobs        jobs
	gather      gather
}

var (
	_ sdk.Provider      = (*provider)(nil)
	_ sdk.JobRunner     = (*provider)(nil)
	_ sdk.JobFinder     = (*provider)(nil)
	_ sdk.JobCanceler   = (*provider)(nil)
	_ sdk.JobCleaner    = (*provider)(nil)
	_ sdk.JobLogger     = (*provider)(nil)
	_ sdk.JobBatcher    = (*provider)(nil)
	_ sdk.OwnedLister   = (*provider)(nil)
	_ sdk.ExpiryRenewer = (*provider)(nil)
)

func open(ctx context.Context, r sdk.OpenRequest, shared *logtail.Account) (*provider, error) {
	r = r.Filled()
	var cfg config
	if err := configSchema().Decode("config", r.Config, &cfg); err != nil {
		return nil, err
	}
	cfg = cfg.filled()
	if err := aws.CheckTags(r.Name, cfg.Tags); err != nil {
		return nil, err
	}
	session, err := aws.OpenFor(ctx, r, aws.Settings{Region: cfg.Region, Endpoint: cfg.Endpoint, Account: cfg.Account})
	if err != nil {
		return nil, err
	}
	p := &provider{
		name: r.Name, cfg: cfg, session: session, clock: r.Clock, log: r.Log, owner: r.Owner, ledgerID: r.LedgerID,
		batch: batch.NewFromConfig(session.Config), logs: cloudwatchlogs.NewFromConfig(session.Config),
		secrets: &secretref.Source{Session: session, Vault: secretsmanager.NewFromConfig(session.Config), Resolver: r.Secrets, Provider: r.Name,
			Service: "AWS Batch", Describes: "anyone who may describe jobs"},
		identity: sdk.Identity{Kind: Kind, Account: session.Account, Region: session.Region,
			Endpoint: cmp.Or(session.Endpoint, "batch."+session.Region) + "/queue/" + queueName(cfg.Queue)},
	}
	p.reads = shared.Budgets.For(session, "batch read", float64(cfg.DescribeRate), 2*cfg.DescribeRate)
	p.submits = shared.Budgets.For(session, "batch submit", float64(cfg.SubmitLimit), cfg.SubmitLimit)
	p.logReads, p.logSearches = shared.LogBudgets(session, cfg.LogRate)
	p.readers = &shared.Readers
	return p, nil
}

// Info implements sdk.Provider.
func (p *provider) Info() sdk.Info {
	return sdk.Info{Name: p.name, Kind: Kind, Identity: p.identity, Guarantees: guarantees(p.cfg), BatchMax: batchMax,
		Rate: float64(p.cfg.DescribeRate), Burst: 2 * p.cfg.DescribeRate}
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

// paced makes a call when its budget allows.
func (p *provider) paced(ctx context.Context, b *aws.Budget, op string, f func(ctx context.Context) error) error {
	return p.placed(op, p.session.Paced(ctx, b, op, f))
}

// placed tells of a queue that isn't right, which says nothing of a job.
func (p *provider) placed(op string, err error) error {
	if !noQueue(err) {
		return err
	}
	e := p.fail(sdk.FailedPrecondition, op, err)
	e.Remedy = "check queue under config:"
	return e
}

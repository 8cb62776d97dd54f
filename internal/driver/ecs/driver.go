// Package ecs runs jobs as tasks of Amazon ECS, on Fargate or on instances, and
// operates its services (package workload).
//
// An attempt is one task. What doesn't change from run to run stands in a task
// definition whose family follows from its content and its owner, so that equal
// jobs share it; arguments and variables stand in the task's overrides. A client
// token keeps an attempt to one task. A task can't be removed: ECS forgets it
// about an hour after its end.
package ecs

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/internal/cloud/aws/logtail"
	"github.com/windlass-run/windlass/internal/cloud/aws/secretref"
	"github.com/windlass-run/windlass/internal/driver/ecs/workload"
	"github.com/windlass-run/windlass/sdk"
)

// Kind is the name of this backend.
const Kind = "aws-ecs"

const (
	// batchMax is the most tasks of one call.
	// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_DescribeTasks.html
	batchMax = 100
	// tokenWindow is how long a client token surely holds: 24 hours, or the
	// task's life and an hour, whichever is shorter. A task may end at once.
	// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/ECS_Idempotency.html
	tokenWindow = time.Hour
	// evidence is how long a stopped task is surely described.
	// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/stopped-task-errors.html
	evidence = time.Hour
	// The bounds of the time between TERM and KILL.
	// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_ContainerDefinition.html
	minGrace, maxGrace, defaultGrace = 2 * time.Second, 120 * time.Second, 30 * time.Second
)

// Driver returns the driver. Providers that come of one value share the budgets
// and the reading of logs of their account and region.
func Driver() sdk.Driver { return DriverWith(&logtail.Account{}) }

// DriverWith returns a driver that shares them with other drivers too.
func DriverWith(shared *logtail.Account) sdk.Driver {
	return sdk.Driver{
		Kind:         Kind,
		Doc:          "Tasks and services of Amazon ECS, on Fargate or on instances of yours.",
		Config:       configSchema(),
		Options:      optionsSchema(),
		Capabilities: sdk.CapabilitiesOf[*provider](),
		Guarantees:   guarantees(config{}.filled()),
		Support:      support(),
		Schemes:      secretref.Schemes(),
		// What is resolved here can only be a variable that DescribeTasks shows.
		VisibleSchemes: secretref.Visible(),
		Resources:      resourceTypes(),
		Open: func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
			p, err := open(ctx, r, shared)
			if err != nil {
				return nil, err
			}
			return p, nil
		},
	}
}

// guarantees is what the driver gives. ECS's lists and descriptions are
// eventually consistent, so that not finding a task proves nothing; a launch in
// doubt is settled by its token instead. ECS has no time-out of its own: the
// holder keeps it, and nobody does while no holder lives.
func guarantees(c config) sdk.Guarantees {
	return sdk.Guarantees{
		Submit:         sdk.SubmitGuarantee{By: sdk.SubmitByToken, TokenWindow: tokenWindow},
		Found:          sdk.FoundGuarantee{Within: time.Duration(c.MissingGrace)},
		Argv:           sdk.ArgvExact,
		ExitCode:       sdk.ExitCodeProcess,
		CancelReadBack: true,
		Grace:          sdk.GraceGuarantee{Supported: true, Min: minGrace, Max: maxGrace, Default: defaultGrace, AtLaunch: true},
		Evidence:       evidence,
		KeepsEnded:     true,
		Secrets:        sdk.SecretReference,
		// The awslogs driver sends lines, both streams as one, and no empty line.
		Logs: sdk.LogGuarantee{Fidelity: sdk.LogLines, DropsEmptyLines: true, Live: true, Looks: true,
			Settle: sdk.LogSettle{Quiet: time.Duration(c.LogQuiet), Max: time.Duration(c.LogMax)}},
		Workload: workload.Guarantees(c.ExecShell, time.Duration(c.ChangeGrace)),
	}
}

func support() []sdk.FieldSupport {
	return []sdk.FieldSupport{
		{Field: "name", Values: "any; it becomes the tag windlass-name, fitted to what a tag may hold"},
		{Field: "image", Values: "any reference that the task's execution role can pull; required"},
		{Field: "entrypoint", Values: "unset, empty or a list in UTF-8; where it is set, the image's own arguments are dropped, as `docker run` does"},
		{Field: "args", Values: "unset or a list in UTF-8; an empty list needs entrypoint or image_entrypoint"},
		{Field: "image_entrypoint", Values: "used where args is empty and entrypoint unset"},
		{Field: "env", Values: "UTF-8; visible to whoever may describe tasks"},
		{Field: "secrets", Values: "aws-sm and aws-ssm are passed on and fetched by ECS; env and file become visible variables and need allow_visible_secret"},
		{Field: "workdir", Values: "an absolute path"},
		{Field: "user", Values: "NAME, UID, NAME:GROUP or UID:GID"},
		{Field: "cpu", Values: "on Fargate one of 250m, 500m, 1, 2, 4, 8 and 16 cores; on instances any"},
		{Field: "memory", Values: "on Fargate what goes with the cores, from 512 MiB to 120 GiB; on instances 6 MiB or more"},
		{Field: "gpu", Values: "a number of devices, on instances alone"},
		{Field: "ephemeral_storage", Values: "on Fargate 20 to 200 GiB in whole GiB; refused on instances"},
		{Field: "pids", Refused: "ECS has no bound on processes"},
		{Field: "timeout", Values: "any; kept by whoever holds the run"},
		{Field: "start_timeout", Values: "any"},
		{Field: "grace", Values: "2 to 120 s in whole seconds; a cancel can't change it"},
		{Field: "retries", Values: "any"},
		{Field: "labels", Values: "tags of the task, within AWS's rules for tags"},
		{Field: "network", Values: "on Fargate awsvpc; on instances awsvpc, bridge, host or none"},
		{Field: "mounts", Refused: "ECS mounts no folder of the submitter's"},
		{Field: "files", Refused: "ECS has no place for input files; put them into the image, or fetch them in the job"},
		{Field: "stdin", Refused: "ECS gives a task no input"},
		{Field: "profile", Values: "permissive: ECS's own defaults. Others are refused"},
		{Field: "ttl", Values: "a tag that `windlass reap` goes by; ECS itself stops nothing"},
		{Field: "allow_visible_secret", Values: "needed for secrets of the schemes env and file"},
	}
}

// provider is one configured cluster for jobs, and all clusters for services.
type provider struct {
	*workload.Services
	name     string
	cfg      config
	session  *aws.Session
	ecs      *ecs.Client
	logs     *cloudwatchlogs.Client
	clock    sdk.Clock
	log      *slog.Logger
	secrets  *secretref.Source
	owner    string
	ledgerID string
	identity sdk.Identity

	// reads is the budget of DescribeTasks and ListTasks, which AWS counts
	// together; logReads that of GetLogEvents.
	reads, logReads *aws.Budget
	// submits is that of RunTask.
	submits *aws.Budget
	// logSearches is that of FilterLogEvents, and readers read by it.
	logSearches *aws.Budget
	readers     *logtail.Readers
	noSearch    atomic.Bool

	definitions aws.Definitions
	tasks       tasks
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
	if !parameterPrefix.MatchString(cfg.ConfigPrefix) {
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: "open provider", Provider: r.Name, Field: "config.config_prefix",
			Err: fmt.Errorf("%q can't begin the name of a parameter", cfg.ConfigPrefix), Remedy: "write it as in /team/windlass"}
	}
	session, err := aws.OpenFor(ctx, r, aws.Settings{Region: cfg.Region, Endpoint: cfg.Endpoint, Account: cfg.Account})
	if err != nil {
		return nil, err
	}
	p := &provider{
		name: r.Name, cfg: cfg, session: session, clock: r.Clock, log: r.Log, owner: r.Owner, ledgerID: r.LedgerID,
		ecs: ecs.NewFromConfig(session.Config), logs: cloudwatchlogs.NewFromConfig(session.Config),
		secrets: &secretref.Source{Session: session, Vault: secretsmanager.NewFromConfig(session.Config), Resolver: r.Secrets, Provider: r.Name,
			Service: "ECS", Describes: "anyone who may describe tasks"},
		identity: sdk.Identity{Kind: Kind, Account: session.Account, Region: session.Region,
			Endpoint: cmp.Or(session.Endpoint, "ecs."+session.Region) + "/cluster/" + clusterName(cfg.Cluster)},
	}
	p.reads = shared.Budgets.For(session, "ecs read", float64(cfg.DescribeRate), 2*cfg.DescribeRate)
	p.submits = shared.Budgets.For(session, "ecs submit", float64(cfg.SubmitLimit), submitBurst*cfg.SubmitLimit)
	p.logReads, p.logSearches = shared.LogBudgets(session, cfg.LogRate)
	p.readers = &shared.Readers
	p.Services = p.services(shared)
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

// read makes a call of the family that the budget of reads is for.
func (p *provider) read(ctx context.Context, op string, f func(ctx context.Context) error) error {
	return p.paced(ctx, p.reads, op, f)
}

// paced makes a call when its budget allows. That the cluster isn't found says
// nothing of a job.
func (p *provider) paced(ctx context.Context, b *aws.Budget, op string, f func(ctx context.Context) error) error {
	err := p.session.Paced(ctx, b, op, f)
	if aws.ErrorCode(err) == "ClusterNotFoundException" {
		e := p.fail(sdk.FailedPrecondition, op, err)
		e.Remedy = "check cluster under config:"
		return e
	}
	return err
}

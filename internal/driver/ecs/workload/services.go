// Package workload operates the services of Amazon ECS: what `svc` does on
// providers of kind aws-ecs. The driver of jobs embeds it.
//
// ECS has no place for the ID of an operation on an update, so a mark is left on
// the service, as a tag, before the update is sent: which operation, what it asks
// for, and what was there. A reply that is lost is cleared up by whether what the
// mark asks for is there.
package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	autoscaling "github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/internal/cloud/aws/parameter"
	"github.com/windlass-run/windlass/internal/cloud/aws/secretref"
	"github.com/windlass-run/windlass/internal/driver/glance"
	"github.com/windlass-run/windlass/sdk"
)

// Options are what the services need of their provider.
type Options struct {
	Provider string
	Session  *aws.Session
	ECS      *ecs.Client
	Logs     *cloudwatchlogs.Client
	Clock    sdk.Clock
	// Owner and LedgerID go onto what is made.
	Owner, LedgerID string
	// Reads is the budget of DescribeTasks and ListTasks, ServiceReads that of
	// reading services, LogReads that of GetLogEvents.
	Reads, ServiceReads, LogReads *aws.Budget
	// Place returns where the tasks of a new service go, for its options.
	Place func(options json.RawMessage) (Placement, error)
	// Secrets returns what ECS fetches references of secrets from.
	Secrets func(ctx context.Context, refs map[string]sdk.SecretRef, bad secretref.ProblemFunc) (map[string]string, error)
	// ConfigPrefix begins the names of parameters, with a slash.
	ConfigPrefix string
	// ExecShell, when not empty, is the shell in the containers under which commands
	// run so that their exit codes are known.
	ExecShell string
	// MetricInterval is the least time between two looks at CloudWatch.
	MetricInterval time.Duration
}

// Placement says how and where the tasks of a new service run.
type Placement struct {
	Fargate                 bool
	CapacityProviders       []types.CapacityProviderStrategyItem
	Subnets, SecurityGroups []string
	PublicIP                bool
	ExecutionRole, TaskRole string
	PlatformVersion         string
	Architecture            string
	Tags                    map[string]string
	LogOptions              map[string]string
}

// Services are the services that a provider's credentials show. The value is safe
// for concurrent use.
type Services struct {
	o          Options
	scaling    *autoscaling.Client
	metrics    *cloudwatch.Client
	parameters *parameter.Store
	// seen are services as a brief status has just read them.
	seen glance.Glances[address, sight]

	mu          sync.Mutex
	definitions map[string]*definition // by ARN; they never change
}

// definition is a task definition with its tags.
type definition struct {
	types.TaskDefinition
	tags []types.Tag
}

// main is the container whose image, output and settings are meant: the first that
// is essential.
func (d *definition) main() int {
	for i, c := range d.ContainerDefinitions {
		if c.Essential == nil || *c.Essential {
			return i
		}
	}
	return 0
}

var (
	_ sdk.WorkloadLister   = (*Services)(nil)
	_ sdk.WorkloadStatuser = (*Services)(nil)
	_ sdk.Starter          = (*Services)(nil)
	_ sdk.Stopper          = (*Services)(nil)
	_ sdk.Scaler           = (*Services)(nil)
	_ sdk.Restarter        = (*Services)(nil)
	_ sdk.Configurer       = (*Services)(nil)
	_ sdk.Execer           = (*Services)(nil)
	_ sdk.LogTailer        = (*Services)(nil)
	_ sdk.MetricStreamer   = (*Services)(nil)
)

// New returns the services of a provider.
func New(o Options) *Services {
	return &Services{o: o, scaling: autoscaling.NewFromConfig(o.Session.Config), metrics: cloudwatch.NewFromConfig(o.Session.Config),
		parameters: parameter.NewStore(o.Session), definitions: map[string]*definition{}}
}

// Guarantees are what ECS gives for services. With a shell the code of a command
// is known, since the shell prints it. Within is when a change is surely shown.
func Guarantees(execShell string, within time.Duration) sdk.WorkloadGuarantees {
	return sdk.WorkloadGuarantees{
		Ops:      sdk.OpGuarantee{By: sdk.OpOnObject, Within: within},
		Restart:  sdk.RestartRolling,
		Stop:     sdk.StopZero,
		Failures: true,
		// ECS takes one string, and its agent splits it into words as a shell would,
		// which quotes undo. A command has a terminal always.
		Exec: sdk.ExecGuarantee{ExitCode: execShell != "", Argv: sdk.ArgvExact, Terminal: true},
		// Container Insights has a point a minute, some minutes late.
		// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Container-Insights-enhanced-observability-metrics-ECS.html
		Warms: 5 * time.Minute,
	}
}

// address is a path taken apart.
type address struct {
	path             sdk.WorkloadPath
	cluster, service string
}

func (s *Services) address(op string, path sdk.WorkloadPath) (address, error) {
	if err := path.Check(); err != nil {
		return address{}, err
	}
	seg := path.Segments()
	if len(seg) != 2 {
		e := s.fail(sdk.InvalidArgument, op, fmt.Errorf("%s isn't CLUSTER/SERVICE", path))
		e.Field, e.Remedy = "path", "`windlass svc ls` shows it as it is taken"
		return address{}, e
	}
	return address{path: path, cluster: seg[0], service: seg[1]}, nil
}

// fail makes an error of this provider.
func (s *Services) fail(code sdk.Code, op string, err error) *sdk.Error {
	return &sdk.Error{Code: code, Op: op, Provider: s.o.Provider, Err: err}
}

func (s *Services) absent(op string, a address) *sdk.Error {
	return s.fail(sdk.NotFound, op, fmt.Errorf("the cluster %s has no service %s", a.cluster, a.service))
}

// call makes one call, and classes what is a state of the service rather than a
// mistake of the request.
func (s *Services) call(ctx context.Context, op string, f func(ctx context.Context) error) error {
	err := s.o.Session.Call(ctx, op, f)
	switch aws.ErrorCode(err) {
	case "ServiceNotActiveException", "TargetNotConnectedException":
		var e *sdk.Error
		if errors.As(err, &e) {
			c := *e
			c.Code, c.Retryable = sdk.FailedPrecondition, false
			return &c
		}
	}
	return err
}

// definition reads a task definition, once: a revision never changes.
func (s *Services) definition(ctx context.Context, op, arn string) (*definition, error) {
	s.mu.Lock()
	d := s.definitions[arn]
	s.mu.Unlock()
	if d != nil {
		return d, nil
	}
	var out *ecs.DescribeTaskDefinitionOutput
	err := s.call(ctx, op, func(ctx context.Context) (err error) {
		out, err = s.o.ECS.DescribeTaskDefinition(ctx, &ecs.DescribeTaskDefinitionInput{TaskDefinition: &arn, Include: []types.TaskDefinitionField{types.TaskDefinitionFieldTags}})
		return err
	})
	if err != nil {
		return nil, err
	}
	if out.TaskDefinition == nil || len(out.TaskDefinition.ContainerDefinitions) == 0 {
		return nil, s.fail(sdk.Unavailable, op, errors.New("the answer holds no definition"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.definitions) >= definitionsKept {
		clear(s.definitions)
	}
	d = &definition{*out.TaskDefinition, out.Tags}
	s.definitions[arn] = d
	return d, nil
}

// definitionsKept bounds the memory of definitions.
const definitionsKept = 1000

// lastPart is what stands behind the last slash of an ARN.
func lastPart(arn string) string { return arn[strings.LastIndexByte(arn, '/')+1:] }

// revision is the number of a task definition's revision in its ARN.
func revision(arn string) string { return arn[strings.LastIndexByte(arn, ':')+1:] }

func str(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

func at(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func optional(v string) *string {
	if v == "" {
		return nil
	}
	return &v
}

func itoa(n int) string { return strconv.Itoa(n) }

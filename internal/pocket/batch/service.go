package batch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
	"github.com/windlass-run/windlass/internal/pocket/logs"
	"github.com/windlass-run/windlass/internal/pocket/run"
)

// Options are what the service needs of its surroundings.
type Options struct {
	Account, Region string
	// Now is the cloud's clock.
	Now func() time.Time
	// NewID returns 32 hexadecimal digits, new each time.
	NewID func() string
	// Executor runs the containers. The service doesn't close it.
	Executor run.Executor
	// Logs gets what containers write.
	Logs *logs.Service
	// Secret reads what a container's secrets refer to: an ARN of Secrets
	// Manager, or the ARN or name of a parameter.
	Secret func(valueFrom string) (string, error)
	// Queues are there from the start, beside "default" on Fargate.
	Queues []Queue
}

// Queue is a job queue.
type Queue struct {
	Name string
	// Instances says that its compute environment has instances; else it is on
	// Fargate.
	Instances bool
	// Disabled queues take no jobs.
	Disabled bool
}

// DefaultQueue is the queue that is always there, on Fargate.
const DefaultQueue = "default"

// DefaultLogGroup gets the output of jobs that don't name a group:
// https://docs.aws.amazon.com/batch/latest/userguide/using_cloudwatch_logs.html
const DefaultLogGroup = "/aws/batch/job"

// Service is AWS Batch of one account and region.
type Service struct {
	o   Options
	api awsjson.Service

	mu          sync.Mutex
	queues      []Queue
	definitions map[string]*family
	jobs        map[string]*job              // by ID
	order       []*job                       // by age
	tags        map[string]map[string]string // of queues, by ARN
	knobs       Knobs
	mishaps     []*Mishap
	closed      bool
	lives       sync.WaitGroup
	end         chan struct{} // closed by Close
}

// New returns the service.
func New(o Options) (*Service, error) {
	model, err := awsjson.ParseModel(modelData)
	if err != nil {
		return nil, err
	}
	s := &Service{o: o, queues: append([]Queue{{Name: DefaultQueue}}, o.Queues...), definitions: map[string]*family{}, jobs: map[string]*job{},
		tags: map[string]map[string]string{}, knobs: Knobs{Pace: DefaultPace()}, end: make(chan struct{}),
		api: awsjson.Service{Name: "batch", Model: model, Invalid: invalid}}
	s.api.Offer(
		handle("RegisterJobDefinition", s.registerJobDefinition),
		handle("DeregisterJobDefinition", s.deregisterJobDefinition),
		handle("DescribeJobDefinitions", s.describeJobDefinitions),
		handle("SubmitJob", s.submitJob),
		handle("DescribeJobs", s.describeJobs),
		handle("ListJobs", s.listJobs),
		handle("TerminateJob", s.terminateJob),
		handle("CancelJob", s.cancelJob),
		handle("DescribeJobQueues", s.describeJobQueues),
		handle("DescribeComputeEnvironments", s.describeComputeEnvironments),
		handle("TagResource", s.tagResource),
		handle("UntagResource", s.untagResource),
		handle("ListTagsForResource", s.listTagsForResource),
	)
	return s, nil
}

// handle makes an action of the SDK's types.
func handle[I, O any](name string, f func(context.Context, awsjson.Call, *I) (*O, error)) awsjson.Action {
	return awsjson.HandlePlain(name, func(ctx context.Context, call awsjson.Call, in *I) (*output, error) {
		out, err := f(ctx, call, in)
		if err != nil {
			return nil, err
		}
		return &output{out}, nil
	})
}

// API returns the operations.
func (s *Service) API() *awsjson.Service { return &s.api }

// Close ends every job, as by a KILL, and waits until none is left. Calls that
// come later see failed jobs, and SubmitJob is refused.
func (s *Service) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.end)
	}
	s.mu.Unlock()
	s.lives.Wait()
}

// arn is the full name of something of AWS Batch.
func (s *Service) arn(kind, rest string) string {
	return fmt.Sprintf("arn:aws:batch:%s:%s:%s/%s", s.o.Region, s.o.Account, kind, rest)
}

// fromARN returns what stands behind kind/ in a full name of this account and
// region. A text that is no ARN is returned as it is.
func (s *Service) fromARN(kind, text string) (rest string, ok bool) {
	if !strings.HasPrefix(text, "arn:") {
		return text, true
	}
	return strings.CutPrefix(text, s.arn(kind, ""))
}

// queue finds a queue by name or ARN. The lock is held.
func (s *Service) queue(name string) (Queue, error) {
	bare, ok := s.fromARN("job-queue", name)
	i := slices.IndexFunc(s.queues, func(q Queue) bool { return q.Name == bare })
	if !ok || i < 0 {
		return Queue{}, refuse(ruleQueue, "JobQueue %s not found.", name)
	}
	return s.queues[i], nil
}

// The names of the compute environments, one for each kind.
const (
	onFargate   = "fargate"
	onInstances = "instances"
)

func (q Queue) environment() string {
	if q.Instances {
		return onInstances
	}
	return onFargate
}

func (s *Service) describeJobQueues(_ context.Context, _ awsjson.Call, in *batch.DescribeJobQueuesInput) (*batch.DescribeJobQueuesOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	details := map[string]types.JobQueueDetail{}
	var names []string
	for _, q := range s.queues {
		arn := s.arn("job-queue", q.Name)
		if len(in.JobQueues) > 0 && !slices.Contains(in.JobQueues, q.Name) && !slices.Contains(in.JobQueues, arn) {
			continue
		}
		state := types.JQStateEnabled
		if q.Disabled {
			state = types.JQStateDisabled
		}
		names = append(names, q.Name)
		details[q.Name] = types.JobQueueDetail{JobQueueArn: &arn, JobQueueName: &q.Name, State: state, Status: types.JQStatusValid, StatusReason: ptr("JobQueue Healthy"),
			Priority: ptr(int32(1)), Tags: s.tags[arn], ComputeEnvironmentOrder: []types.ComputeEnvironmentOrder{
				{Order: ptr(int32(1)), ComputeEnvironment: ptr(s.arn("compute-environment", q.environment()))}}}
	}
	page, next, err := s.page(names, in.NextToken, in.MaxResults, maxPage)
	if err != nil {
		return nil, err
	}
	out := &batch.DescribeJobQueuesOutput{JobQueues: []types.JobQueueDetail{}, NextToken: next}
	for _, n := range page {
		out.JobQueues = append(out.JobQueues, details[n])
	}
	return out, nil
}

func (s *Service) describeComputeEnvironments(_ context.Context, _ awsjson.Call, in *batch.DescribeComputeEnvironmentsInput) (*batch.DescribeComputeEnvironmentsOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, name := range []string{onFargate, onInstances} {
		arn := s.arn("compute-environment", name)
		there := slices.ContainsFunc(s.queues, func(q Queue) bool { return q.environment() == name })
		if there && (len(in.ComputeEnvironments) == 0 || slices.Contains(in.ComputeEnvironments, name) || slices.Contains(in.ComputeEnvironments, arn)) {
			names = append(names, name)
		}
	}
	page, next, err := s.page(names, in.NextToken, in.MaxResults, maxPage)
	if err != nil {
		return nil, err
	}
	out := &batch.DescribeComputeEnvironmentsOutput{ComputeEnvironments: []types.ComputeEnvironmentDetail{}, NextToken: next}
	for _, n := range page {
		resource := &types.ComputeResource{Type: types.CRTypeFargate, MaxvCpus: ptr(int32(256)), Subnets: []string{"subnet-0123456789abcdef0"}}
		if n == onInstances {
			resource.Type, resource.InstanceTypes = types.CRTypeEc2, []string{"optimal"}
		}
		out.ComputeEnvironments = append(out.ComputeEnvironments, types.ComputeEnvironmentDetail{ComputeEnvironmentName: &n,
			ComputeEnvironmentArn: ptr(s.arn("compute-environment", n)), ContainerOrchestrationType: types.OrchestrationTypeEcs,
			EcsClusterArn: ptr(fmt.Sprintf("arn:aws:ecs:%s:%s:cluster/%s", s.o.Region, s.o.Account, s.cluster(n))), Type: types.CETypeManaged,
			State: types.CEStateEnabled, Status: types.CEStatusValid, StatusReason: ptr("ComputeEnvironment Healthy"), ComputeResources: resource})
	}
	return out, nil
}

// cluster is the name of the cluster that AWS Batch makes for an environment.
func (s *Service) cluster(environment string) string { return environment + "_Batch_00000000" }

func ptr[T any](v T) *T { return &v }

func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

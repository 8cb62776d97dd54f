package ecs

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/schemas"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
	"github.com/windlass-run/windlass/internal/pocket/logs"
	"github.com/windlass-run/windlass/internal/pocket/run"
)

// Options are what the service needs of its surroundings.
type Options struct {
	Account, Region string
	// Now is the cloud's clock.
	Now func() time.Time
	// NewID returns 32 hexadecimal digits, new each time; nil means random
	// ones.
	NewID func() string
	// Executor runs the containers. The service doesn't close it.
	Executor run.Executor
	// Logs gets what containers with the awslogs driver write.
	Logs *logs.Service
	// Secret reads what a container's secrets refer to: an ARN of Secrets
	// Manager, or the ARN or name of a parameter.
	Secret func(valueFrom string) (string, error)
	// Clusters are there from the start, beside "default".
	Clusters []string
	// Instances says that clusters have container instances, so that tasks of
	// launch type EC2 find a place.
	Instances bool
}

// Service is ECS of one account and region.
type Service struct {
	o   Options
	api awsjson.Service

	mu       sync.Mutex
	clusters map[string]*cluster
	families map[string]*family
	tasks    map[string]*task // by ID
	order    []*task          // by age
	services map[string]*service
	sessions map[string]*session // of ExecuteCommand, by ID
	swept    time.Time           // when sweep last looked
	tokens   map[tokenKey]*token
	knobs    Knobs
	mishaps  []*Mishap
	inFlight map[string]int // registrations under way, by family
	closed   bool
	lives    sync.WaitGroup
	end      chan struct{} // closed by Close
}

// New returns the service.
func New(o Options) (*Service, error) {
	if o.NewID == nil {
		o.NewID = randomID
	}
	model, err := awsjson.ParseModel(modelData)
	if err != nil {
		return nil, err
	}
	s := &Service{o: o, services: map[string]*service{}, sessions: map[string]*session{}, clusters: map[string]*cluster{}, families: map[string]*family{}, tasks: map[string]*task{},
		tokens: map[tokenKey]*token{}, inFlight: map[string]int{}, knobs: Knobs{Pace: DefaultPace()}, end: make(chan struct{}),
		api: awsjson.Service{Prefix: "AmazonEC2ContainerServiceV20141113", Name: "ecs", Model: model, Invalid: invalid}}
	for _, name := range append([]string{defaultCluster}, o.Clusters...) {
		s.clusters[name] = &cluster{Name: name, Providers: fargateProviders(), Active: true,
			Settings: []types.ClusterSetting{{Name: types.ClusterSettingNameContainerInsights, Value: ptr("enhanced")}}}
	}
	s.api.Offer(
		awsjson.Handle(schemas.CreateCluster, schemas.CreateClusterRequest, s.createCluster),
		awsjson.Handle(schemas.DeleteCluster, schemas.DeleteClusterRequest, s.deleteCluster),
		awsjson.Handle(schemas.DescribeClusters, schemas.DescribeClustersRequest, s.describeClusters),
		awsjson.Handle(schemas.ListClusters, schemas.ListClustersRequest, s.listClusters),
		awsjson.Handle(schemas.RegisterTaskDefinition, schemas.RegisterTaskDefinitionRequest, s.registerTaskDefinition),
		awsjson.Handle(schemas.DescribeTaskDefinition, schemas.DescribeTaskDefinitionRequest, s.describeTaskDefinition),
		awsjson.Handle(schemas.DeregisterTaskDefinition, schemas.DeregisterTaskDefinitionRequest, s.deregisterTaskDefinition),
		awsjson.Handle(schemas.DeleteTaskDefinitions, schemas.DeleteTaskDefinitionsRequest, s.deleteTaskDefinitions),
		awsjson.Handle(schemas.ListTaskDefinitions, schemas.ListTaskDefinitionsRequest, s.listTaskDefinitions),
		awsjson.Handle(schemas.ListTaskDefinitionFamilies, schemas.ListTaskDefinitionFamiliesRequest, s.listTaskDefinitionFamilies),
		awsjson.Handle(schemas.RunTask, schemas.RunTaskRequest, s.runTask),
		awsjson.Handle(schemas.DescribeTasks, schemas.DescribeTasksRequest, s.describeTasks),
		awsjson.Handle(schemas.ListTasks, schemas.ListTasksRequest, s.listTasks),
		awsjson.Handle(schemas.StopTask, schemas.StopTaskRequest, s.stopTask),
		awsjson.Handle(schemas.CreateService, schemas.CreateServiceRequest, s.createService),
		awsjson.Handle(schemas.UpdateService, schemas.UpdateServiceRequest, s.updateService),
		awsjson.Handle(schemas.DeleteService, schemas.DeleteServiceRequest, s.deleteService),
		awsjson.Handle(schemas.DescribeServices, schemas.DescribeServicesRequest, s.describeServices),
		awsjson.Handle(schemas.ListServices, schemas.ListServicesRequest, s.listServices),
		awsjson.Handle(schemas.ExecuteCommand, schemas.ExecuteCommandRequest, s.executeCommand),
		awsjson.Handle(schemas.TagResource, schemas.TagResourceRequest, s.tagResource),
		awsjson.Handle(schemas.UntagResource, schemas.UntagResourceRequest, s.untagResource),
		awsjson.Handle(schemas.ListTagsForResource, schemas.ListTagsForResourceRequest, s.listTagsForResource),
	)
	return s, nil
}

// API returns the operations.
func (s *Service) API() *awsjson.Service { return &s.api }

// Close ends every task, as by a KILL, and waits until none is left. Calls that
// come later see stopped tasks, and RunTask is refused.
func (s *Service) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.end)
	}
	s.mu.Unlock()
	s.lives.Wait()
}

// invalid words the refusal of an input that breaks the model.
func invalid(v awsjson.Violation) *awsjson.Error {
	if v.Kind == "required" {
		return awsjson.Errorf("InvalidParameterException", "%s: Member must not be null", v.Path)
	}
	return awsjson.Errorf("InvalidParameterException", "1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: %s", v.Value, v.Path, v.Text)
}

// arn is the full name of something of ECS.
func (s *Service) arn(kind, rest string) string {
	return fmt.Sprintf("arn:aws:ecs:%s:%s:%s/%s", s.o.Region, s.o.Account, kind, rest)
}

func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// fromARN returns what stands behind kind/ in a full name of this account and
// region. A text that is no ARN is returned as it is.
func (s *Service) fromARN(kind, text string) (rest string, ok bool) {
	if len(text) < 4 || text[:4] != "arn:" {
		return text, true
	}
	prefix := s.arn(kind, "")
	if len(text) <= len(prefix) || text[:len(prefix)] != prefix {
		return "", false
	}
	return text[len(prefix):], true
}

func ptr[T any](v T) *T { return &v }

func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

func failure(arn, reason string) types.Failure {
	return types.Failure{Arn: &arn, Reason: &reason}
}

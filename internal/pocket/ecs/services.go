package ecs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// service is a number of equal tasks that are kept running.
type service struct {
	Name, Cluster string
	// Active is false once it was deleted.
	Active  bool
	ARN     string
	Tags    []types.Tag
	Desired int32
	// Shape is what was asked for last: the template of its deployments.
	Shape     shape
	Config    types.DeploymentConfiguration
	Propagate types.PropagateTags
	Created   time.Time
	CreatedBy string
	// Token is CreateService's.
	Token string
	// Deployments has the primary one first.
	Deployments []*deployment
	// Stable is the ID of the last deployment that came to its end well.
	Stable *deployment
	Events []types.ServiceEvent

	// tasks are those that aren't STOPPED yet.
	tasks []*task
	// due is when the scheduler looks at the last change, by the knob ServiceDelay.
	due time.Time
	// wake tells the scheduler that something changed.
	wake chan struct{}
}

// shape is what makes a deployment: a change of it is a new one.
type shape struct {
	Definition string // ARN
	Launch     types.LaunchType
	Strategy   []types.CapacityProviderStrategyItem
	Platform   *string
	Network    *types.NetworkConfiguration
	Exec       bool
}

// deployment is one roll-out of a service.
type deployment struct {
	ID               string
	Shape            shape
	Created, Updated time.Time
	State            types.DeploymentRolloutState
	Reason           string
	// Failed is how many of its tasks never came up.
	Failed int32

	// retry is when the next task is tried after one that failed.
	retry time.Time
}

const (
	primary = "PRIMARY"
	// maxServices is how many services one call may name:
	// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_DescribeServices.html
	maxServices = 10
	// maxEvents is how many events of a service are kept:
	// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_Service.html
	maxEvents = 100
)

// serviceKey is what a service's name is unique in.
func serviceKey(cluster, name string) string { return cluster + "/" + name }

// service finds a service by name or ARN; nil is none. The lock is held.
func (s *Service) service(c *cluster, name string) *service {
	bare, ok := s.fromARN("service", name)
	if !ok {
		return nil
	}
	if i := strings.LastIndexByte(bare, '/'); i >= 0 {
		if bare[:i] != c.Name {
			return nil
		}
		bare = bare[i+1:]
	}
	return s.services[serviceKey(c.Name, bare)]
}

func (s *Service) createService(_ context.Context, call awsjson.Call, in *ecs.CreateServiceInput) (*ecs.CreateServiceOutput, error) {
	if err := checkCreateService(in); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, &awsjson.Error{Code: "ServerException", Message: "Service Unavailable. Please try again later.", Status: 503}
	}
	c, err := s.cluster(in.Cluster)
	if err != nil {
		return nil, err
	}
	if old := s.services[serviceKey(c.Name, *in.ServiceName)]; old != nil && old.Active {
		// The same token stands for the same service:
		// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/ECS_Idempotency.html
		if in.ClientToken != nil && old.Token == *in.ClientToken {
			return &ecs.CreateServiceOutput{Service: s.showService(old, true)}, nil
		}
		return nil, refuse(ruleServiceTwice, "Creation of service was not idempotent.")
	}
	v := &service{Name: *in.ServiceName, Cluster: c.Name, Active: true, ARN: s.arn("service", c.Name+"/"+*in.ServiceName), Tags: slices.Clone(in.Tags),
		Propagate: in.PropagateTags, Created: s.o.Now(), CreatedBy: s.caller(call), Token: text(in.ClientToken), wake: make(chan struct{}, 1)}
	if in.DesiredCount != nil {
		v.Desired = *in.DesiredCount
	}
	v.Config = configured(in.DeploymentConfiguration, types.DeploymentConfiguration{MaximumPercent: ptr(int32(200)), MinimumHealthyPercent: ptr(int32(100)),
		DeploymentCircuitBreaker: &types.DeploymentCircuitBreaker{}, Strategy: types.DeploymentStrategyRolling})
	v.Shape = shape{Launch: in.LaunchType, Strategy: in.CapacityProviderStrategy, Platform: in.PlatformVersion, Network: in.NetworkConfiguration, Exec: in.EnableExecuteCommand}
	if v.Shape.Definition, err = s.checkShape(c, v.Shape, *in.TaskDefinition); err != nil {
		return nil, err
	}
	s.services[serviceKey(c.Name, v.Name)] = v
	s.deploy(v)
	s.schedule(v)
	return &ecs.CreateServiceOutput{Service: s.showService(v, true)}, nil
}

// configured puts what is set of a deployment's configuration over another.
func configured(set *types.DeploymentConfiguration, over types.DeploymentConfiguration) types.DeploymentConfiguration {
	if set == nil {
		return over
	}
	if set.MaximumPercent != nil {
		over.MaximumPercent = set.MaximumPercent
	}
	if set.MinimumHealthyPercent != nil {
		over.MinimumHealthyPercent = set.MinimumHealthyPercent
	}
	if set.DeploymentCircuitBreaker != nil {
		over.DeploymentCircuitBreaker = set.DeploymentCircuitBreaker
	}
	return over
}

// checkShape checks what RunTask would of a service's tasks, and returns the
// definition's ARN. The lock is held.
func (s *Service) checkShape(c *cluster, h shape, name string) (arn string, err error) {
	d, err := s.definition(name)
	if err != nil {
		return "", err
	}
	if d.Def.Status != types.TaskDefinitionStatusActive {
		return "", refuse(ruleInactive, "TaskDefinition is inactive")
	}
	h.Definition = *d.Def.TaskDefinitionArn
	in := h.task()
	where, err := s.place(c, d, in)
	if err != nil {
		return "", err
	}
	if err := checkNetwork(&d.Def, in, where); err != nil {
		return "", err
	}
	if h.Exec && d.Def.TaskRoleArn == nil {
		return "", refuse(ruleExecRole, "The task definition must have a task role when enableExecuteCommand is true.")
	}
	return h.Definition, nil
}

// task is the RunTask that a shape's tasks could have come by.
func (h shape) task() *ecs.RunTaskInput {
	return &ecs.RunTaskInput{TaskDefinition: &h.Definition, LaunchType: h.Launch, CapacityProviderStrategy: h.Strategy, PlatformVersion: h.Platform,
		NetworkConfiguration: h.Network, EnableExecuteCommand: h.Exec}
}

// checkCreateService checks what depends on the request alone.
func checkCreateService(in *ecs.CreateServiceInput) error {
	switch {
	case !isIdentifier(*in.ServiceName):
		return refuse(ruleServiceName, "Invalid identifier: Identifier is for %s, must match [a-zA-Z0-9-_]{1,255}", *in.ServiceName)
	case in.TaskDefinition == nil:
		return refuse(ruleServiceDefinition, "TaskDefinition cannot be blank.")
	case in.ClientToken != nil && (len(*in.ClientToken) > 36 || !isToken(*in.ClientToken)):
		return refuse(ruleServiceToken, "clientToken must be up to 36 characters in the range of 33-126.")
	case in.LaunchType != "" && len(in.CapacityProviderStrategy) > 0:
		return refuse(ruleLaunchOrStrategy, "Specifying both a launch type and capacity provider strategy is not supported. Remove one and try again.")
	case in.DesiredCount != nil && *in.DesiredCount < 0 || in.DesiredCount == nil && in.SchedulingStrategy != types.SchedulingStrategyDaemon:
		return refuse(ruleDesired, "desiredCount cannot be null or negative for the scheduling strategy REPLICA.")
	case in.SchedulingStrategy == types.SchedulingStrategyDaemon:
		return unsupported("the scheduling strategy DAEMON")
	case in.DeploymentController != nil && in.DeploymentController.Type != types.DeploymentControllerTypeEcs:
		return unsupported("the deployment controller " + string(in.DeploymentController.Type))
	case len(in.LoadBalancers) > 0 || in.HealthCheckGracePeriodSeconds != nil:
		return unsupported("loadBalancers")
	case len(in.ServiceRegistries) > 0 || in.ServiceConnectConfiguration != nil || len(in.VpcLatticeConfigurations) > 0:
		return unsupported("service discovery")
	case len(in.VolumeConfigurations) > 0:
		return unsupported("volumeConfigurations")
	case len(in.PlacementConstraints) > 0 || len(in.PlacementStrategy) > 0:
		return unsupported("placement of services")
	}
	if err := checkDeployment(in.DeploymentConfiguration); err != nil {
		return err
	}
	return checkTags(in.Tags)
}

// checkDeployment checks how deployments are to be made.
func checkDeployment(c *types.DeploymentConfiguration) error {
	if c == nil {
		return nil
	}
	switch {
	case c.Strategy != "" && c.Strategy != types.DeploymentStrategyRolling || c.BakeTimeInMinutes != nil || c.LinearConfiguration != nil || c.CanaryConfiguration != nil:
		return unsupported("other deployment strategies than ROLLING")
	case c.Alarms != nil || len(c.LifecycleHooks) > 0:
		return unsupported("alarms and hooks of deployments")
	case c.MaximumPercent != nil && *c.MaximumPercent < 100 || c.MinimumHealthyPercent != nil && *c.MinimumHealthyPercent < 0:
		return refuse(rulePercent, "maximumPercent must be 100 or more, minimumHealthyPercent 0 or more.")
	case c.MaximumPercent != nil && c.MinimumHealthyPercent != nil && *c.MaximumPercent <= *c.MinimumHealthyPercent:
		return refuse(rulePercent, "maximumPercent must be greater than minimumHealthyPercent.")
	}
	return nil
}

func (s *Service) updateService(_ context.Context, _ awsjson.Call, in *ecs.UpdateServiceInput) (*ecs.UpdateServiceOutput, error) {
	switch {
	case in.DesiredCount != nil && *in.DesiredCount < 0:
		return nil, refuse(ruleDesired, "desiredCount cannot be negative.")
	case in.LoadBalancers != nil || in.HealthCheckGracePeriodSeconds != nil:
		return nil, unsupported("loadBalancers")
	case in.ServiceRegistries != nil || in.ServiceConnectConfiguration != nil || in.VpcLatticeConfigurations != nil:
		return nil, unsupported("service discovery")
	case in.VolumeConfigurations != nil || in.PlacementConstraints != nil || in.PlacementStrategy != nil || in.DeploymentController != nil:
		return nil, unsupported("volumes, placement and controllers of services")
	}
	if err := checkDeployment(in.DeploymentConfiguration); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.cluster(in.Cluster)
	if err != nil {
		return nil, err
	}
	v := s.service(c, *in.Service)
	switch {
	case v == nil:
		return nil, refuse(ruleServiceGone, "Service not found.")
	case !v.Active:
		return nil, refuse(ruleServiceInactive, "Service was not ACTIVE.")
	}
	h := v.Shape
	name := h.Definition
	if in.TaskDefinition != nil {
		name = *in.TaskDefinition
	}
	if in.CapacityProviderStrategy != nil {
		h.Launch, h.Strategy = "", in.CapacityProviderStrategy
	}
	if in.PlatformVersion != nil {
		h.Platform = in.PlatformVersion
	}
	if in.NetworkConfiguration != nil {
		h.Network = in.NetworkConfiguration
	}
	if in.EnableExecuteCommand != nil {
		h.Exec = *in.EnableExecuteCommand
	}
	if in.TaskDefinition != nil || in.CapacityProviderStrategy != nil || in.NetworkConfiguration != nil || in.EnableExecuteCommand != nil || in.PlatformVersion != nil {
		if h.Definition, err = s.checkShape(c, h, name); err != nil {
			return nil, err
		}
	}
	// Whether commands may run in tasks alone makes no deployment; everything else
	// of the shape does.
	fresh := in.ForceNewDeployment || h.Definition != v.Shape.Definition || in.CapacityProviderStrategy != nil || in.NetworkConfiguration != nil || in.PlatformVersion != nil
	v.Shape, v.Config = h, configured(in.DeploymentConfiguration, v.Config)
	if in.PropagateTags != "" {
		v.Propagate = in.PropagateTags
	}
	if in.DesiredCount != nil {
		v.Desired = *in.DesiredCount
	}
	if fresh {
		s.deploy(v)
	} else {
		v.Deployments[0].Updated = s.o.Now()
		v.due = time.Now().Add(s.knobs.ServiceDelay)
	}
	v.nudge()
	return &ecs.UpdateServiceOutput{Service: s.showService(v, true)}, nil
}

// deploy begins a deployment of the service's shape. The lock is held.
func (s *Service) deploy(v *service) {
	now := s.o.Now()
	d := &deployment{ID: s.deploymentID(), Shape: v.Shape, Created: now, Updated: now, State: types.DeploymentRolloutStateInProgress}
	d.Reason = "ECS deployment " + d.ID + " in progress."
	v.Deployments = append([]*deployment{d}, v.Deployments...)
	v.due = time.Now().Add(s.knobs.ServiceDelay)
}

// deploymentID is ecs-svc/ and 19 digits.
func (s *Service) deploymentID() string {
	n, err := strconv.ParseUint(s.o.NewID()[:15], 16, 64)
	if err != nil {
		panic("ecs: an ID that isn't hexadecimal: " + err.Error()) // Options says what IDs are
	}
	return fmt.Sprintf("ecs-svc/%019d", n)
}

func (s *Service) deleteService(_ context.Context, _ awsjson.Call, in *ecs.DeleteServiceInput) (*ecs.DeleteServiceOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.cluster(in.Cluster)
	if err != nil {
		return nil, err
	}
	v := s.service(c, *in.Service)
	if v == nil || !v.Active {
		return nil, refuse(ruleServiceGone, "Service not found.")
	}
	if v.Desired > 0 && (in.Force == nil || !*in.Force) {
		return nil, refuse(ruleServiceScaled, "The service cannot be stopped while it is scaled above 0.")
	}
	v.Active, v.Desired = false, 0
	v.due = time.Time{}
	v.nudge()
	return &ecs.DeleteServiceOutput{Service: s.showService(v, true)}, nil
}

func (s *Service) describeServices(_ context.Context, _ awsjson.Call, in *ecs.DescribeServicesInput) (*ecs.DescribeServicesOutput, error) {
	if n := len(in.Services); n < 1 || n > maxServices {
		return nil, refuse(ruleServices10, "Services must have 1 to %d elements.", maxServices)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.cluster(in.Cluster)
	if err != nil {
		return nil, err
	}
	out := &ecs.DescribeServicesOutput{Services: []types.Service{}, Failures: []types.Failure{}}
	for _, name := range in.Services {
		v := s.service(c, name)
		if v == nil {
			arn := name
			if !strings.HasPrefix(name, "arn:") {
				arn = s.arn("service", c.Name+"/"+name)
			}
			out.Failures = append(out.Failures, failure(arn, missing))
			continue
		}
		out.Services = append(out.Services, *s.showService(v, slices.Contains(in.Include, types.ServiceFieldTags)))
	}
	return out, nil
}

func (s *Service) listServices(_ context.Context, _ awsjson.Call, in *ecs.ListServicesInput) (*ecs.ListServicesOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.cluster(in.Cluster)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, v := range s.services {
		if v.Cluster == c.Name && v.Active && (in.LaunchType == "" || v.Shape.Launch == in.LaunchType) && in.SchedulingStrategy != types.SchedulingStrategyDaemon {
			all = append(all, v.ARN)
		}
	}
	slices.Sort(all)
	limit := in.MaxResults
	if limit == nil {
		limit = ptr(int32(10)) // the documented default
	}
	page, next, err := s.page(all, in.NextToken, limit)
	if err != nil {
		return nil, err
	}
	return &ecs.ListServicesOutput{ServiceArns: page, NextToken: next}, nil
}

// showService is what a service looks like. The lock is held.
func (s *Service) showService(v *service, tags bool) *types.Service {
	out := &types.Service{ServiceArn: &v.ARN, ServiceName: &v.Name, ClusterArn: ptr(s.arn("cluster", v.Cluster)), Status: ptr("ACTIVE"), DesiredCount: v.Desired,
		TaskDefinition: ptr(v.Shape.Definition), LaunchType: v.Shape.Launch, CapacityProviderStrategy: v.Shape.Strategy, PlatformVersion: v.Shape.Platform,
		NetworkConfiguration: v.Shape.Network, EnableExecuteCommand: v.Shape.Exec, SchedulingStrategy: types.SchedulingStrategyReplica,
		DeploymentController: &types.DeploymentController{Type: types.DeploymentControllerTypeEcs}, DeploymentConfiguration: ptr(v.Config),
		CreatedAt: ptr(v.Created), CreatedBy: &v.CreatedBy, PropagateTags: v.Propagate, Events: slices.Clone(v.Events),
		LoadBalancers: []types.LoadBalancer{}, ServiceRegistries: []types.ServiceRegistry{}, PlacementConstraints: []types.PlacementConstraint{},
		PlacementStrategy: []types.PlacementStrategy{}, Deployments: []types.Deployment{}}
	if v.Propagate == "" {
		out.PropagateTags = types.PropagateTagsNone
	}
	if tags {
		out.Tags = slices.Clone(v.Tags)
	}
	for i, d := range v.Deployments {
		n := v.tally(d)
		shown := types.Deployment{Id: ptr(d.ID), Status: ptr("ACTIVE"), TaskDefinition: ptr(d.Shape.Definition), CreatedAt: ptr(d.Created), UpdatedAt: ptr(d.Updated),
			RunningCount: n.running, PendingCount: n.pending, FailedTasks: d.Failed, RolloutState: d.State, RolloutStateReason: ptr(d.Reason),
			LaunchType: d.Shape.Launch, CapacityProviderStrategy: d.Shape.Strategy, PlatformVersion: d.Shape.Platform, NetworkConfiguration: d.Shape.Network}
		if i == 0 {
			shown.Status, shown.DesiredCount = ptr(primary), v.Desired
		}
		out.RunningCount += n.running
		out.PendingCount += n.pending
		out.Deployments = append(out.Deployments, shown)
	}
	if !v.Active {
		out.Status, out.Deployments = ptr("DRAINING"), []types.Deployment{}
		if len(v.tasks) == 0 {
			out.Status = ptr("INACTIVE")
		}
	}
	return out
}

package ecs

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// placement is where and how RunTask puts tasks.
type placement struct {
	launch   types.LaunchType
	provider *string
	platform *string
}

func (p placement) fargate() bool { return p.launch == types.LaunchTypeFargate }

func (s *Service) runTask(_ context.Context, call awsjson.Call, in *ecs.RunTaskInput) (*ecs.RunTaskOutput, error) {
	if err := checkRunTask(in, call.Body); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, &awsjson.Error{Code: "ServerException", Message: "Service Unavailable. Please try again later.", Status: 503}
	}
	s.sweep()
	c, err := s.cluster(in.Cluster)
	if err != nil {
		return nil, err
	}
	out := &ecs.RunTaskOutput{Tasks: []types.Task{}, Failures: []types.Failure{}}
	before, err := s.replay(c, in)
	if err != nil {
		return nil, err
	}
	if len(before) > 0 {
		for _, t := range before {
			out.Tasks = append(out.Tasks, s.show(t, true))
		}
		return out, nil
	}
	d, err := s.definition(*in.TaskDefinition)
	if err != nil {
		return nil, err
	}
	if d.Def.Status != types.TaskDefinitionStatusActive {
		return nil, refuse(ruleInactive, "TaskDefinition is inactive")
	}
	where, err := s.place(c, d, in)
	if err != nil {
		return nil, err
	}
	if err := checkNetwork(&d.Def, in, where); err != nil {
		return nil, err
	}
	if err := checkOverrides(&d.Def, in, where); err != nil {
		return nil, err
	}
	if in.EnableExecuteCommand && d.Def.TaskRoleArn == nil && (in.Overrides == nil || in.Overrides.TaskRoleArn == nil) {
		return nil, refuse(ruleExecRole, "The task definition must have a task role when enableExecuteCommand is true.")
	}
	if len(s.knobs.Placements) > 0 {
		reason := s.knobs.Placements[0]
		s.knobs.Placements = slices.Clone(s.knobs.Placements[1:])
		f := types.Failure{Reason: &reason}
		if !where.fargate() {
			f.Arn = ptr(s.arn("container-instance", c.Name+"/"+instance))
		}
		out.Failures = append(out.Failures, f)
		return out, nil
	}
	count := 1
	if in.Count != nil {
		count = int(*in.Count)
	}
	var made []*task
	for range count {
		t := s.newTask(c, d, in, where)
		made = append(made, t)
		out.Tasks = append(out.Tasks, s.show(t, true))
	}
	s.remember(c, in, made)
	for _, t := range made {
		s.lives.Go(func() { s.live(t) })
	}
	return out, nil
}

// instance is the ID of the container instance that clusters have.
const instance = "0123456789abcdef0123456789abcdef"

// checkRunTask checks what depends on the request alone.
func checkRunTask(in *ecs.RunTaskInput, body []byte) error {
	if in.Count != nil && (*in.Count < 1 || *in.Count > 10) {
		return refuse(ruleCount, "Count must be between 1 and 10.")
	}
	if in.ClientToken != nil && !isToken(*in.ClientToken) {
		return refuse(ruleTokenForm, "clientToken must be up to 64 characters in the range of 33-126.")
	}
	if in.StartedBy != nil && !isWord(*in.StartedBy, 128, "/_-") {
		return refuse(ruleStartedBy, "startedBy must match [a-zA-Z0-9-/_]{1,128}.")
	}
	if in.LaunchType != "" && len(in.CapacityProviderStrategy) > 0 {
		return refuse(ruleLaunchOrStrategy, "Specifying both a launch type and capacity provider strategy is not supported. Remove one and try again.")
	}
	if in.PropagateTags == types.PropagateTagsService {
		return refuse(rulePropagate, "propagateTags SERVICE is not supported for RunTask.")
	}
	if len(in.PlacementConstraints) > 10 {
		return refuse(rulePlacementCount, "placementConstraints must not have more than 10 elements.")
	}
	if len(in.PlacementStrategy) > 5 {
		return refuse(rulePlacementCount, "placementStrategy must not have more than 5 elements.")
	}
	if len(in.VolumeConfigurations) > 0 {
		return unsupported("volumeConfigurations")
	}
	if err := checkTags(in.Tags); err != nil {
		return err
	}
	size, err := overridesSize(body)
	if err != nil {
		return err
	}
	if size > maxOverrides {
		return refuse(ruleOverridesSize, "Container Overrides length must be at most %d", maxOverrides)
	}
	return nil
}

// place decides where tasks run. The lock is held.
func (s *Service) place(c *cluster, d *definition, in *ecs.RunTaskInput) (placement, error) {
	strategy := in.CapacityProviderStrategy
	if in.LaunchType == "" && len(strategy) == 0 {
		strategy = c.Strategy
	}
	p := placement{launch: in.LaunchType}
	if len(strategy) > 0 {
		item, err := chooseProvider(c, strategy)
		if err != nil {
			return p, err
		}
		p.provider, p.launch = item.CapacityProvider, types.LaunchTypeEc2
		if slices.Contains(fargateProviders(), *item.CapacityProvider) {
			p.launch = types.LaunchTypeFargate
		}
	}
	if p.launch == "" {
		p.launch = types.LaunchTypeEc2
	}
	switch p.launch {
	case types.LaunchTypeFargate:
		if !slices.Contains(d.Def.Compatibilities, types.CompatibilityFargate) {
			return p, refuse(ruleCompatible, "Task definition does not support launch_type FARGATE.")
		}
		version := text(in.PlatformVersion)
		switch version {
		case "", "LATEST", "1.4.0":
			version = "1.4.0"
		case "1.3.0":
			if d.Def.EphemeralStorage != nil || in.Overrides != nil && in.Overrides.EphemeralStorage != nil {
				return p, refuse(rulePlatformStorage, "Ephemeral storage requires platform version 1.4.0 or later.")
			}
		default:
			return p, refuse(rulePlatform, "The specified platform does not exist.")
		}
		p.platform = &version
		if len(in.PlacementConstraints) > 0 || len(in.PlacementStrategy) > 0 {
			return p, refuse(ruleFargateRunPlacement, "Placement constraints and strategies are not supported with FARGATE launch type.")
		}
	case types.LaunchTypeEc2:
		if in.PlatformVersion != nil {
			return p, refuse(rulePlatformEC2, "The platform version must be null when specifying an EC2 launch type.")
		}
		if !s.o.Instances && p.provider == nil {
			return p, refuse(ruleNoInstances, "No Container Instances were found in your cluster.")
		}
	default:
		return p, unsupported("launchType " + string(p.launch))
	}
	return p, nil
}

// chooseProvider checks a strategy and returns the item whose turn it is: the
// one with a base, else that with the greatest weight.
func chooseProvider(c *cluster, strategy []types.CapacityProviderStrategyItem) (types.CapacityProviderStrategyItem, error) {
	var best types.CapacityProviderStrategyItem
	if len(strategy) > 20 {
		return best, refuse(ruleStrategy20, "A capacity provider strategy can contain a maximum of 20 capacity providers.")
	}
	bases, fargate := 0, 0
	for i, item := range strategy {
		if !slices.Contains(c.Providers, *item.CapacityProvider) {
			return best, refuse(ruleStrategyProvider, "The specified capacity provider strategy cannot contain a capacity provider that is not associated with the cluster.")
		}
		if slices.Contains(fargateProviders(), *item.CapacityProvider) {
			fargate++
		}
		if item.Base > 0 {
			bases++
		}
		if i == 0 || item.Base > 0 || best.Base == 0 && item.Weight > best.Weight {
			best = item
		}
	}
	if bases > 1 {
		return best, refuse(ruleStrategyBase, "Only one capacity provider in a strategy can have a base defined.")
	}
	if fargate > 0 && fargate < len(strategy) {
		return best, refuse(ruleStrategyMixed, "A capacity provider strategy cannot mix Fargate and Auto Scaling group capacity providers.")
	}
	if len(strategy) > 1 && !slices.ContainsFunc(strategy, func(i types.CapacityProviderStrategyItem) bool { return i.Weight > 0 }) {
		return best, refuse(ruleStrategyWeight, "At least one capacity provider in a strategy must have a weight greater than zero.")
	}
	return best, nil
}

// checkNetwork checks the network configuration against the definition.
func checkNetwork(def *types.TaskDefinition, in *ecs.RunTaskInput, where placement) error {
	if def.NetworkMode != types.NetworkModeAwsvpc {
		if in.NetworkConfiguration != nil {
			return refuse(ruleNetworkForbidden, "Network Configuration is not valid for the given networkMode of this task definition.")
		}
		return nil
	}
	if in.NetworkConfiguration == nil || in.NetworkConfiguration.AwsvpcConfiguration == nil {
		return refuse(ruleNetwork, "Network Configuration must be provided when networkMode 'awsvpc' is specified.")
	}
	n := in.NetworkConfiguration.AwsvpcConfiguration
	if len(n.Subnets) < 1 || len(n.Subnets) > 16 {
		return refuse(ruleSubnets, "subnets must have between 1 and 16 elements.")
	}
	if len(n.SecurityGroups) > 5 {
		return refuse(ruleSecurityGroups, "securityGroups must have no more than 5 elements.")
	}
	for _, id := range n.Subnets {
		if !isVPCID(id, "subnet-") {
			return refuse(ruleSubnetID, "Error retrieving subnet information for [%s]: The subnet ID '%s' does not exist (ErrorCode: InvalidSubnetID.NotFound)", id, id)
		}
	}
	for _, id := range n.SecurityGroups {
		if !isVPCID(id, "sg-") {
			return refuse(ruleGroupID, "Error retrieving security group information for [%s]: The security group '%s' does not exist (ErrorCode: InvalidGroup.NotFound)", id, id)
		}
	}
	if n.AssignPublicIp == types.AssignPublicIpEnabled && !where.fargate() {
		return refuse(rulePublicIP, "Assign public IP is not supported for this launch type.")
	}
	return nil
}

// newTask makes a task in PROVISIONING. The lock is held.
func (s *Service) newTask(c *cluster, d *definition, in *ecs.RunTaskInput, where placement) *task {
	now := s.o.Now()
	id := s.o.NewID()
	def := d.Def
	t := &task{id: id, cluster: c.Name, def: &def, created: now, pace: s.knobs.Pace, mishap: s.mishap(*def.Family), stop: make(chan struct{})}
	t.listed, t.described, t.contained = now.Add(s.knobs.ListDelay), now.Add(s.knobs.DescribeDelay), now.Add(s.knobs.ContainersDelay)
	arn := s.arn("task", c.Name+"/"+id)
	overrides := types.TaskOverride{}
	if in.Overrides != nil {
		overrides = *in.Overrides
	}
	// Every container has an override in the reply, an empty one if need be.
	for _, cd := range def.ContainerDefinitions {
		if !slices.ContainsFunc(overrides.ContainerOverrides, func(o types.ContainerOverride) bool { return text(o.Name) == *cd.Name }) {
			overrides.ContainerOverrides = append(slices.Clone(overrides.ContainerOverrides), types.ContainerOverride{Name: cd.Name})
		}
	}
	t.view = types.Task{
		TaskArn: &arn, ClusterArn: ptr(s.clusterARN(c)), TaskDefinitionArn: def.TaskDefinitionArn, CreatedAt: &now,
		LastStatus: ptr(provisioning), DesiredStatus: ptr(running), StartedBy: in.StartedBy, LaunchType: where.launch,
		CapacityProviderName: where.provider, Group: in.Group, Overrides: &overrides, Cpu: def.Cpu, Memory: def.Memory,
		EnableExecuteCommand: in.EnableExecuteCommand, Version: 1, Containers: []types.Container{}, Attachments: []types.Attachment{},
		Attributes: []types.Attribute{{Name: ptr("ecs.cpu-architecture"), Value: ptr(architecture(&def))}}, HealthStatus: types.HealthStatusUnknown,
		AvailabilityZone: ptr(s.o.Region + "a"), EphemeralStorage: def.EphemeralStorage,
	}
	if overrides.Cpu != nil {
		t.view.Cpu, _ = cpuUnits(overrides.Cpu) // checkOverrides has read it
	}
	if overrides.Memory != nil {
		t.view.Memory, _ = memoryMiB(overrides.Memory)
	}
	if overrides.EphemeralStorage != nil {
		t.view.EphemeralStorage = overrides.EphemeralStorage
	}
	if t.view.Group == nil {
		t.view.Group = ptr("family:" + *def.Family)
	}
	if where.fargate() {
		t.view.PlatformVersion, t.view.PlatformFamily = where.platform, ptr("Linux")
		size := int32(20)
		if t.view.EphemeralStorage == nil {
			t.view.EphemeralStorage = &types.EphemeralStorage{SizeInGiB: size}
		}
		t.view.FargateEphemeralStorage = &types.TaskEphemeralStorage{SizeInGiB: t.view.EphemeralStorage.SizeInGiB}
	} else {
		t.view.ContainerInstanceArn = ptr(s.arn("container-instance", c.Name+"/"+instance))
	}
	if def.NetworkMode == types.NetworkModeAwsvpc {
		t.view.Attachments = []types.Attachment{{Id: ptr(s.o.NewID()), Type: ptr("ElasticNetworkInterface"), Status: ptr("PRECREATED"),
			Details: []types.KeyValuePair{{Name: ptr("subnetId"), Value: &in.NetworkConfiguration.AwsvpcConfiguration.Subnets[0]}}}}
	}
	t.view.Tags = slices.Clone(in.Tags)
	if in.PropagateTags == types.PropagateTagsTaskDefinition {
		t.view.Tags = merge(d.Tags, in.Tags)
	}
	if in.EnableECSManagedTags {
		t.view.Tags = merge(t.view.Tags, []types.Tag{{Key: ptr("aws:ecs:clusterName"), Value: &c.Name}})
	}
	s.keep(t)
	s.tasks[id] = t
	s.order = append(s.order, t)
	return t
}

func architecture(def *types.TaskDefinition) string {
	if def.RuntimePlatform != nil && def.RuntimePlatform.CpuArchitecture == types.CPUArchitectureArm64 {
		return "arm64"
	}
	return "x86_64"
}

// newContainer shows a container that has no process yet.
func (s *Service) newContainer(t *task, cd types.ContainerDefinition) types.Container {
	c := types.Container{ContainerArn: ptr(s.arn("container", fmt.Sprintf("%s/%s/%s", t.cluster, t.id, uuid(s.o.NewID())))), TaskArn: t.view.TaskArn,
		Name: cd.Name, Image: cd.Image, LastStatus: ptr(pending), Cpu: ptr(strconv.Itoa(int(cd.Cpu))), HealthStatus: types.HealthStatusUnknown,
		NetworkBindings: []types.NetworkBinding{}, NetworkInterfaces: []types.NetworkInterface{}}
	if cd.Memory != nil {
		c.Memory = ptr(strconv.Itoa(int(*cd.Memory)))
	}
	if cd.MemoryReservation != nil {
		c.MemoryReservation = ptr(strconv.Itoa(int(*cd.MemoryReservation)))
	}
	if t.def.NetworkMode == types.NetworkModeAwsvpc {
		c.NetworkInterfaces = []types.NetworkInterface{{AttachmentId: t.view.Attachments[0].Id, PrivateIpv4Address: ptr("10.0.0.1")}}
	}
	return c
}

// uuid puts hyphens into 32 hexadecimal digits.
func uuid(id string) string {
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}

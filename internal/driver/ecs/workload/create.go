package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/windlass-run/windlass/internal/cloud/aws"
	"github.com/windlass-run/windlass/internal/cloud/aws/fargate"
	"github.com/windlass-run/windlass/sdk"
)

const (
	mib = 1 << 20
	// instanceMemory is what a container on an instance gets that says no memory:
	// ECS wants some.
	instanceMemory = 512
	// containerName is the one container of a service that is made here.
	containerName = "main"
	familyPrefix  = "windlass-svc-"
	maxFamily     = 255
)

// create makes a service of a spec. The operation's ID is CreateService's token, so
// that the same call makes one service.
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/ECS_Idempotency.html
func (s *Services) create(ctx context.Context, req sdk.OpRequest, spec sdk.DeploymentSpec) (sdk.OpResult, error) {
	a, err := s.address(opStart, req.Path)
	if err != nil {
		return sdk.OpResult{}, err
	}
	place, err := s.o.Place(spec.Options)
	if err != nil {
		return sdk.OpResult{}, err
	}
	b := &builder{s: s, a: a, req: req, spec: spec, place: place}
	b.build()
	from, err := s.references(ctx, opStart, spec.Secrets)
	if err != nil {
		return sdk.OpResult{}, err
	}
	b.fetch(from)
	if len(b.ps) > 0 {
		return sdk.OpResult{}, &sdk.Error{Code: b.ps[0].Code, Op: opStart, Provider: s.o.Provider, Field: b.ps[0].Field, Err: fmt.Errorf("%s", sdk.JoinProblems(b.ps))}
	}
	v, err := s.describe(ctx, opStart, a)
	if err != nil {
		return sdk.OpResult{}, err
	}
	if v != nil {
		if m, ok := markOf(v); ok && m.op == req.OpID {
			return result(v, m.op, true), nil
		}
		return sdk.OpResult{}, s.fail(sdk.AlreadyExists, opStart, fmt.Errorf("the cluster %s has a service %s", a.cluster, a.service))
	}
	if err := req.Expect.Check(opStart, sdk.DeploymentStatus{Path: req.Path}); err != nil {
		return sdk.OpResult{}, err
	}
	return b.send(ctx)
}

// builder turns a spec into requests, and collects what is wrong with it.
type builder struct {
	s     *Services
	a     address
	req   sdk.OpRequest
	spec  sdk.DeploymentSpec
	place Placement

	ps       []sdk.Problem
	def      ecs.RegisterTaskDefinitionInput
	main     types.ContainerDefinition
	settings []step
}

func (b *builder) bad(code sdk.Code, field, value, format string, args ...any) {
	b.ps = append(b.ps, sdk.Problem{Field: field, Value: value, Message: fmt.Sprintf(format, args...), Code: code})
}

// build fills the definition in.
func (b *builder) build() {
	spec := b.spec
	b.ps = sdk.ValidateDeployment(spec)
	if spec.Name != b.a.service {
		b.bad(sdk.InvalidArgument, "name", spec.Name, "isn't the target's last segment, %s", b.a.service)
	}
	b.ps = append(b.ps, parameterProblems(spec.Config)...)
	b.main = types.ContainerDefinition{Name: new(containerName), Image: &spec.Image, Essential: new(true), Command: spec.Command,
		LogConfiguration: &types.LogConfiguration{LogDriver: types.LogDriverAwslogs, Options: b.place.LogOptions}}
	for _, k := range slices.Sorted(maps.Keys(spec.Env)) {
		b.main.Environment = append(b.main.Environment, types.KeyValuePair{Name: &k, Value: new(spec.Env[k])})
	}
	b.def = ecs.RegisterTaskDefinitionInput{Family: new(family(b.a)), NetworkMode: types.NetworkModeAwsvpc, ExecutionRoleArn: optional(b.place.ExecutionRole),
		TaskRoleArn: optional(b.place.TaskRole), RequiresCompatibilities: []types.Compatibility{types.CompatibilityEc2}, Tags: b.tags()}
	if !b.place.Fargate && len(b.place.Subnets) == 0 {
		b.def.NetworkMode = types.NetworkModeBridge
	}
	if b.place.Architecture != "" {
		b.def.RuntimePlatform = &types.RuntimePlatform{CpuArchitecture: types.CPUArchitecture(strings.ToUpper(b.place.Architecture)), OperatingSystemFamily: types.OSFamilyLinux}
	}
	b.sizes()
	b.ports()
	b.health()
	b.config()
	if b.place.Fargate && len(b.place.Subnets) == 0 {
		b.bad(sdk.FailedPrecondition, "options.subnets", "", "is missing: a Fargate task has a network interface of its own; set subnets under config: of provider %s, or as an option", b.s.o.Provider)
	}
	if b.place.Fargate && b.place.ExecutionRole == "" {
		b.bad(sdk.FailedPrecondition, "options.execution_role", "", "is missing: on Fargate a task writes its log by it; set execution_role under config: of provider %s, or as an option", b.s.o.Provider)
	}
}

// family is the family of a service's definitions. Different services have
// different ones.
func family(a address) string {
	rule := sdk.NameRule{Max: maxFamily - len(familyPrefix), Allowed: func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
	}}
	return familyPrefix + rule.Fit(a.cluster+"/"+a.service)
}

func (b *builder) tags() []types.Tag {
	tags := map[string]string{sdk.LabelOwner: b.s.o.Owner, sdk.LabelLedger: b.s.o.LedgerID}
	for k, v := range b.place.Tags {
		if msg := aws.CheckUserTag(k, v); msg != "" {
			b.bad(sdk.InvalidArgument, "options.tags."+k, v, "%s", msg)
		}
		tags[k] = v
	}
	var out []types.Tag
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, types.Tag{Key: &k, Value: new(tags[k])})
	}
	return out
}

// sizes fits cores and memory.
func (b *builder) sizes() {
	r := b.spec.Resources
	if r.CPU < 0 || r.Memory < 0 {
		return // sdk.ValidateDeployment has said so
	}
	if b.place.Fargate {
		b.def.RequiresCompatibilities = []types.Compatibility{types.CompatibilityFargate}
		got, ps := fargate.Fit(r.CPU, r.Memory)
		for _, p := range ps {
			b.bad(sdk.InvalidArgument, "resources."+p.Field, "", "%s", p.Message)
		}
		b.def.Cpu, b.def.Memory = new(itoa(int(got.CPU))), new(itoa(int(got.Memory)))
		return
	}
	b.main.Cpu = int32((r.CPU*1024 + 999) / 1000)
	memory := int32(instanceMemory)
	if r.Memory > 0 {
		memory = int32((r.Memory + mib - 1) / mib)
	}
	b.main.Memory = &memory
}

func (b *builder) ports() {
	for _, p := range b.spec.Ports {
		m := types.PortMapping{ContainerPort: new(int32(p.Port)), Name: optional(p.Name), Protocol: types.TransportProtocolTcp}
		if p.Protocol == sdk.ProtocolUDP {
			m.Protocol = types.TransportProtocolUdp
		}
		b.main.PortMappings = append(b.main.PortMappings, m)
	}
}

// The bounds of a container's health check.
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_HealthCheck.html
const (
	minCheck, maxInterval    = 5 * time.Second, 300 * time.Second
	minTimeout, maxTimeout   = 2 * time.Second, 60 * time.Second
	maxStart, maxCheckFailed = 300 * time.Second, 10
)

// health carries over a command that checks; the others need a load balancer.
func (b *builder) health() {
	h := b.spec.Health
	if h == nil {
		return
	}
	if h.Command == nil {
		b.bad(sdk.Unimplemented, "health", "", "ECS checks by a command in the container, or through a load balancer, which isn't made here; use health.command")
		return
	}
	c := &types.HealthCheck{Command: append([]string{"CMD"}, h.Command...)}
	seconds := func(field string, d, least, most time.Duration) *int32 {
		if d == 0 {
			return nil
		}
		if d%time.Second != 0 || d < least || d > most {
			b.bad(sdk.InvalidArgument, "health."+field, d.String(), "is %s to %s in whole seconds", least, most)
		}
		return new(int32(d / time.Second))
	}
	c.Interval = seconds("interval", h.Interval, minCheck, maxInterval)
	c.Timeout = seconds("timeout", h.Timeout, minTimeout, maxTimeout)
	c.StartPeriod = seconds("start_period", h.StartPeriod, time.Second, maxStart)
	if h.Failures > maxCheckFailed {
		b.bad(sdk.InvalidArgument, "health.failures", itoa(h.Failures), "is at most %d", maxCheckFailed)
	} else if h.Failures > 0 {
		c.Retries = new(int32(h.Failures))
	}
	b.main.HealthCheck = c
}

// config makes parameters of settings.
func (b *builder) config() {
	folder := b.s.folder(b.req.Path)
	for _, k := range slices.Sorted(maps.Keys(b.spec.Config)) {
		v := b.spec.Config[k]
		if v == "" {
			b.main.Environment = append(b.main.Environment, types.KeyValuePair{Name: &k, Value: &v})
			continue
		}
		name := folder + "/" + k + "/" + b.req.OpID.String()
		b.main.Secrets = append(b.main.Secrets, types.Secret{Name: &k, ValueFrom: new(b.s.arnOf(name))})
		b.settings = append(b.settings, b.s.put(name, v))
	}
}

// fetch adds what secrets are fetched from.
func (b *builder) fetch(from map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(from)) {
		b.main.Secrets = append(b.main.Secrets, types.Secret{Name: &k, ValueFrom: new(from[k])})
	}
	b.def.ContainerDefinitions = []types.ContainerDefinition{b.main}
}

// service is the CreateService of a definition. Deployments that can't succeed are
// given up and taken back.
func (b *builder) service(definition string) *ecs.CreateServiceInput {
	n := 1
	if b.spec.Replicas != nil {
		n = *b.spec.Replicas
	}
	m := mark{op: b.req.OpID, want: wantCreate, deployment: "none"}
	in := &ecs.CreateServiceInput{Cluster: &b.a.cluster, ServiceName: &b.a.service, TaskDefinition: &definition, DesiredCount: new(int32(n)),
		ClientToken: new(b.req.OpID.String()), PropagateTags: types.PropagateTagsTaskDefinition, PlatformVersion: optional(b.place.PlatformVersion),
		EnableExecuteCommand: b.place.TaskRole != "", Tags: append(b.tags(), types.Tag{Key: new(tagOp), Value: new(m.text())}),
		DeploymentConfiguration: &types.DeploymentConfiguration{DeploymentCircuitBreaker: &types.DeploymentCircuitBreaker{Enable: true, Rollback: true}}}
	switch {
	case len(b.place.CapacityProviders) > 0:
		in.CapacityProviderStrategy = b.place.CapacityProviders
	case b.place.Fargate:
		in.LaunchType = types.LaunchTypeFargate
	default:
		in.LaunchType = types.LaunchTypeEc2
	}
	if b.def.NetworkMode == types.NetworkModeAwsvpc {
		public := types.AssignPublicIpDisabled
		if b.place.PublicIP {
			public = types.AssignPublicIpEnabled
		}
		in.NetworkConfiguration = &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{Subnets: b.place.Subnets,
			SecurityGroups: b.place.SecurityGroups, AssignPublicIp: public}}
	}
	return in
}

// send makes the parameters, the definition and the service, or says what it would
// make.
func (b *builder) send(ctx context.Context) (sdk.OpResult, error) {
	s := b.s
	if b.req.DryRun {
		res := sdk.OpResult{Changed: true}
		for _, st := range b.settings {
			res.Calls = append(res.Calls, st.planned)
		}
		in := b.service(str(b.def.Family))
		res.Calls = append(res.Calls, sdk.PlannedCall{Name: "ecs:RegisterTaskDefinition", Object: "task definition " + str(b.def.Family), Args: map[string]string{"image": b.spec.Image}},
			sdk.PlannedCall{Name: "ecs:CreateService", Object: "service " + string(b.req.Path), Args: map[string]string{"desiredCount": itoa(int(*in.DesiredCount))}})
		return res, nil
	}
	for _, st := range b.settings {
		if err := st.do(ctx, nil); err != nil {
			return sdk.OpResult{}, err
		}
	}
	arn, err := s.register(ctx, opStart, &b.def)
	if err != nil {
		return sdk.OpResult{}, err
	}
	var out *ecs.CreateServiceOutput
	err = s.call(ctx, opStart, func(ctx context.Context) (err error) {
		out, err = s.o.ECS.CreateService(ctx, b.service(arn))
		return err
	})
	if err != nil {
		if sdk.IsClear(err) {
			s.withdraw(ctx, arn)
		}
		return sdk.OpResult{}, err
	}
	if out.Service == nil {
		return sdk.OpResult{}, s.fail(sdk.Unavailable, opStart, errors.New("the answer holds no service"))
	}
	res := result(out.Service, b.req.OpID, true)
	if b.place.TaskRole == "" {
		res.Warnings = append(res.Warnings, "commands can't run in its tasks: ECS wants a task role for that; set task_role")
	}
	return res, nil
}

// withdraw takes back the definition of a service that was refused. Where that
// fails an unused definition is left, which costs nothing.
func (s *Services) withdraw(ctx context.Context, arn string) {
	_ = s.call(context.WithoutCancel(ctx), opStart, func(ctx context.Context) error {
		_, err := s.o.ECS.DeregisterTaskDefinition(ctx, &ecs.DeregisterTaskDefinitionInput{TaskDefinition: &arn})
		return err
	})
}

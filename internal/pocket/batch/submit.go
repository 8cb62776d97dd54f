package batch

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// maxPayload is the most bytes of a SubmitJob:
// https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html
const maxPayload = 30 << 10

func (s *Service) submitJob(_ context.Context, call awsjson.Call, in *batch.SubmitJobInput) (*batch.SubmitJobOutput, error) {
	if n := len(call.Body); n >= maxPayload {
		return nil, refuse(rulePayload, "Job size must be less than 30 KiB, got %d KiB", (n+1023)>>10)
	}
	if err := checkSubmit(in); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, refuse(ruleClosed, "The pocket cloud is closed.")
	}
	q, err := s.queue(*in.JobQueue)
	if err != nil {
		return nil, err
	}
	if q.Disabled {
		return nil, refuse(ruleQueueDisabled, "JobQueue %s is disabled.", q.Name)
	}
	d, err := s.definition(*in.JobDefinition)
	if err != nil {
		return nil, err
	}
	fargate := slices.Contains(d.PlatformCapabilities, types.PlatformCapabilityFargate)
	if fargate == q.Instances {
		return nil, refuse(rulePlatform, "The platform capabilities of %s don't match the compute environments of JobQueue %s.", *d.JobDefinitionArn, q.Name)
	}
	j, err := s.newJob(in, q, d, fargate)
	if err != nil {
		return nil, err
	}
	s.jobs[j.id] = j
	s.order = append(s.order, j)
	s.lives.Add(1)
	go func() {
		defer s.lives.Done()
		s.live(j)
	}()
	return &batch.SubmitJobOutput{JobArn: j.view.JobArn, JobId: &j.id, JobName: in.JobName}, nil
}

// checkSubmit checks what a submission says by itself.
func checkSubmit(in *batch.SubmitJobInput) error {
	if !consists(*in.JobName, "_-", 128) || !alphanumeric((*in.JobName)[0]) {
		return refuse(ruleJobName, "jobName should match valid pattern: [a-zA-Z0-9][a-zA-Z0-9_-]{0,127}")
	}
	for what, set := range map[string]bool{
		"arrayProperties": in.ArrayProperties != nil, "dependsOn": len(in.DependsOn) > 0, "nodeOverrides": in.NodeOverrides != nil,
		"eksPropertiesOverride": in.EksPropertiesOverride != nil, "ecsPropertiesOverride": in.EcsPropertiesOverride != nil,
		"consumableResourcePropertiesOverride": in.ConsumableResourcePropertiesOverride != nil,
	} {
		if set {
			return unsupported(what)
		}
	}
	if in.ShareIdentifier != nil || in.SchedulingPriorityOverride != nil {
		return refuse(ruleShare, "shareIdentifier and schedulingPriorityOverride need a queue with a scheduling policy.")
	}
	if err := checkTags(in.Tags); err != nil {
		return err
	}
	if err := checkRetries(in.RetryStrategy, in.Timeout); err != nil {
		return err
	}
	o := in.ContainerOverrides
	if o == nil {
		return nil
	}
	if slices.Contains(o.Command, "") {
		return refuse(ruleCommandEmpty, "containerOverrides.command must not contain an empty string.")
	}
	if o.InstanceType != nil || o.Vcpus != nil || o.Memory != nil { //nolint:staticcheck // deprecated members may come all the same
		return unsupported("containerOverrides.instanceType, vcpus and memory")
	}
	return checkEnvironment(o.Environment)
}

// newJob makes a job of a submission. The lock is held.
func (s *Service) newJob(in *batch.SubmitJobInput, q Queue, d *types.JobDefinition, fargate bool) (*job, error) {
	c := d.ContainerProperties
	var over types.ContainerOverrides
	if in.ContainerOverrides != nil {
		over = *in.ContainerOverrides
	}
	vcpu, memory, err := resources(c, over.ResourceRequirements, fargate)
	if err != nil {
		return nil, err
	}
	for _, e := range over.Environment {
		if slices.ContainsFunc(c.Secrets, func(x types.Secret) bool { return *x.Name == text(e.Name) }) {
			return nil, refuse(ruleOverrideSecret, "The variable %s is a secret of the definition.", text(e.Name))
		}
	}
	hex := s.o.NewID()
	now := s.o.Now()
	id := fmt.Sprintf("%s-%s-%s-%s-%s", hex[:8], hex[8:12], hex[12:16], hex[16:20], hex[20:32])
	parameters := map[string]string{}
	for _, m := range []map[string]string{d.Parameters, in.Parameters} {
		for k, v := range m {
			parameters[k] = v
		}
	}
	j := &job{id: id, queue: q, def: d, created: now, pace: s.knobs.Pace, mishap: s.mishap(), listed: now.Add(s.knobs.ListDelay), described: now.Add(s.knobs.DescribeDelay),
		second: s.knobs.Second, grace: s.knobs.StopTimeout, stop: make(chan struct{}), overrides: overridesSize(over)}
	if j.second == 0 {
		j.second = time.Second
	}
	if j.grace == 0 {
		j.grace = stopTimeout
	}
	command := c.Command
	if len(over.Command) > 0 {
		command = over.Command
	}
	v := types.JobDetail{JobArn: ptr(s.arn("job", id)), JobId: &id, JobName: in.JobName, JobQueue: ptr(s.arn("job-queue", q.Name)), JobDefinition: d.JobDefinitionArn,
		Status: types.JobStatusSubmitted, CreatedAt: ptr(now.UnixMilli()), StartedAt: ptr(int64(0)), Parameters: parameters, Tags: orNone(in.Tags),
		PropagateTags: in.PropagateTags, PlatformCapabilities: d.PlatformCapabilities, RetryStrategy: d.RetryStrategy, Timeout: d.Timeout, Attempts: []types.AttemptDetail{},
		DependsOn: []types.JobDependency{}, IsCancelled: ptr(false), IsTerminated: ptr(false),
		Container: &types.ContainerDetail{Image: c.Image, Command: substitute(command, parameters), Environment: merge(c.Environment, over.Environment), User: c.User,
			ExecutionRoleArn: c.ExecutionRoleArn, JobRoleArn: c.JobRoleArn, Secrets: c.Secrets, LogConfiguration: c.LogConfiguration, NetworkConfiguration: c.NetworkConfiguration,
			FargatePlatformConfiguration: c.FargatePlatformConfiguration, EphemeralStorage: c.EphemeralStorage, RuntimePlatform: c.RuntimePlatform,
			ResourceRequirements: []types.ResourceRequirement{{Type: types.ResourceTypeVcpu, Value: &vcpu}, {Type: types.ResourceTypeMemory, Value: &memory}}}}
	if in.RetryStrategy != nil {
		v.RetryStrategy = in.RetryStrategy
	}
	if in.Timeout != nil {
		v.Timeout = in.Timeout
	}
	j.view = v
	return j, nil
}

// placeholder is a reference to a parameter in a command. What a name may hold
// isn't documented.
var placeholder = regexp.MustCompile(`Ref::([A-Za-z0-9_.-]+)`)

// substitute puts parameters in the place of their references, wherever they
// stand in an argument; a reference without a parameter stays as it is.
func substitute(command []string, parameters map[string]string) []string {
	out := make([]string, len(command))
	for i, arg := range command {
		out[i] = placeholder.ReplaceAllStringFunc(arg, func(ref string) string {
			if v, ok := parameters[ref[len("Ref::"):]]; ok {
				return v
			}
			return ref
		})
	}
	return out
}

// merge puts variables over others, by name.
func merge(below, above []types.KeyValuePair) []types.KeyValuePair {
	out := slices.Clone(below)
	for _, e := range above {
		i := slices.IndexFunc(out, func(o types.KeyValuePair) bool { return text(o.Name) == text(e.Name) })
		if i < 0 {
			out = append(out, e)
		} else {
			out[i] = e
		}
	}
	return append([]types.KeyValuePair{}, out...)
}

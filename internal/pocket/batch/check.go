package batch

import (
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"
)

// consists says whether a text has 1 to most letters, digits and characters of
// others.
func consists(text, others string, most int) bool {
	for i := range len(text) {
		if c := text[i]; !alphanumeric(c) && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return text != "" && len(text) <= most
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// checkDefinition checks what the model doesn't say of a definition.
func checkDefinition(in *batch.RegisterJobDefinitionInput) error {
	if !consists(*in.JobDefinitionName, "_-", 128) {
		return refuse(ruleName, "jobDefinitionName should match valid pattern: [a-zA-Z0-9_-]{1,128}")
	}
	if in.Type == types.JobDefinitionTypeMultinode || in.NodeProperties != nil {
		return unsupported("definitions of the type multinode")
	}
	if in.Type != types.JobDefinitionTypeContainer {
		return refuse(ruleType, "type must be container or multinode.")
	}
	if in.EcsProperties != nil || in.EksProperties != nil || in.ConsumableResourceProperties != nil {
		return unsupported("ecsProperties, eksProperties and consumableResourceProperties")
	}
	if in.ContainerProperties == nil {
		return refuse(ruleContainer, "containerProperties must not be null.")
	}
	if len(in.PlatformCapabilities) > 1 {
		return refuse(rulePlatforms, "platformCapabilities must have one element.")
	}
	if p := in.SchedulingPriority; p != nil && (*p < 0 || *p > 9999) {
		return refuse(rulePriority, "schedulingPriority must be between 0 and 9999.")
	}
	if err := checkTags(in.Tags); err != nil {
		return err
	}
	if err := checkRetries(in.RetryStrategy, in.Timeout); err != nil {
		return err
	}
	c, fargate := in.ContainerProperties, slices.Contains(in.PlatformCapabilities, types.PlatformCapabilityFargate)
	if err := checkContainer(c); err != nil {
		return err
	}
	if err := checkPlatform(c, fargate); err != nil {
		return err
	}
	_, _, err := resources(c, nil, fargate)
	return err
}

func checkContainer(c *types.ContainerProperties) error {
	if !consists(text(c.Image), "_:./#@-", 255) {
		return refuse(ruleImage, "containerProperties.image must have 1 to 255 characters of [a-zA-Z0-9_:./#@-].")
	}
	for field, set := range map[string]bool{
		"volumes": len(c.Volumes) > 0, "mountPoints": len(c.MountPoints) > 0, "linuxParameters": c.LinuxParameters != nil,
		"repositoryCredentials": c.RepositoryCredentials != nil, "enableExecuteCommand": c.EnableExecuteCommand != nil && *c.EnableExecuteCommand,
		"readonlyRootFilesystem": c.ReadonlyRootFilesystem != nil && *c.ReadonlyRootFilesystem,
	} {
		if set {
			return unsupported("containerProperties." + field)
		}
	}
	if err := checkEnvironment(c.Environment); err != nil {
		return err
	}
	if len(c.Secrets) > 0 && c.ExecutionRoleArn == nil {
		return refuse(ruleSecretsRole, "executionRoleArn is required when secrets are specified.")
	}
	seen := map[string]bool{}
	for _, e := range c.Environment {
		seen[text(e.Name)] = true
	}
	for _, secret := range c.Secrets {
		if seen[*secret.Name] {
			return refuse(ruleSecretTwice, "The secret name must be unique and not shared with environment variables, such as '%s'.", *secret.Name)
		}
		seen[*secret.Name] = true
	}
	return nil
}

func checkEnvironment(env []types.KeyValuePair) error {
	for _, e := range env {
		if strings.HasPrefix(text(e.Name), "AWS_BATCH") {
			return refuse(ruleEnvironment, "Environment variables cannot start with AWS_BATCH.")
		}
	}
	return nil
}

// checkPlatform checks what only Fargate has, and what it hasn't.
func checkPlatform(c *types.ContainerProperties, fargate bool) error {
	if p := c.RuntimePlatform; p != nil && text(p.OperatingSystemFamily) != "" && text(p.OperatingSystemFamily) != "LINUX" {
		return unsupported("runtimePlatform.operatingSystemFamily " + text(p.OperatingSystemFamily))
	}
	if !fargate {
		if c.NetworkConfiguration != nil || c.FargatePlatformConfiguration != nil || c.EphemeralStorage != nil || c.RuntimePlatform != nil {
			return refuse(ruleFargateOnly, "networkConfiguration, fargatePlatformConfiguration, ephemeralStorage and runtimePlatform are for Fargate only.")
		}
		return checkLog(c.LogConfiguration, fargate)
	}
	if c.ExecutionRoleArn == nil {
		return refuse(ruleFargateRole, "executionRoleArn must be specified for Fargate.")
	}
	if vcpus, memory := deprecated(c); vcpus != nil || memory != nil {
		return refuse(ruleFargateOld, "vcpus and memory are not supported on Fargate; use resourceRequirements.")
	}
	if c.Privileged != nil && *c.Privileged || len(c.Ulimits) > 0 || c.InstanceType != nil {
		return refuse(ruleFargateNever, "privileged, ulimits and instanceType are not supported on Fargate.")
	}
	if e := c.EphemeralStorage; e != nil && (*e.SizeInGiB < 21 || *e.SizeInGiB > 200) {
		return refuse(ruleStorage, "ephemeralStorage.sizeInGiB must be between 21 and 200.")
	}
	return checkLog(c.LogConfiguration, fargate)
}

func checkLog(log *types.LogConfiguration, fargate bool) error {
	if log == nil {
		return nil
	}
	if log.LogDriver != types.LogDriverAwslogs {
		if fargate && log.LogDriver != types.LogDriverSplunk {
			return refuse(ruleLogDriver, "Log driver %s is not supported on Fargate.", log.LogDriver)
		}
		return unsupported("log driver " + string(log.LogDriver))
	}
	for _, name := range sortedKeys(log.Options) {
		switch name {
		case "awslogs-group", "awslogs-region", "awslogs-stream-prefix", "awslogs-create-group", "mode", "max-buffer-size":
		case "awslogs-datetime-format", "awslogs-multiline-pattern":
			return unsupported("log option " + name)
		default:
			return refuse(ruleLogOption, "Log driver awslogs disallows options: %s", name)
		}
	}
	if m := log.Options["mode"]; m != "" && m != "blocking" && m != "non-blocking" {
		return refuse(ruleLogOption, "Invalid value for log option mode: '%s'", m)
	}
	return nil
}

func checkRetries(r *types.RetryStrategy, t *types.JobTimeout) error {
	if r != nil && r.Attempts != nil && (*r.Attempts < 1 || *r.Attempts > 10) {
		return refuse(ruleAttempts, "Number of attempts must be between 1 and 10.")
	}
	if r != nil && len(r.EvaluateOnExit) > 0 {
		return unsupported("retryStrategy.evaluateOnExit")
	}
	if t != nil && t.AttemptDurationSeconds != nil && *t.AttemptDurationSeconds < 60 {
		return refuse(ruleTimeout, "attemptDurationSeconds must be at least 60.")
	}
	return nil
}

// deprecated are the members that resourceRequirements have replaced.
func deprecated(c *types.ContainerProperties) (vcpus, memory *int32) {
	return c.Vcpus, c.Memory //nolint:staticcheck // AWS Batch still takes them on instances
}

// resources returns the vCPUs and the MiB of a container with its overrides, as
// they were written.
func resources(c *types.ContainerProperties, over []types.ResourceRequirement, fargate bool) (vcpu, memory string, err error) {
	got := map[types.ResourceType]string{}
	oldVCPU, oldMemory := deprecated(c)
	if oldVCPU != nil {
		got[types.ResourceTypeVcpu] = strconv.Itoa(int(*oldVCPU))
	}
	if oldMemory != nil {
		got[types.ResourceTypeMemory] = strconv.Itoa(int(*oldMemory))
	}
	for _, list := range [][]types.ResourceRequirement{c.ResourceRequirements, over} {
		seen := map[types.ResourceType]bool{}
		for _, r := range list {
			if r.Type == types.ResourceTypeGpu {
				return "", "", unsupported("GPUs")
			}
			if seen[r.Type] {
				return "", "", refuse(ruleResourceTwice, "resourceRequirements has %s twice.", r.Type)
			}
			seen[r.Type], got[r.Type] = true, *r.Value
		}
	}
	vcpu, memory = got[types.ResourceTypeVcpu], got[types.ResourceTypeMemory]
	if vcpu == "" || memory == "" {
		return "", "", refuse(ruleResources, "resourceRequirements must specify VCPU and MEMORY.")
	}
	mib, merr := strconv.Atoi(memory)
	if merr != nil || mib < 4 {
		return "", "", refuse(ruleMemory, "MEMORY must be a whole number of MiB, at least 4, not %s.", memory)
	}
	if fargate {
		if !fits(vcpu, mib) {
			return "", "", refuse(ruleFargateSize, "Fargate resource requirements (%s vCPU, %s MiB) not valid", vcpu, memory)
		}
		return vcpu, memory, nil
	}
	if n, verr := strconv.Atoi(vcpu); verr != nil || n < 1 {
		return "", "", refuse(ruleVCPU, "VCPU must be a whole number, at least 1, not %s.", vcpu)
	}
	return vcpu, memory, nil
}

// fits says whether Fargate has a pair of vCPUs and MiB:
// https://docs.aws.amazon.com/batch/latest/APIReference/API_ResourceRequirement.html
func fits(vcpu string, mib int) bool {
	between := func(low, high, step int) bool { return mib >= low && mib <= high && (mib-low)%step == 0 }
	const gb = 1024
	switch vcpu {
	case "0.25":
		return mib == gb/2 || mib == gb || mib == 2*gb
	case "0.5":
		return between(gb, 4*gb, gb)
	case "1", "1.0":
		return between(2*gb, 8*gb, gb)
	case "2", "2.0":
		return between(4*gb, 16*gb, gb)
	case "4", "4.0":
		return between(8*gb, 30*gb, gb)
	case "8", "8.0":
		return between(16*gb, 60*gb, 4*gb)
	case "16", "16.0":
		return between(32*gb, 120*gb, 8*gb)
	default:
		return false
	}
}

// maxTags is how many a resource may have.
const maxTags = 50

// checkTags checks what the model doesn't say of tags.
func checkTags(tags map[string]string) error {
	if len(tags) > maxTags {
		return refuse(ruleTagCount, "The maximum number of tags is %d.", maxTags)
	}
	for k, v := range tags {
		if strings.HasPrefix(strings.ToLower(k), "aws:") || strings.HasPrefix(strings.ToLower(v), "aws:") {
			return refuse(ruleTagPrefix, "Tags with the prefix aws: are reserved for AWS use.")
		}
	}
	return nil
}

package ecs

import (
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// These forms are checked by hand: compiling patterns would cost every start of
// the program more than all else here.

// isIdentifier says whether a text may name a cluster, a family or a container.
func isIdentifier(s string) bool { return isWord(s, 255, "_-") }

// isWord says whether a text has 1 to most letters, digits and others.
func isWord(s string, most int, others string) bool {
	return s != "" && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(others, r))
	})
}

// isVPCID says whether a text is the ID of something in a VPC: a prefix, and 8
// or 17 hexadecimal digits.
func isVPCID(s, prefix string) bool {
	digits, ok := strings.CutPrefix(s, prefix)
	return ok && (len(digits) == 8 || len(digits) == 17) && strings.Trim(digits, "0123456789abcdef") == ""
}

// isToken says whether a text may be a client token.
func isToken(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool { return r < 33 || r > 126 })
}

// checkDefinition checks what the model doesn't say of a definition.
func checkDefinition(in *ecs.RegisterTaskDefinitionInput) error {
	if !isIdentifier(*in.Family) {
		return refuse(ruleFamily, "Invalid identifier: Identifier is for %s, must match [a-zA-Z0-9-_]{1,255}", *in.Family)
	}
	if len(in.ContainerDefinitions) == 0 {
		return refuse(ruleContainers, "Container list cannot be empty.")
	}
	if len(in.ContainerDefinitions) > maxContainers {
		return refuse(ruleContainers10, "Too many container definitions: at most %d.", maxContainers)
	}
	if err := checkTags(in.Tags); err != nil {
		return err
	}
	names := map[string]bool{}
	essential := false
	for i := range in.ContainerDefinitions {
		c := &in.ContainerDefinitions[i]
		if err := checkContainer(in, c); err != nil {
			return err
		}
		if names[text(c.Name)] {
			return refuse(ruleContainerTwice, "Container.name contains duplicate name '%s'.", text(c.Name))
		}
		names[text(c.Name)] = true
		essential = essential || c.Essential == nil || *c.Essential
	}
	if !essential {
		return refuse(ruleEssential, "At least one container must be marked essential.")
	}
	if err := checkDependencies(in.ContainerDefinitions, names); err != nil {
		return err
	}
	if slices.Contains(in.RequiresCompatibilities, types.CompatibilityFargate) {
		return checkFargate(in)
	}
	if in.RuntimePlatform != nil && in.RuntimePlatform.OperatingSystemFamily != "" && in.RuntimePlatform.OperatingSystemFamily != types.OSFamilyLinux {
		return unsupported("runtimePlatform.operatingSystemFamily " + string(in.RuntimePlatform.OperatingSystemFamily))
	}
	return nil
}

// maxContainers is the quota of containers in a definition:
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/service-quotas.html
const maxContainers = 10

func checkContainer(in *ecs.RegisterTaskDefinitionInput, c *types.ContainerDefinition) error {
	name := text(c.Name)
	if !isIdentifier(name) {
		return refuse(ruleContainerName, "Container.name should not be null or empty, and must match [a-zA-Z0-9-_]{1,255}.")
	}
	if text(c.Image) == "" {
		return refuse(ruleImage, "Container.image should not be null or empty.")
	}
	if strings.ContainsAny(*c.Image, " \t\n") || len(*c.Image) > 255 {
		return refuse(ruleImage, "Container.image contains invalid characters.")
	}
	if in.Memory == nil && c.Memory == nil && c.MemoryReservation == nil {
		return refuse(ruleMemory, "Invalid setting for container '%s'. At least one of 'memory' or 'memoryReservation' must be specified.", name)
	}
	if c.Memory != nil && (*c.Memory < 4 || c.MemoryReservation != nil && *c.Memory < *c.MemoryReservation) {
		return refuse(ruleMemory, "Invalid setting for container '%s'. The 'memory' value must be at least 4 and not below 'memoryReservation'.", name)
	}
	fargate := slices.Contains(in.RequiresCompatibilities, types.CompatibilityFargate)
	if c.StopTimeout != nil && (*c.StopTimeout < 0 || fargate && *c.StopTimeout > 120) {
		return refuse(ruleStopTimeout, "Invalid setting for container '%s'. stopTimeout must be between 0 and 120 seconds.", name)
	}
	if len(c.Secrets) > 0 && in.ExecutionRoleArn == nil {
		return refuse(ruleSecretsRole, "When you are specifying container secrets, you must also specify a value for 'executionRoleArn'.")
	}
	seen := map[string]bool{}
	for _, e := range c.Environment {
		seen[text(e.Name)] = true
	}
	for _, secret := range c.Secrets {
		if seen[*secret.Name] {
			return refuse(ruleSecretTwice, "The secret name must be unique and not shared with any new or existing environment variables set on the container, such as '%s'.", *secret.Name)
		}
		seen[*secret.Name] = true
	}
	for field, set := range map[string]bool{
		"environmentFiles": len(c.EnvironmentFiles) > 0, "mountPoints": len(c.MountPoints) > 0, "volumesFrom": len(c.VolumesFrom) > 0,
		"healthCheck": c.HealthCheck != nil, "restartPolicy": c.RestartPolicy != nil, "firelensConfiguration": c.FirelensConfiguration != nil,
		"links": len(c.Links) > 0, "resourceRequirements": len(c.ResourceRequirements) > 0, "startTimeout": c.StartTimeout != nil,
	} {
		if set {
			return unsupported("containerDefinitions." + field)
		}
	}
	return checkLog(in, c, fargate)
}

// isLogOption says whether the awslogs driver has an option; it refuses others:
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/specify-log-config.html
func isLogOption(name string) bool {
	switch name {
	case "awslogs-group", "awslogs-region", "awslogs-stream-prefix", "awslogs-create-group", "awslogs-datetime-format",
		"awslogs-multiline-pattern", "mode", "max-buffer-size":
		return true
	default:
		return false
	}
}

func checkLog(in *ecs.RegisterTaskDefinitionInput, c *types.ContainerDefinition, fargate bool) error {
	log := c.LogConfiguration
	if log == nil {
		return nil
	}
	if log.LogDriver != types.LogDriverAwslogs {
		if fargate && log.LogDriver != types.LogDriverSplunk && log.LogDriver != types.LogDriverAwsfirelens {
			return refuse(ruleLogDriver, "Fargate does not support log driver %s.", log.LogDriver)
		}
		return unsupported("log driver " + string(log.LogDriver))
	}
	if fargate && in.ExecutionRoleArn == nil {
		return refuse(ruleLogRole, "Fargate requires task definition to have execution role ARN to support log driver awslogs.")
	}
	if log.Options["awslogs-group"] == "" || log.Options["awslogs-region"] == "" {
		return refuse(ruleLogGroup, "Log driver awslogs requires options: awslogs-region, awslogs-group")
	}
	if fargate && log.Options["awslogs-stream-prefix"] == "" {
		return refuse(ruleLogPrefix, "Log driver awslogs requires option awslogs-stream-prefix for Fargate")
	}
	for _, name := range slices.Sorted(keys(log.Options)) {
		if !isLogOption(name) {
			return refuse(ruleLogOption, "Log driver awslogs disallows options: %s", name)
		}
	}
	switch log.Options["mode"] {
	case "", "blocking", "non-blocking":
	default:
		return refuse(ruleLogMode, "Invalid value for log option mode: '%s'", log.Options["mode"])
	}
	if log.Options["max-buffer-size"] != "" && log.Options["mode"] == "blocking" {
		return refuse(ruleLogMode, "Log option max-buffer-size is only supported with mode non-blocking")
	}
	if v := log.Options["awslogs-create-group"]; v != "" && v != "true" && v != "false" {
		return refuse(ruleLogCreate, "Invalid value for log option awslogs-create-group: '%s'", v)
	}
	for _, multiline := range []string{"awslogs-datetime-format", "awslogs-multiline-pattern"} {
		if log.Options[multiline] != "" {
			return unsupported("log option " + multiline)
		}
	}
	return nil
}

// checkDependencies checks that dependsOn names containers and has no ring.
func checkDependencies(containers []types.ContainerDefinition, names map[string]bool) error {
	needs := map[string][]string{}
	for _, c := range containers {
		for _, d := range c.DependsOn {
			if !names[*d.ContainerName] {
				return refuse(ruleDependsOn, "Container '%s' depends on unknown container '%s'.", *c.Name, *d.ContainerName)
			}
			if d.Condition == types.ContainerConditionHealthy {
				return unsupported("dependsOn condition HEALTHY")
			}
			needs[*c.Name] = append(needs[*c.Name], *d.ContainerName)
		}
	}
	const visiting, done = 1, 2
	state := map[string]int{}
	var ring func(name string) bool
	ring = func(name string) bool {
		if state[name] != 0 {
			return state[name] == visiting
		}
		state[name] = visiting
		found := slices.ContainsFunc(needs[name], ring)
		state[name] = done
		return found
	}
	for name := range needs {
		if ring(name) {
			return refuse(ruleDependsOn, "The container dependencies have a cycle.")
		}
	}
	return nil
}

// cpuUnits normalises the task's cpu: "1 vCPU" is 1024.
func cpuUnits(value *string) (*string, error) {
	units, ok := quantity(value, "vcpu")
	if !ok {
		return nil, refuse(ruleCPU, "Invalid 'cpu' setting for task.")
	}
	return units, nil
}

// memoryMiB normalises the task's memory: "1 GB" is 1024.
func memoryMiB(value *string) (*string, error) {
	mib, ok := quantity(value, "gb")
	if !ok {
		return nil, refuse(ruleTaskMemory, "Invalid 'memory' setting for task.")
	}
	return mib, nil
}

// quantity reads a whole number, or a number of a unit that stands for 1024.
func quantity(value *string, unit string) (normal *string, ok bool) {
	if value == nil {
		return nil, true
	}
	text := strings.ToLower(strings.TrimSpace(*value))
	n := 0
	if number, found := strings.CutSuffix(text, unit); found {
		f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(f > 0 && f < 1<<20) {
			return nil, false
		}
		n = int(f * 1024)
	} else if n, _ = strconv.Atoi(text); n <= 0 { // what is no number is 0
		return nil, false
	}
	return ptr(strconv.Itoa(n)), true
}

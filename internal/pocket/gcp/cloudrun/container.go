package cloudrun

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"cloud.google.com/go/run/apiv2/runpb"
)

// The bounds of a container. See the rules for where they are from.
const (
	maxContainers = 10
	maxVariables  = 1000
	maxArgs       = 1000
	maxVariable   = 32768
	mebi          = 1 << 20
	gibi          = 1 << 30
)

// Variable names that the platform sets:
// https://cloud.google.com/run/docs/container-contract#jobs-env-vars
const (
	varJob       = "CLOUD_RUN_JOB"
	varExecution = "CLOUD_RUN_EXECUTION"
	varIndex     = "CLOUD_RUN_TASK_INDEX"
	varAttempt   = "CLOUD_RUN_TASK_ATTEMPT"
	varCount     = "CLOUD_RUN_TASK_COUNT"
)

// purpose is what a container is for: what it may have depends on it.
type purpose int

const (
	forJobs purpose = iota
	forServices
)

// reserved are the variables that the platform sets itself.
func (p purpose) reserved() []string {
	if p == forServices {
		return []string{varPort, varService, varRevision, varConfiguration}
	}
	return []string{varJob, varExecution, varIndex, varAttempt, varCount}
}

func (s *Service) normaliseContainers(field string, p purpose, list []*runpb.Container, volumes map[string]*runpb.Volume) error {
	if len(list) == 0 || len(list) > maxContainers {
		return violation(ruleContainers, field+".containers", "there are %d, must be between 1 and %d.", len(list), maxContainers)
	}
	names := map[string]bool{}
	for i, c := range list {
		at := fmt.Sprintf("%s.containers[%d]", field, i)
		if c.Name != "" && !dnsLabel().MatchString(c.Name) || names[c.Name] {
			return violation(ruleContainerName, at+".name", "%q is no DNS label, or is there twice.", c.Name)
		}
		names[c.Name] = true
		if err := s.normaliseContainer(at, p, c, volumes); err != nil {
			return err
		}
	}
	if len(list) > 1 {
		return refuse(ruleUnsupported, "The pocket cloud runs one container for each task or instance.")
	}
	return nil
}

func (s *Service) normaliseContainer(field string, p purpose, c *runpb.Container, volumes map[string]*runpb.Volume) error {
	if !imageForm().MatchString(c.Image) {
		return violation(ruleImage, field+".image", "%q is no name of an image.", c.Image)
	}
	if err := checkArgs(field, c.Args); err != nil {
		return err
	}
	switch {
	case p == forServices && (c.SourceCode != nil || c.BaseImageUri != ""):
		return refuse(ruleUnsupported, "The pocket cloud builds nothing: source_code and base_image_uri aren't offered.")
	case p == forServices:
		if err := normalisePorts(field, c); err != nil {
			return err
		}
	case len(c.Ports) > 0:
		return violation(rulePorts, field+".ports", "ports are not supported for jobs.")
	case c.SourceCode != nil || c.BaseImageUri != "" || c.GetResources().GetCpuIdle():
		return violation(ruleServiceOnly, field, "source_code, base_image_uri and cpu_idle are supported for services only.")
	}
	if c.LivenessProbe != nil || c.StartupProbe != nil || c.ReadinessProbe != nil || len(c.DependsOn) > 0 || c.SandboxLauncher != nil {
		return refuse(ruleUnsupported, "The pocket cloud doesn't offer probes, dependencies and sandboxes.")
	}
	if err := s.checkEnv(field, p, c.Env); err != nil {
		return err
	}
	if err := normaliseResources(field+".resources", p, c); err != nil {
		return err
	}
	paths := map[string]bool{}
	for i, m := range c.VolumeMounts {
		if volumes[m.Name] == nil || !strings.HasPrefix(m.MountPath, "/") || strings.Contains(m.MountPath, ":") || paths[m.MountPath] ||
			m.SubPath != "" && volumes[m.Name].GetSecret() != nil {
			return violation(ruleMount, fmt.Sprintf("%s.volume_mounts[%d]", field, i), "volume %q at %q is not legal.", m.Name, m.MountPath)
		}
		paths[m.MountPath] = true
	}
	if len(c.VolumeMounts) > 0 {
		return refuse(ruleUnsupported, "The pocket cloud doesn't mount volumes.")
	}
	return nil
}

func checkArgs(field string, args []string) error {
	if len(args) > maxArgs {
		return violation(ruleArgs, field+".args", "there are %d, at most %d are allowed.", len(args), maxArgs)
	}
	return nil
}

func (s *Service) checkEnv(field string, p purpose, list []*runpb.EnvVar) error {
	if len(list) > maxVariables {
		return violation(ruleEnvCount, field+".env", "there are %d, at most %d are allowed.", len(list), maxVariables)
	}
	seen := map[string]bool{}
	for i, v := range list {
		at := fmt.Sprintf("%s.env[%d]", field, i)
		switch {
		case v.Name == "" || strings.ContainsAny(v.Name, "=\x00"):
			return violation(ruleEnvName, at+".name", "%q is no name of a variable.", v.Name)
		case slices.Contains(p.reserved(), v.Name):
			return violation(ruleEnvReserved, at+".name", "The following reserved env names were provided: %s. These values are automatically set by the system.", v.Name)
		case seen[v.Name]:
			return violation(ruleEnvTwice, at+".name", "%s is there twice.", v.Name)
		case len(v.Name) > maxVariable || len(v.GetValue()) > maxVariable:
			return violation(ruleEnvLength, at, "name and value must not exceed %d characters.", maxVariable)
		}
		seen[v.Name] = true
		if v.GetValueSource() == nil {
			continue
		}
		ref := v.GetValueSource().GetSecretKeyRef()
		if ref == nil || !secretForm().MatchString(ref.Secret) || ref.Version == "" {
			return violation(ruleSecretRef, at+".value_source.secret_key_ref", "must name a secret and its version.")
		}
		if _, err := s.o.Secret(ref.Secret, ref.Version); err != nil {
			return violation(ruleSecretMissing, at+".value_source.secret_key_ref", "Secret %s/versions/%s was not found or can't be accessed: %v", s.secretName(ref.Secret), ref.Version, err)
		}
	}
	return nil
}

func (s *Service) secretName(secret string) string {
	if strings.HasPrefix(secret, "projects/") {
		return secret
	}
	return "projects/" + s.o.Project.Number + "/secrets/" + secret
}

// normaliseResources checks CPU and memory and fills in 1 CPU and 512 MiB.
func normaliseResources(field string, p purpose, c *runpb.Container) error {
	if c.Resources == nil {
		c.Resources = &runpb.ResourceRequirements{}
	}
	limits := maps.Clone(c.Resources.Limits)
	if limits == nil {
		limits = map[string]string{}
	}
	for _, k := range slices.Sorted(maps.Keys(limits)) {
		switch k {
		case "cpu", "memory":
		case "nvidia.com/gpu":
			return refuse(ruleUnsupported, "The pocket cloud has no GPUs.")
		default:
			return violation(ruleLimitsKey, field+".limits", "%q is not supported.", k)
		}
	}
	limits["cpu"], limits["memory"] = cmp.Or(limits["cpu"], "1000m"), cmp.Or(limits["memory"], "512Mi")
	cpu, ok := quantity(limits["cpu"])
	if memory, legal := quantity(limits["memory"]); p == forServices && ok && legal {
		c.Resources.Limits = limits
		return checkServiceSize(field, cpu, memory)
	}
	if !ok || !cpu.IsInt() || !slices.Contains([]int64{1, 2, 4, 6, 8}, cpu.Num().Int64()) {
		return violation(ruleCPU, field+".limits.cpu", "Invalid value specified for cpu: %s. For jobs it must be 1, 2, 4, 6 or 8.", limits["cpu"])
	}
	memory, ok := quantity(limits["memory"])
	if !ok || memory.Cmp(big.NewRat(512*mebi, 1)) < 0 || memory.Cmp(big.NewRat(32*gibi, 1)) > 0 {
		return violation(ruleMemory, field+".limits.memory", "Invalid value specified for memory: %s. It must be between 512Mi and 32Gi.", limits["memory"])
	}
	// https://cloud.google.com/run/docs/configuring/jobs/cpu
	bounds := map[int64][2]int64{1: {0, 4}, 2: {0, 8}, 4: {2, 16}, 6: {4, 24}, 8: {4, 32}}[cpu.Num().Int64()]
	if memory.Cmp(big.NewRat(bounds[0]*gibi, 1)) < 0 || memory.Cmp(big.NewRat(bounds[1]*gibi, 1)) > 0 {
		return violation(ruleCPUMemory, field+".limits", "memory %s is not possible with cpu %s: it must be between %dGi and %dGi.", limits["memory"], limits["cpu"], bounds[0], bounds[1])
	}
	c.Resources.Limits = limits
	return nil
}

// memoryMiB is a container's limit, which has been checked.
func memoryMiB(c *runpb.Container) int64 {
	memory, _ := quantity(c.GetResources().GetLimits()["memory"])
	if memory == nil {
		return 0
	}
	return new(big.Int).Quo(new(big.Int).Quo(memory.Num(), memory.Denom()), big.NewInt(mebi)).Int64()
}

// quantity reads a number with a unit as Kubernetes does:
// https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
func quantity(text string) (*big.Rat, bool) {
	parts := quantityForm().FindStringSubmatch(text)
	if parts == nil {
		return nil, false
	}
	n, ok := new(big.Rat).SetString(parts[1])
	if !ok {
		return nil, false
	}
	unit := map[string]*big.Rat{"": big.NewRat(1, 1), "m": big.NewRat(1, 1000), "k": big.NewRat(1e3, 1), "M": big.NewRat(1e6, 1), "G": big.NewRat(1e9, 1), "T": big.NewRat(1e12, 1),
		"Ki": big.NewRat(1<<10, 1), "Mi": big.NewRat(mebi, 1), "Gi": big.NewRat(gibi, 1), "Ti": big.NewRat(1<<40, 1)}[parts[2]]
	return n.Mul(n, unit), true
}

package ecs

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// maxOverrides is the bound on the characters of the overrides' JSON, its
// punctuation included:
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_RunTask.html
const maxOverrides = 8192

// overridesSize counts the characters of a request's overrides, written
// without spaces and without needless escapes.
func overridesSize(body []byte) (int, error) {
	var request struct {
		Overrides any `json:"overrides"`
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&request); err != nil {
		return 0, err
	}
	if request.Overrides == nil {
		return 0, nil
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(request.Overrides); err != nil {
		return 0, err
	}
	return utf8.RuneCount(bytes.TrimRight(out.Bytes(), "\n")), nil
}

// checkOverrides checks the overrides against the definition.
func checkOverrides(def *types.TaskDefinition, in *ecs.RunTaskInput, where placement) error {
	o := in.Overrides
	if o == nil {
		return nil
	}
	seen := map[string]bool{}
	for _, c := range o.ContainerOverrides {
		name := text(c.Name)
		i := slices.IndexFunc(def.ContainerDefinitions, func(d types.ContainerDefinition) bool { return *d.Name == name })
		if i < 0 {
			return refuse(ruleOverrideName, "Override for container named %s is not a container in the TaskDefinition.", name)
		}
		if seen[name] {
			return refuse(ruleOverrideTwice, "Container Overrides for the same container %s are given twice.", name)
		}
		seen[name] = true
		for _, secret := range def.ContainerDefinitions[i].Secrets {
			if slices.ContainsFunc(c.Environment, func(e types.KeyValuePair) bool { return text(e.Name) == *secret.Name }) {
				return refuse(ruleOverrideSecret, "The secret name must be unique and not shared with any new or existing environment variables set on the container, such as '%s'.", *secret.Name)
			}
		}
		if len(c.EnvironmentFiles) > 0 {
			return unsupported("overrides.containerOverrides.environmentFiles")
		}
		if len(c.ResourceRequirements) > 0 {
			return unsupported("overrides.containerOverrides.resourceRequirements")
		}
	}
	cpu, err := cpuUnits(o.Cpu)
	if err != nil {
		return err
	}
	memory, err := memoryMiB(o.Memory)
	if err != nil {
		return err
	}
	if where.fargate() && (cpu != nil || memory != nil) {
		if cpu == nil {
			cpu = def.Cpu
		}
		if memory == nil {
			memory = def.Memory
		}
		if err := checkSize(*cpu, *memory); err != nil {
			return err
		}
	}
	if o.EphemeralStorage != nil {
		return checkStorage(o.EphemeralStorage)
	}
	return nil
}

package ecs

import (
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// fits says whether Fargate has a pair of cpu units and memory in MiB. See
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-cpu-memory-error.html
func fits(cpu, memory int) bool {
	between := func(low, high, step int) bool { return memory >= low && memory <= high && (memory-low)%step == 0 }
	const gb = 1024
	switch cpu {
	case 256:
		return memory == gb/2 || memory == gb || memory == 2*gb
	case 512:
		return between(gb, 4*gb, gb)
	case 1024:
		return between(2*gb, 8*gb, gb)
	case 2048:
		return between(4*gb, 16*gb, gb)
	case 4096:
		return between(8*gb, 30*gb, gb)
	case 8192:
		return between(16*gb, 60*gb, 4*gb)
	case 16384:
		return between(32*gb, 120*gb, 8*gb)
	default:
		return false
	}
}

// checkSize refuses a pair that Fargate hasn't.
func checkSize(cpu, memory string) error {
	c, err1 := strconv.Atoi(cpu)
	m, err2 := strconv.Atoi(memory)
	if err1 != nil || err2 != nil || !fits(c, m) {
		return refuse(ruleFargateSize, "No Fargate configuration exists for given values: %s CPU, %s memory. See the Amazon ECS documentation for the valid values.", cpu, memory)
	}
	return nil
}

// checkFargate checks a definition that is to run on Fargate.
func checkFargate(in *ecs.RegisterTaskDefinitionInput) error {
	if in.NetworkMode != types.NetworkModeAwsvpc {
		return refuse(ruleFargateNetwork, "Fargate only supports network mode 'awsvpc'.")
	}
	if in.Cpu == nil {
		return refuse(ruleFargateCPU, "Fargate requires that 'cpu' be defined at the task level.")
	}
	if in.Memory == nil {
		return refuse(ruleFargateMemory, "Fargate requires that 'memory' be defined at the task level.")
	}
	cpu, err := cpuUnits(in.Cpu)
	if err != nil {
		return err
	}
	memory, err := memoryMiB(in.Memory)
	if err != nil {
		return err
	}
	if err := checkSize(*cpu, *memory); err != nil {
		return err
	}
	if e := in.EphemeralStorage; e != nil {
		if err := checkStorage(e); err != nil {
			return err
		}
	}
	if in.IpcMode != "" {
		return refuse(ruleFargateIPC, "Fargate does not support 'ipcMode'.")
	}
	if in.PidMode == types.PidModeHost {
		return refuse(ruleFargatePID, "Fargate only supports 'pidMode' task.")
	}
	if len(in.PlacementConstraints) > 0 {
		return refuse(ruleFargatePlacement, "Fargate does not support placement constraints.")
	}
	if p := in.RuntimePlatform; p != nil && p.OperatingSystemFamily != "" && p.OperatingSystemFamily != types.OSFamilyLinux {
		return unsupported("runtimePlatform.operatingSystemFamily " + string(p.OperatingSystemFamily))
	}
	limit, _ := strconv.Atoi(*memory)
	total := 0
	for _, c := range in.ContainerDefinitions {
		if c.Privileged != nil && *c.Privileged {
			return refuse(ruleFargatePrivileged, "Fargate does not support privileged containers.")
		}
		switch {
		case c.MemoryReservation != nil:
			total += int(*c.MemoryReservation)
		case c.Memory != nil:
			total += int(*c.Memory)
		}
		if c.Memory != nil && int(*c.Memory) > limit {
			total += int(*c.Memory)
		}
	}
	if total > limit {
		return refuse(ruleFargateSum, "Invalid 'memory' setting for task: the containers need %d MiB of %d.", total, limit)
	}
	if units, _ := strconv.Atoi(*cpu); slices.ContainsFunc(in.ContainerDefinitions, func(c types.ContainerDefinition) bool { return int(c.Cpu) > units }) {
		return refuse(ruleFargateSum, "Invalid 'cpu' setting for task: a container needs more than %d.", units)
	}
	return nil
}

// checkStorage checks the size of ephemeral storage:
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_EphemeralStorage.html
func checkStorage(e *types.EphemeralStorage) error {
	if e.SizeInGiB < 21 || e.SizeInGiB > 200 {
		return refuse(ruleStorage, "EphemeralStorage.SizeInGiB must be between 21 and 200.")
	}
	return nil
}

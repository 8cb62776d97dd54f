package ecs

import (
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
)

// sizes are the memory sizes in MiB that Fargate has for each cpu in units: from
// min to max in steps, and 512 for the smallest cpu. See
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-cpu-memory-error.html
var sizes = map[int]struct{ min, max, step int }{
	256:   {512, 2048, 0}, // 512, 1024, 2048
	512:   {1024, 4096, 1024},
	1024:  {2048, 8192, 1024},
	2048:  {4096, 16384, 1024},
	4096:  {8192, 30720, 1024},
	8192:  {16384, 61440, 4096},
	16384: {32768, 122880, 8192},
	32768: {61440, 249856, 0}, // 60, 120, 244 GB
}

// fits says whether Fargate has a pair of cpu units and memory in MiB.
func fits(cpu, memory int) bool {
	switch cpu {
	case 256:
		return memory == 512 || memory == 1024 || memory == 2048
	case 32768:
		return memory == 61440 || memory == 122880 || memory == 249856
	}
	s, ok := sizes[cpu]
	return ok && memory >= s.min && memory <= s.max && (memory-s.min)%s.step == 0
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

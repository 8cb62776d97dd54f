package aci

import (
	"math"
	"strconv"

	"github.com/windlass-run/windlass/sdk"
)

const (
	mib = 1 << 20
	gib = 1 << 30

	// Each group has at least a core and a gigabyte; the most is what the largest
	// machines give, and what a subscription may have is a quota.
	// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-container-groups#resource-allocation
	// https://learn.microsoft.com/en-us/azure/container-instances/container-instances-resource-and-quota-limits
	leastCPU, mostCPU       = 1000, 31000
	leastMemory, mostMemory = gib, 240 * gib
	defaultMemory           = 1536 * mib
	// Memory is given in tenths of a gigabyte, of which only halves are whole
	// numbers of bytes.
	memoryStep = gib / 2
	cpuStep    = 100
)

// fitSize chooses cores and gigabytes. What is set, in thousandths of a core and
// in bytes, is kept or refused; zero is unset. The defaults are those of `az
// container create`.
// https://learn.microsoft.com/en-us/cli/azure/container#az-container-create
func fitSize(cpu, memory int64, bad func(field, message string)) (cores, gigabytes float64) {
	if cpu == 0 {
		cpu = leastCPU
	}
	if memory == 0 {
		memory = defaultMemory
	}
	if near := nearest(cpu, leastCPU, mostCPU, cpuStep); near != cpu {
		bad("cpu", "Container Instances gives 1 to 31 cores in tenths; the nearest is "+sdk.CPUText(near))
	}
	if near := nearest(memory, leastMemory, mostMemory, memoryStep); near != memory {
		bad("memory", "Container Instances gives 1Gi to 240Gi, in steps of 512Mi; the nearest is "+sdk.MemoryText(near))
	}
	return float64(cpu) / 1000, float64(memory) / gib
}

// nearest is the least legal value that is no less, as far as there is one.
func nearest(n, least, most, step int64) int64 {
	n = min(max(n, least), most)
	return min((n+step-1)/step*step, most)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// number writes a size as the request has it, for people.
func number(f float64) string {
	if f == math.Trunc(f) {
		return itoa(int64(f))
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

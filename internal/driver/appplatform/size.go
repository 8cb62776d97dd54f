package appplatform

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/windlass-run/windlass/sdk"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// size is an instance size: cores, memory in MiB, and what it costs for 28 days.
type size struct {
	slug          string
	cores, memory int64
	dollars       int
}

// sizes are those of the price list, less the ones that go: 29 August 2025.
// https://docs.digitalocean.com/products/app-platform/details/pricing/
func sizes() []size {
	return []size{
		{"apps-s-1vcpu-0.5gb", 1, 512, 5}, {"apps-s-1vcpu-1gb-fixed", 1, 1 << 10, 10}, {"apps-s-1vcpu-1gb", 1, 1 << 10, 12},
		{"apps-s-1vcpu-2gb", 1, 2 << 10, 25}, {"apps-d-1vcpu-0.5gb", 1, 512, 29}, {"apps-d-1vcpu-1gb", 1, 1 << 10, 34},
		{"apps-d-1vcpu-2gb", 1, 2 << 10, 39}, {"apps-d-1vcpu-4gb", 1, 4 << 10, 49}, {"apps-s-2vcpu-4gb", 2, 4 << 10, 50},
		{"apps-d-2vcpu-4gb", 2, 4 << 10, 78}, {"apps-d-2vcpu-8gb", 2, 8 << 10, 98}, {"apps-d-4vcpu-8gb", 4, 8 << 10, 156},
		{"apps-d-4vcpu-16gb", 4, 16 << 10, 196}, {"apps-d-8vcpu-32gb", 8, 32 << 10, 392},
	}
}

// fitSize chooses the cheapest size that has exactly what is set, in thousandths
// of a core and in bytes; zero is unset. Each of the two that no size has is told;
// where each is to be had and only both together aren't, it is the memory.
func fitSize(cpu, memory int64, bad func(field, message string)) size {
	all := sizes()
	hasCPU := func(s size) bool { return cpu == 0 || s.cores*1000 == cpu }
	hasMemory := func(s size) bool { return memory == 0 || s.memory*mib == memory }
	if i := slices.IndexFunc(all, func(s size) bool { return hasCPU(s) && hasMemory(s) }); i >= 0 {
		return all[i] // they stand in the order of their prices
	}
	// The nearest has no less, where there is one.
	near := slices.MinFunc(all, func(a, b size) int {
		return cmp.Or(cmp.Compare(lack(a, cpu, memory), lack(b, cpu, memory)), cmp.Compare(a.dollars, b.dollars))
	})
	message := "no instance size of App Platform has that; the nearest is " + near.slug + ": " + sdk.CPUText(near.cores*1000) + " cores, " + sdk.MemoryText(near.memory*mib)
	knownCPU := slices.ContainsFunc(all, hasCPU)
	if !knownCPU {
		bad("cpu", message)
	}
	if knownCPU || !slices.ContainsFunc(all, hasMemory) {
		bad("memory", message)
	}
	return near
}

// lack is by how much a size falls short of what is wanted.
func lack(s size, cpu, memory int64) int64 {
	return max(cpu-s.cores*1000, 0)*gib/1000 + max(memory-s.memory*mib, 0)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

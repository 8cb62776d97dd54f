package ecs

import "testing"

// TestFits holds the pairs against the ranges of AWS's page: the ends and the
// steps of each, and what lies beside them.
func TestFits(t *testing.T) {
	const gb = 1024
	for cpu, k := range map[int]struct{ low, high, step int }{
		512: {gb, 4 * gb, gb}, 1024: {2 * gb, 8 * gb, gb}, 2048: {4 * gb, 16 * gb, gb}, 4096: {8 * gb, 30 * gb, gb},
		8192: {16 * gb, 60 * gb, 4 * gb}, 16384: {32 * gb, 120 * gb, 8 * gb},
	} {
		for memory, want := range map[int]bool{k.low: true, k.high: true, k.low + k.step: true, k.low - k.step: false, k.high + k.step: false, k.low + k.step/2: false, k.low + 1: false} {
			if fits(cpu, memory) != want {
				t.Errorf("cpu %d with memory %d: %t", cpu, memory, !want)
			}
		}
	}
	for memory, want := range map[int]bool{512: true, gb: true, 2 * gb: true, 256: false, 1536: false, 3 * gb: false} {
		if fits(256, memory) != want {
			t.Errorf("cpu 256 with memory %d: %t", memory, !want)
		}
	}
	for _, cpu := range []int{0, 128, 300, 768, 32768} {
		if fits(cpu, 2*gb) {
			t.Errorf("cpu %d is taken", cpu)
		}
	}
}

// TestQuantity reads every spelling of AWS's pages.
func TestQuantity(t *testing.T) {
	for text, want := range map[string]string{"256": "256", ".25 vCPU": "256", "1 vcpu": "1024", "1vCPU": "1024", "0.5 VCPU": "512", " 1024 ": "1024"} {
		if got, err := cpuUnits(&text); err != nil || *got != want {
			t.Errorf("cpu %q: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{"512": "512", "0.5 GB": "512", "1GB": "1024", "30 gb": "30720"} {
		if got, err := memoryMiB(&text); err != nil || *got != want {
			t.Errorf("memory %q: %v, want %s", text, err, want)
		}
	}
	for _, bad := range []string{"", "0", "-1", "1.5", "vcpu", "x vcpu", "-1 vcpu", "0 vcpu", "1 GB"} {
		if got, err := cpuUnits(&bad); err == nil {
			t.Errorf("cpu %q is taken as %s", bad, *got)
		}
	}
	if got, err := cpuUnits(nil); got != nil || err != nil {
		t.Errorf("no cpu: %v, %v", got, err)
	}
}

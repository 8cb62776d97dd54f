package cloudrun

import (
	"slices"
	"strconv"

	"github.com/windlass-run/windlass/sdk"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// size is a number of cores with the least and the most memory that go with it,
// in MiB.
// https://cloud.google.com/run/docs/configuring/jobs/cpu
// https://cloud.google.com/run/docs/configuring/jobs/memory-limits
type size struct{ cores, least, most int64 }

func sizes() []size {
	return []size{{1, 512, 4 << 10}, {2, 512, 8 << 10}, {4, 2 << 10, 16 << 10}, {6, 4 << 10, 24 << 10}, {8, 4 << 10, 32 << 10}}
}

// fitSize chooses cores and memory. What is set, in thousandths of a core and in
// bytes, is kept or refused; zero is unset. Memory that isn't right is told beside
// cores that aren't, as it would be with the nearest number of them.
func fitSize(cpu, memory int64, bad func(field, message string)) (cores, mebibytes int64) {
	all := sizes()
	want := (memory + mib - 1) / mib
	fits := func(s size) bool { return want == 0 || want >= s.least && want <= s.most }
	i := slices.IndexFunc(all, func(s size) bool { return cpu > 0 && s.cores*1000 >= cpu || cpu == 0 && fits(s) })
	switch {
	case i < 0 && cpu == 0:
		near := min(max(want, all[0].least), all[len(all)-1].most)
		bad("memory", "Cloud Run gives 512Mi to 32Gi; the nearest is "+sdk.MemoryText(near*mib))
		return 0, 0
	case i < 0:
		i = len(all) - 1
	}
	s := all[i]
	if cpu > 0 && s.cores*1000 != cpu {
		bad("cpu", "Cloud Run gives 1, 2, 4, 6 or 8 cores; the nearest is "+itoa(s.cores))
	}
	switch {
	case !fits(s):
		near := min(max(want, s.least), s.most)
		bad("memory", "with "+itoa(s.cores)+" cores Cloud Run gives "+sdk.MemoryText(s.least*mib)+" to "+sdk.MemoryText(s.most*mib)+"; the nearest is "+sdk.MemoryText(near*mib))
	case memory%mib != 0:
		bad("memory", "Cloud Run's memory is given in whole MiB; the nearest is "+sdk.MemoryText(want*mib))
	}
	return s.cores, max(want, s.least)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

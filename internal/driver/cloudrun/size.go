package cloudrun

import "strconv"

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
// bytes, is kept or refused; zero is unset.
func fitSize(cpu, memory int64, bad func(field, value, message string)) (cores, mebibytes int64) {
	want := (memory + mib - 1) / mib
	if memory%mib != 0 {
		bad("memory", memoryText(memory), "Cloud Run's memory is given in whole MiB; the nearest is "+memoryText(want*mib))
		return 0, 0
	}
	all := sizes()
	if cpu == 0 {
		for _, s := range all {
			if want <= s.most && (want == 0 || want >= s.least) {
				return s.cores, max(want, s.least)
			}
		}
		near := min(max(want, all[0].least), all[len(all)-1].most)
		bad("memory", memoryText(memory), "Cloud Run gives 512Mi to 32Gi; the nearest is "+memoryText(near*mib))
		return 0, 0
	}
	for _, s := range all {
		switch {
		case s.cores*1000 < cpu:
			continue
		case s.cores*1000 > cpu:
			bad("cpu", itoa(cpu), "Cloud Run gives 1, 2, 4, 6 or 8 cores; the nearest is "+itoa(s.cores))
		case want != 0 && (want < s.least || want > s.most):
			near := min(max(want, s.least), s.most)
			bad("memory", memoryText(memory), "with "+itoa(s.cores)+" cores Cloud Run gives "+memoryText(s.least*mib)+" to "+memoryText(s.most*mib)+"; the nearest is "+memoryText(near*mib))
		default:
			return s.cores, max(want, s.least)
		}
		return 0, 0
	}
	bad("cpu", itoa(cpu), "Cloud Run gives 1, 2, 4, 6 or 8 cores; the nearest is 8")
	return 0, 0
}

func memoryText(bytes int64) string {
	switch {
	case bytes%gib == 0:
		return itoa(bytes/gib) + "Gi"
	case bytes%mib == 0:
		return itoa(bytes/mib) + "Mi"
	}
	return itoa(bytes)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

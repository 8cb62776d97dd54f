package bench

import (
	"bytes"
	"os"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// cpuTime is the processor time of this process so far.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// memory is what this process has in memory now, and had at most since forgetPeak, in
// bytes: the kernel's VmRSS and VmHWM.
func memory(tb testing.TB) (now, peak int64) {
	tb.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tb.Fatal(err)
	}
	kib := func(name string) int64 {
		_, rest, found := bytes.Cut(status, []byte("\n"+name+":"))
		fields := bytes.Fields(rest)
		if !found || len(fields) < 2 || string(fields[1]) != "kB" {
			tb.Fatalf("/proc/self/status has no %s in kB", name)
		}
		n, err := strconv.ParseInt(string(fields[0]), 10, 64)
		if err != nil {
			tb.Fatal(err)
		}
		return n << 10
	}
	return kib("VmRSS"), kib("VmHWM")
}

// forgetPeak begins the peak of memory anew: what an earlier benchmark in this process
// took is given back first.
func forgetPeak(tb testing.TB) {
	tb.Helper()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600); err != nil {
		tb.Logf("the peak of memory is that of the whole process: %v", err)
	}
}

// openFiles counts this process's open files.
func openFiles(tb testing.TB) int {
	tb.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return len(list) - 1 // one is that of the reading
}

package run

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The kernel counts processor time in hundredths of a second for processes.
// https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
const tick = 10 * time.Millisecond

// groupUsage measures a process group by proc.
func groupUsage(group int) (Usage, bool) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return Usage{}, false
	}
	var u Usage
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// The name in parentheses may have any character.
		_, rest, ok := bytes.Cut(data[bytes.LastIndexByte(data, ')')+1:], []byte(" "))
		f := strings.Fields(string(rest))
		if !ok || len(f) < 22 || f[2] != strconv.Itoa(group) {
			continue
		}
		for _, i := range []int{11, 12, 13, 14} { // utime, stime, cutime, cstime
			n, _ := strconv.ParseInt(f[i], 10, 64) // the kernel's own
			u.CPU += time.Duration(n) * tick
		}
		pages, _ := strconv.ParseInt(f[21], 10, 64) // likewise
		u.Memory += pages * int64(os.Getpagesize())
	}
	return u, u.Memory > 0
}

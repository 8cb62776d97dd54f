//go:build unix

package joblog

import (
	"math"
	"syscall"
)

// openLimit is how many files the process may have open. The runtime has raised it
// to what the system allows.
func openLimit() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 4 * DefaultMaxOpen
	}
	return int(min(l.Cur, math.MaxInt32))
}

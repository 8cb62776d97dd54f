//go:build unix

package keeper

import (
	"strconv"
	"syscall"
)

// limitFiles bounds the files that this process may have open.
func limitFiles(n string) error {
	if n == "" {
		return nil
	}
	v, err := strconv.ParseUint(n, 10, 64)
	if err != nil {
		return err
	}
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: v, Max: v})
}

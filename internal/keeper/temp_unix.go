//go:build unix && !linux

package keeper

import (
	"fmt"
	"os"
	"syscall"

	"github.com/windlass-run/windlass/sdk"
)

func sharedTemp() string { return "/tmp" }

// checkPrivate refuses a folder that others could have put a socket into.
func checkPrivate(dir string) error {
	fi, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("keeper's socket: %w", err)
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !fi.IsDir() || !ok || int(st.Uid) != os.Getuid() || fi.Mode().Perm()&0o077 != 0 {
		return &sdk.Error{Code: sdk.PermissionDenied, Op: "keeper's socket", Remedy: "remove it",
			Err: fmt.Errorf("%s is not a folder of this user alone", dir)}
	}
	return nil
}

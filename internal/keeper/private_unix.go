//go:build unix

package keeper

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/windlass-run/windlass/sdk"
)

// checkPrivate refuses a folder that others could have put a socket into.
func checkPrivate(dir string) error {
	fi, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("keeper's socket: %w", err)
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !fi.IsDir() || !ok || int(st.Uid) != os.Getuid() || fi.Mode().Perm()&0o077 != 0 {
		return &sdk.Error{Code: sdk.PermissionDenied, Op: "keeper's socket", Remedy: "remove it, or set TMPDIR",
			Err: fmt.Errorf("%s is not a folder of this user alone", dir)}
	}
	return nil
}

// detach makes a command's process outlive its parent and its terminal.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

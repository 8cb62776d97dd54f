//go:build unix

package keeper

import (
	"errors"
	"os/exec"
	"syscall"
)

// privateUmask keeps files made from now on to this user, until restored.
func privateUmask() (restore func()) {
	old := syscall.Umask(0o077)
	return func() { syscall.Umask(old) }
}

// detach makes a command's process outlive its parent and its terminal.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// refused reports whether nobody listens at a socket that is there.
func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

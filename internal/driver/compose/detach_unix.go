//go:build unix

package compose

import (
	"os/exec"
	"syscall"
)

// detach gives a child a session of its own, so that a signal to the terminal's
// process group doesn't reach it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

package compose

import (
	"os/exec"
	"syscall"
)

// detach gives a child a process group of its own, so that Ctrl-C doesn't reach
// it.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

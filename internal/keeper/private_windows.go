package keeper

import (
	"os/exec"
	"syscall"
)

// checkPrivate relies on the profile's own access rules.
func checkPrivate(string) error { return nil }

// detach makes a command's process outlive its parent and its console.
func detach(cmd *exec.Cmd) {
	const detachedProcess, newGroup = 0x8, 0x200
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: detachedProcess | newGroup}
}

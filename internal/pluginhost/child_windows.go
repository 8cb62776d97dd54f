package pluginhost

import (
	"os"
	"os/exec"
	"syscall"
)

// separate keeps the terminal's Ctrl-C from a command. When this process ends, the
// plugin sees the end of its standard input.
func separate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// awaitEnd leaves it to the command's own Wait.
func awaitEnd(int) bool { return false }

// killGroup kills the process alone: Windows has no groups of that kind.
func killGroup(p *os.Process) { _ = p.Kill() }

// alive can't be told cheaply here.
func alive(int) bool { return true }

//go:build unix && !linux

package pluginhost

import (
	"os/exec"
	"syscall"
)

// separate makes a command the leader of a group of its own, which the terminal's
// Ctrl-C doesn't reach. When this process ends, the plugin sees the end of its standard
// input.
func separate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// awaitEnd leaves it to the command's own Wait.
func awaitEnd(int) bool { return false }

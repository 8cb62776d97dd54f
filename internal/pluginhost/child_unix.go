//go:build unix

package pluginhost

import (
	"errors"
	"os"
	"syscall"
)

// killGroup kills a process and its group.
func killGroup(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL) // nobody left is what is wanted
	_ = p.Kill()
}

// alive reports whether a process of that number is there.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

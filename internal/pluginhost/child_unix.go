//go:build unix

package pluginhost

import (
	"errors"
	"os"
	"syscall"
)

// tree is a process group, whose number is the process's.
type tree struct{}

func hold(*os.Process) tree { return tree{} }

func (tree) release() {}

// kill kills the process and its group.
func (tree) kill(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL) // nobody left is what is wanted
	_ = p.Kill()
}

// alive reports whether a process of that number is there.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

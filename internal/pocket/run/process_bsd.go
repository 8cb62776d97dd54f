//go:build unix && !linux

package run

import (
	"os"
	"syscall"
)

// attributes puts the process into a group of its own.
func attributes(name string) (*syscall.SysProcAttr, error) {
	c, err := credential(name)
	return &syscall.SysProcAttr{Setpgid: true, Credential: c}, err
}

// holdThread does nothing: a process here doesn't depend on a thread.
func holdThread() (release func()) { return func() {} }

// reap waits for the process, then kills its group. There is no way to look
// without reaping here, so for a moment the number could become another's.
func (p *process) reap() *os.ProcessState {
	state, _ := p.cmd.Process.Wait() // a child of ours
	killGroup(p.cmd.Process)
	return state
}

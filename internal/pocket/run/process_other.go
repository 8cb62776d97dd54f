//go:build !unix

package run

import (
	"errors"
	"os"
	"syscall"
)

func attributes(name string) (*syscall.SysProcAttr, error) {
	if name != "" {
		return nil, errors.New("processes of another user can't be had on this system")
	}
	return nil, nil
}

func holdThread() (release func()) { return func() {} }

// reap waits for the process; there are no groups.
func (p *process) reap() *os.ProcessState {
	state, _ := p.cmd.Process.Wait() // a child of ours
	return state
}

// termGroup kills: there is no signal that asks.
func termGroup(p *os.Process) { _ = p.Kill() }

func killGroup(p *os.Process) { _ = p.Kill() }

func exitCode(s *os.ProcessState) int { return s.ExitCode() }

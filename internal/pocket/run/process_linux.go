package run

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes puts the process into a group of its own and has the kernel kill
// it when the thread that started it ends, with the server at the latest.
func attributes(name string) (*syscall.SysProcAttr, error) {
	c, err := credential(name)
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: c}, err
}

// holdThread keeps the goroutine on its thread until the function that it
// returns is called.
func holdThread() (release func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

// reap waits for the process, and kills its group while the dead process still
// holds the number, so that it can't have become another group's.
func (p *process) reap() *os.ProcessState {
	for unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	killGroup(p.cmd.Process)
	state, _ := p.cmd.Process.Wait() // a child of ours that has ended
	p.ended = true
	return state
}

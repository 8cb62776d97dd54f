package pluginhost

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// separate makes a command the leader of a group of its own, which the terminal's
// Ctrl-C doesn't reach, and has the kernel kill it when this process ends.
func separate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitEnd returns once a child has ended, and leaves it to be waited for: until then
// nobody else can have its number, nor its group's. It reports false where it can't.
func awaitEnd(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}

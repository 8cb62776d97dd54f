package local

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// reap waits for a supervisor that was started here, so that it leaves no
// zombie while this process lives. It holds nothing up: after Close a
// supervisor that ends stays a zombie until this process ends.
func (p *provider) reap(cmd *exec.Cmd) {
	pid := cmd.Process.Pid
	wait := func(uintptr) bool {
		for {
			got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			if !errors.Is(err, syscall.EINTR) {
				return got != 0
			}
		}
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		go func() { _ = cmd.Wait() }() // an old kernel: it ends with the supervisor
		return
	}
	f := os.NewFile(uintptr(fd), "supervisor")
	raw, err := f.SyscallConn()
	ok := err == nil && p.background(func(done <-chan struct{}) {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = raw.Read(wait)
		}()
		select {
		case <-ended:
		case <-done:
			_ = f.Close()
			<-ended
		}
		_ = f.Close()
		_ = cmd.Process.Release()
	})
	if !ok {
		_ = f.Close()
	}
}

func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

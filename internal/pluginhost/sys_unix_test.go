//go:build unix

package pluginhost_test

import (
	"os"
	"strconv"
	"syscall"
	"testing"
)

// stopSelf stops the process as Ctrl-Z does.
func stopSelf() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

// closeSockets closes every socket of this process.
func closeSockets() {
	for fd := 3; fd < 256; fd++ {
		var st syscall.Stat_t
		if syscall.Fstat(fd, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFSOCK {
			_ = syscall.Shutdown(fd, syscall.SHUT_RDWR)
		}
	}
}

// running reports whether a process is there that hasn't ended.
func running(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err == nil && syscall.Kill(n, 0) == nil
}

// stop stops a process as Ctrl-Z does.
func stop(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err == nil {
		err = syscall.Kill(n, syscall.SIGSTOP)
	}
	if err != nil {
		t.Fatal(err)
	}
}

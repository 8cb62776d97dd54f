//go:build failpoint && unix

package failpoint

import "syscall"

const stopSignal = syscall.SIGSTOP

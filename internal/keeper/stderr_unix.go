//go:build unix && !linux

package keeper

import (
	"os"
	"syscall"
)

func redirectStderr(f *os.File) { _ = syscall.Dup2(int(f.Fd()), 2) }

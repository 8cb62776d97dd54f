package keeper

import (
	"os"
	"syscall"
)

func redirectStderr(f *os.File) { _ = syscall.Dup3(int(f.Fd()), 2, 0) }

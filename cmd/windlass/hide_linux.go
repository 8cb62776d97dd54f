package main

import (
	"fmt"
	"syscall"
)

// hideMemory keeps this process's memory, which holds secrets, out of core
// files and from debuggers of the same user. What it starts is not concerned.
func hideMemory() error {
	const setDumpable = 4 // PR_SET_DUMPABLE of prctl(2)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setDumpable, 0, 0); errno != 0 {
		return fmt.Errorf("forbid core files: %w", errno)
	}
	return nil
}

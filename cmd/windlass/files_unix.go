//go:build unix

package main

import (
	"syscall"

	"github.com/windlass-run/windlass/sdk"
)

// fewestFiles is how many open files a command needs to get as far as telling what
// it lacks: below that ledger and log can't be written, and a run would wait for
// ever to record its end.
const fewestFiles = 20

// enoughFiles refuses to start what could not end. The runtime has raised the limit
// to what the system allows.
func enoughFiles() error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil || l.Cur >= fewestFiles {
		return nil // where it can't be read, whoever opens too many files learns it
	}
	e := sdk.Errorf(sdk.FailedPrecondition, "open state", "this process may have %d open files, and windlass needs %d at least", l.Cur, fewestFiles)
	e.Remedy = "raise the limit, with `ulimit -n 1024` in a shell"
	return e
}

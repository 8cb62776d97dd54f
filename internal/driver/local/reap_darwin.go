package local

import (
	"errors"
	"os/exec"
	"syscall"
)

// reap waits for a supervisor that was started here, in a goroutine that ends
// with the supervisor.
func (p *provider) reap(cmd *exec.Cmd) { go func() { _ = cmd.Wait() }() }

func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

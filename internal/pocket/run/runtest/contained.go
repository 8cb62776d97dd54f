// Package runtest has executors for the tests of drivers on pocket clouds.
package runtest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"

	"github.com/windlass-run/windlass/internal/pocket/run"
)

// Contained runs containers as processes, and ends with each container whatever
// came of it, as a container's namespace does: also what made a session of its
// own.
type Contained struct{ run.Executor }

const containerMark = "WINDLASS_TEST_CONTAINER="

// Start implements run.Executor.
func (c Contained) Start(ctx context.Context, s run.Spec) (run.Container, error) {
	mark := containerMark + s.Name
	s.Env = append(append([]string{}, s.Env...), mark)
	inner, err := c.Executor.Start(ctx, s)
	if err != nil {
		return nil, err
	}
	out := container{Container: inner, done: make(chan struct{})}
	go func() {
		<-inner.Done()
		killMarked(mark)
		close(out.done)
	}()
	return out, nil
}

type container struct {
	run.Container
	done chan struct{}
}

// Done is closed when nothing of the container is left.
func (c container) Done() <-chan struct{} { return c.done }

// OpenTerminal implements run.TerminalOpener.
func (c container) OpenTerminal(ctx context.Context, argv []string, size run.TerminalSize) (run.Terminal, error) {
	o, ok := c.Container.(run.TerminalOpener)
	if !ok {
		return nil, &run.StartError{Phase: run.Create, Text: "this executor runs no further commands"}
	}
	return o.OpenTerminal(ctx, argv, size)
}

// Usage implements run.Meter.
func (c container) Usage(ctx context.Context) (run.Usage, bool) {
	m, ok := c.Container.(run.Meter)
	if !ok {
		return run.Usage{}, false
	}
	return m.Usage(ctx)
}

func killMarked(mark string) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return
	}
	for _, d := range dirs {
		env, err := os.ReadFile(d + "/environ")
		if err != nil || !bytes.Contains(env, []byte("\x00"+mark+"\x00")) && !bytes.HasPrefix(env, []byte(mark+"\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil {
			continue
		}
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill() // it may have ended
		}
	}
}

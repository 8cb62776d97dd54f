package argo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/windlass-run/windlass/internal/pocket/run"
)

// emissary is Argo's executor around a container: it writes lines of its own behind
// the job's, and ends with 64 where it can't find the program.
// https://github.com/argoproj/argo-workflows/blob/v4.0.5/cmd/argoexec/commands/emissary.go
type emissary struct {
	run.Executor
	s *Server
}

// Start implements run.Executor. A container's name is its pod's, and so its
// Workflow's.
func (e emissary) Start(ctx context.Context, spec run.Spec) (run.Container, error) {
	k := &keeper{}
	out, errs := spec.Stdout, spec.Stderr
	spec.Stdout, spec.Stderr = io.MultiWriter(out, k), io.MultiWriter(errs, k)
	inner, err := e.Executor.Start(ctx, spec)
	c := &contained{inner: inner, done: make(chan struct{})}
	say := func(text string) { _, _ = io.WriteString(errs, text+"\n") } // a log takes all
	var no *run.StartError
	switch {
	case errors.As(err, &no) && no.Phase == run.Start:
		say(`Error: failed to find name in PATH: exec: ` + no.Text)
		c.exit = run.Exit{Code: 64}
		close(c.done)
		return c, nil
	case err != nil:
		return nil, err
	}
	go func() {
		<-inner.Done()
		c.exit = inner.Exit()
		how := "<nil>"
		if c.exit.Code != 0 {
			how = fmt.Sprintf(`"exit status %d"`, c.exit.Code)
		}
		say(`time=` + time.Now().UTC().Format(time.RFC3339Nano) + ` level=INFO msg="sub-process exited" argo=true error=` + how)
		if c.exit.Code != 0 {
			say(fmt.Sprintf("Error: exit status %d", c.exit.Code))
		}
		e.s.keep(spec.Name, k.all())
		close(c.done)
	}()
	return c, nil
}

// contained is a container within the executor.
type contained struct {
	inner run.Container
	done  chan struct{}
	exit  run.Exit
}

// Done implements run.Container.
func (c *contained) Done() <-chan struct{} { return c.done }

// Exit implements run.Container.
func (c *contained) Exit() run.Exit { return c.exit }

// Stop implements run.Container.
func (c *contained) Stop(grace time.Duration) {
	if c.inner != nil {
		c.inner.Stop(grace)
	}
}

// keeper keeps what a job writes, to be archived.
type keeper struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (k *keeper) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.b.Write(p)
}

func (k *keeper) all() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return bytes.Clone(k.b.Bytes())
}

func (s *Server) keep(name string, output []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[name] = output
}

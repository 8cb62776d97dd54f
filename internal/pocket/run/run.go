package run

import (
	"context"
	"io"
	"time"
)

// Spec is one container to run.
type Spec struct {
	// Name is unique among the executor's containers.
	Name string
	// Image is the reference that the job named. Processes have none: they run
	// what the machine has.
	Image string
	// Entrypoint and Command make the argument list. Nil leaves that part to
	// the image; a set Entrypoint also drops the image's command.
	Entrypoint, Command []string
	// Env is the whole environment, NAME=VALUE, beside what the image sets.
	Env []string
	// Dir is the working directory, empty for the image's.
	Dir string
	// User is USER, UID, USER:GROUP or UID:GID, empty for the image's.
	User string
	// MemoryMiB is the hard memory limit, 0 for none.
	MemoryMiB int64
	// Stdout and Stderr get the output. They are used from one goroutine each,
	// and no more once the container is done.
	Stdout, Stderr io.Writer
}

// Exit is how a container ended.
type Exit struct {
	// Code is what the platform reports: the process's own, or 128 and the
	// signal's number.
	Code int
	// OOM says that the kernel killed it for its memory limit.
	OOM bool
}

// Phase is the step in which a container failed to start.
type Phase int

// The phases of a start.
const (
	Pull Phase = iota + 1
	Create
	Start
)

// StartError says why a container doesn't run.
type StartError struct {
	Phase Phase
	// Text is the runtime's message.
	Text string
}

// Error gives the runtime's message.
func (e *StartError) Error() string { return e.Text }

// Executor runs containers. Its methods may be used at the same time.
type Executor interface {
	// Start starts a container and returns without waiting for its end. An
	// error is a *StartError. Context ends the start only.
	Start(ctx context.Context, spec Spec) (Container, error)
	// Close ends every container that still runs, and waits until all are
	// gone.
	Close() error
}

// Container is a container that was started.
type Container interface {
	// Done is closed once the container has ended and its output is written.
	Done() <-chan struct{}
	// Exit tells the end; call it when Done is closed.
	Exit() Exit
	// Stop sends TERM, and after the grace KILL. It returns at once; a second
	// call can only shorten the grace.
	Stop(grace time.Duration)
}

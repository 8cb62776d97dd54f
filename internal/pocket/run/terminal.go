package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"github.com/creack/pty"
	"github.com/moby/moby/client"
)

// Terminal is a further command at a terminal in a container.
type Terminal interface {
	// Read gives what the command wrote, and io.EOF once it has ended; Write gives
	// it keys.
	io.ReadWriter
	// Close hangs up, and ends what the command left. It may be called more than
	// once, and while others read and write.
	Close() error
}

// TerminalSize is in characters; zero is 80 by 24.
type TerminalSize struct{ Columns, Rows uint16 }

func (s TerminalSize) filled() TerminalSize {
	if s.Columns == 0 {
		s.Columns = 80
	}
	if s.Rows == 0 {
		s.Rows = 24
	}
	return s
}

// TerminalOpener is a container in which further commands can be run.
type TerminalOpener interface {
	// OpenTerminal starts a command with the container's environment. An error is
	// a *StartError where the command can't be run. The container's end ends it.
	OpenTerminal(ctx context.Context, argv []string, size TerminalSize) (Terminal, error)
}

// OpenTerminal implements TerminalOpener.
func (p *process) OpenTerminal(_ context.Context, argv []string, size TerminalSize) (Terminal, error) {
	if len(argv) == 0 {
		return nil, &StartError{Phase: Create, Text: "no command specified"}
	}
	file, err := find(argv[0], p.cmd.Dir, value(p.cmd.Env, "PATH"))
	if err != nil {
		return nil, &StartError{Phase: Start, Text: err.Error()}
	}
	cmd := &exec.Cmd{Path: file, Args: argv, Env: append(append([]string{}, p.cmd.Env...), "TERM=xterm"), Dir: p.cmd.Dir}
	size = size.filled()
	t := &processTerminal{cmd: cmd, closed: make(chan struct{})}
	if t.file, err = pty.StartWithSize(cmd, &pty.Winsize{Cols: size.Columns, Rows: size.Rows}); err != nil {
		return nil, &StartError{Phase: Start, Text: err.Error()}
	}
	t.all.Go(func() {
		select {
		case <-p.done:
			t.hangUp()
		case <-t.closed:
		}
	})
	return t, nil
}

// processTerminal is a command in a session of its own.
type processTerminal struct {
	cmd    *exec.Cmd
	file   *os.File
	closed chan struct{}
	once   sync.Once
	all    sync.WaitGroup
}

// Read implements io.Reader. A terminal whose other side is closed answers with
// an error of input and output on Linux.
func (t *processTerminal) Read(b []byte) (int, error) {
	n, err := t.file.Read(b)
	if err != nil && n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Write implements io.Writer.
func (t *processTerminal) Write(b []byte) (int, error) { return t.file.Write(b) }

// hangUp kills what is left of the session's group, and waits for its leader.
func (t *processTerminal) hangUp() {
	t.once.Do(func() {
		close(t.closed)
		killGroup(t.cmd.Process)
		_ = t.cmd.Wait()   // killed
		_ = t.file.Close() // nothing is to be kept
	})
}

// Close implements io.Closer.
func (t *processTerminal) Close() error {
	t.hangUp()
	t.all.Wait()
	return nil
}

// OpenTerminal implements TerminalOpener.
func (c *dockerContainer) OpenTerminal(ctx context.Context, argv []string, size TerminalSize) (Terminal, error) {
	size = size.filled()
	console := client.ConsoleSize{Height: uint(size.Rows), Width: uint(size.Columns)}
	made, err := c.api.ExecCreate(ctx, c.id, client.ExecCreateOptions{TTY: true, ConsoleSize: console, AttachStdin: true, AttachStdout: true, AttachStderr: true, Cmd: argv})
	if err != nil {
		return nil, &StartError{Phase: Create, Text: engineText(err)}
	}
	attached, err := c.api.ExecAttach(ctx, made.ID, client.ExecAttachOptions{TTY: true, ConsoleSize: console})
	if err != nil {
		return nil, &StartError{Phase: Start, Text: engineText(err)}
	}
	t := &dockerTerminal{attached.HijackedResponse}
	// An older engine doesn't hear of the size before.
	if _, err := c.api.ExecResize(ctx, made.ID, client.ExecResizeOptions{Height: console.Height, Width: console.Width}); err != nil {
		return nil, errors.Join(&StartError{Phase: Start, Text: engineText(err)}, t.Close())
	}
	return t, nil
}

// dockerTerminal is an exec of the engine's. What goes on in it ends with the
// container.
type dockerTerminal struct{ client.HijackedResponse }

// Read implements io.Reader.
func (t *dockerTerminal) Read(b []byte) (int, error) {
	n, err := t.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("read from the engine: %w", err)
	}
	return n, err
}

// Write implements io.Writer.
func (t *dockerTerminal) Write(b []byte) (int, error) { return t.Conn.Write(b) }

// Close implements io.Closer.
func (t *dockerTerminal) Close() error {
	t.HijackedResponse.Close()
	return nil
}

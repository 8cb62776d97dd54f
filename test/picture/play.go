package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
)

// endTime is what a program has to end after the terminal was closed.
const endTime = 10 * time.Second

// play runs the program on a terminal, takes the steps, and gives what stands there.
func play(ctx context.Context, o options) ([][]piece, error) {
	cmd := exec.Command(o.command[0], o.command[1:]...)
	cmd.Env = append(os.Environ(), "TERM="+termOf(os.Getenv("TERM")))
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: uint16(o.size.cols), Rows: uint16(o.size.rows)})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", o.command[0], err)
	}
	screen := vt.NewEmulator(o.size.cols, o.size.rows)
	screen.SetScrollbackSize(10_000)
	// What the program asks of its terminal is answered.
	go func() { _, _ = io.Copy(tty, screen) }()
	defer func() { _ = screen.Close() }()

	wrote := make(chan []byte)
	go func() {
		defer close(wrote)
		for {
			data := make([]byte, 32<<10)
			n, err := tty.Read(data)
			if n > 0 {
				wrote <- data[:n]
			}
			if err != nil {
				return // the program and its children have closed it
			}
		}
	}()
	err = take(ctx, o.steps, screen, tty, wrote)
	rows := rowsOf(screen)
	return rows, errors.Join(err, end(cmd, tty, wrote))
}

// termOf is the kind of the terminal: the caller's where it is set to something that
// says less.
func termOf(outer string) string {
	if outer == "dumb" {
		return outer
	}
	return "xterm-256color"
}

// take takes the steps. Where the last of them isn't a wait, it waits for the end.
func take(ctx context.Context, steps []step, screen *vt.Emulator, tty *os.File, wrote <-chan []byte) error {
	for _, s := range steps {
		switch {
		case s.resize.cols > 0:
			screen.Resize(s.resize.cols, s.resize.rows)
			if err := pty.Setsize(tty, &pty.Winsize{Cols: uint16(s.resize.cols), Rows: uint16(s.resize.rows)}); err != nil {
				return fmt.Errorf("resize: %w", err)
			}
		case s.typed != "":
			if _, err := io.WriteString(tty, s.typed); err != nil {
				return fmt.Errorf("type %q: %w", s.typed, err)
			}
		default:
			if err := feed(ctx, screen, wrote, func() bool { return strings.Contains(textOf(rowsOf(screen)), s.wait) }); err != nil {
				return fmt.Errorf("wait for %q: %w; on the screen is:\n%s", s.wait, err, textOf(rowsOf(screen)))
			}
		}
	}
	if len(steps) > 0 && steps[len(steps)-1].wait != "" {
		return nil
	}
	err := feed(ctx, screen, wrote, func() bool { return false })
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// feed passes on what the program writes until done, or io.EOF when it has ended.
func feed(ctx context.Context, screen *vt.Emulator, wrote <-chan []byte, done func() bool) error {
	for !done() {
		select {
		case data, ok := <-wrote:
			if !ok {
				return io.EOF
			}
			if _, err := screen.Write(data); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// end hangs up, and waits until the program has ended.
func end(cmd *exec.Cmd, tty *os.File, wrote <-chan []byte) error {
	_ = cmd.Process.Signal(syscall.SIGHUP)
	late := time.AfterFunc(endTime, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer late.Stop()
	for range wrote { // so that it blocks on no write
	}
	err := cmd.Wait()
	_ = tty.Close()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil // what it ended with is on the screen, if it matters
	}
	return err
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// TestFewOpenFiles: a run that fails for want of open files says so, and doesn't
// blame what was asked for, whichever part of it found none left.
func TestFewOpenFiles(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	blamed := 0
	for n := 20; n <= 25; n++ {
		ctx, stop := context.WithTimeout(t.Context(), soon)
		cmd := exec.CommandContext(ctx, "sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, n))
		cmd.Args = append(cmd.Args, p.command("run", "--", "true").Args...)
		cmd.Dir, cmd.Env = p.dir, p.env
		var errs bytes.Buffer
		cmd.Stderr = &errs
		err := cmd.Run()
		stop()
		text := errs.String()
		if strings.Contains(text, "invalid_spec") {
			t.Errorf("with %d files: %s", n, text)
		}
		if err != nil && strings.Contains(text, "infrastructure") {
			blamed++
		}
	}
	if blamed == 0 {
		t.Error("no limit led to infrastructure")
	}
}

// TestTooFewOpenFiles: with fewer than it needs a command ends at once, and names the
// limit; it neither hangs nor blames the state folder.
func TestTooFewOpenFiles(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	for n := 8; n < fewestFiles; n++ {
		ctx, stop := context.WithTimeout(t.Context(), soon)
		cmd := exec.CommandContext(ctx, "sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, n))
		cmd.Args = append(cmd.Args, p.command("run", "--", "true").Args...)
		cmd.Dir, cmd.Env = p.dir, p.env
		out, err := cmd.CombinedOutput()
		stop()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 125 || !strings.Contains(string(out), fmt.Sprintf("may have %d open files", n)) || !strings.Contains(string(out), "ulimit -n 1024") {
			t.Errorf("with %d files: %v: %s", n, err, out)
		}
	}
}

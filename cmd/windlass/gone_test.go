//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDeletedFolder: in a folder that was deleted, a local run needs -w, and then
// works.
func TestDeletedFolder(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	run := func(args ...string) (string, int) {
		t.Helper()
		gone := filepath.Join(p.dir, "gone")
		if err := os.Mkdir(gone, 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := p.command()
		// The shell takes its folder away before it becomes the program.
		sh := p.command(append([]string{"-c", `rmdir "$PWD"; exec "$0" "$@"`, cmd.Path}, args...)...)
		sh.Path, sh.Args[0] = "/bin/sh", "sh"
		sh.Dir = gone
		var out bytes.Buffer
		sh.Stdout, sh.Stderr = &out, &out
		_ = sh.Run()
		return out.String(), sh.ProcessState.ExitCode()
	}
	if out, code := run("run", "--", "pwd"); code != 125 || !strings.Contains(out, "the working folder is gone") || !strings.Contains(out, "-w") {
		t.Errorf("%d: %s", code, out)
	}
	if out, code := run("run", "-w", "/usr", "--", "pwd"); code != 0 || out != "/usr\n" {
		t.Errorf("-w: %d: %s", code, out)
	}
	if out, code := run("run", "-w", "below", "--", "pwd"); code != 125 {
		t.Errorf("-w with a relative folder: %d: %s", code, out)
	}
}

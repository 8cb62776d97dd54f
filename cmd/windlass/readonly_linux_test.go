package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/windlass-run/windlass/internal/testneed"
)

// lockState makes the state folder one that can't be written: for root by a
// read-only mount, for others by its mode.
func (p *program) lockState() {
	p.t.Helper()
	dir := p.stateDir()
	if os.Geteuid() != 0 {
		if err := os.Chmod(dir, 0o500); err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
		return
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		testneed.Missing(p.t, "the right to mount", err, "run the tests in a container with CAP_SYS_ADMIN")
	}
	p.t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		p.t.Fatal(err)
	}
}

// TestReadOnlyState: a state folder that can't be written, such as a backup that
// is mounted, can be read with every command that only reads. Nothing is started
// there though a run is open, and what would change something is refused before
// it does.
func TestReadOnlyState(t *testing.T) {
	t.Parallel()
	p := withKeeper(t)
	p.env = append(p.env, "WINDLASS_KEEPER=off")
	if out, code := p.do("run", "--name", "done", "--", "sh", "-c", "echo one; exit 3"); code != 3 || out != "one\n" {
		t.Fatalf("run: %d, %q", code, out)
	}
	hanging := p.command("run", "--on", "fake", "--image", "i", "--name", "left", "--", "hang")
	if err := hanging.Start(); err != nil {
		t.Fatal(err)
	}
	p.state("left", "running")
	if err := hanging.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = hanging.Wait()
	p.env = p.env[:len(p.env)-1]
	p.lockState()
	do := func(want int, args ...string) (out, errs string) {
		t.Helper()
		cmd := p.command(args...)
		var o, e bytes.Buffer
		cmd.Stdout, cmd.Stderr = &o, &e
		_ = cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != want {
			t.Errorf("windlass %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), code, want, &o, &e)
		}
		return o.String(), e.String()
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"ps", "-a"}, "done"},
		{[]string{"status", "done"}, "failed (exit 3)"},
		{[]string{"status", "left"}, "running"},
		{[]string{"status", "--json", "left"}, `"state": "running"`},
		{[]string{"logs", "done"}, "one\n"},
		{[]string{"ledger", "log"}, "tester@here"},
		{[]string{"ledger", "log", "--run", "done"}, "exit code 3"},
		{[]string{"ledger", "verify"}, "sound"},
		{[]string{"ledger", "export"}, `{"type":"end"`},
	} {
		out, errs := do(0, c.args...)
		if !strings.Contains(out, c.want) {
			t.Errorf("windlass %s: %q doesn't say %q", strings.Join(c.args, " "), out, c.want)
		}
		if !strings.Contains(errs, "can't be written") || strings.Count(errs, "\n") != 1 {
			t.Errorf("windlass %s: stderr %q", strings.Join(c.args, " "), errs)
		}
	}
	do(3, "wait", "done")
	do(125, "wait", "--timeout", "300ms", "left")
	for _, args := range [][]string{{"cancel", "left"}, {"rm", "done"}, {"rm", "--expired"}, {"abandon", "left", "--reason", "x"}, {"rerun", "done"},
		{"run", "--", "touch", "ran"}, {"ledger", "prune", "--before", "0s", "--yes"}} {
		if _, errs := do(125, args...); !strings.Contains(errs, "windlass explain ledger.readonly") {
			t.Errorf("windlass %s: %s", strings.Join(args, " "), errs)
		}
	}
	if _, err := os.Stat(filepath.Join(p.dir, "ran")); err == nil {
		t.Error("a job ran without a row")
	}
	if _, err := p.keeper(); err == nil {
		t.Error("a keeper was started")
	}
}

//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	pocket "github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/internal/testwait"
)

// onCloudRun is the program with a provider gcp-cloudrun on a pocket cloud.
func onCloudRun(t *testing.T, keeper string) (*program, *pocket.Server) {
	t.Helper()
	p := newProgram(t, keeper)
	cloud, err := pocket.New(pocket.Options{Record: true})
	if err != nil {
		t.Fatal(err)
	}
	address, err := cloud.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cloud.Close(); err != nil {
			t.Error(err)
		}
	})
	config := fmt.Sprintf(`providers:
  gcp-cloudrun:
    kind: gcp-cloudrun
    credentials: pocket
    poll_interval: 100ms
    config:
      project: %s
      region: %s
      endpoint: http://%s
      log_late: 100ms
      log_quiet: 500ms
      log_rate: 59
`, pocket.Project, pocket.Location, address)
	if err := os.WriteFile(filepath.Join(p.dir, "windlass.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if keeper != "off" {
		t.Cleanup(p.dismiss)
	}
	return p, cloud
}

// TestCloudRunRun runs a job through the real program: its output, its code, its
// record, and nothing left behind.
func TestCloudRunRun(t *testing.T) {
	t.Parallel()
	p, cloud := onCloudRun(t, "off")
	out, code := p.do("run", "--on", "gcp-cloudrun", "--image", "busybox:local", "-e", "WHO=world", "--", "sh", "-c", `echo "hello $WHO"; echo '$(x) {{y}}'; exit 7`)
	if code != 7 || out != "hello world\n$(x) {{y}}\n" {
		t.Errorf("exit %d, output %q", code, out)
	}
	if out, code := p.do("ps", "-a", "--json"); code != 0 || !strings.Contains(out, `"nonzero_exit"`) {
		t.Errorf("exit %d: %s", code, out)
	}
	for action, want := range map[string]int{"run:CreateJob": 1, "run:RunJob": 0, "run:DeleteJob": 1} {
		if n := cloud.Calls().Count(action); n != want {
			t.Errorf("%d calls of %s, want %d", n, action, want)
		}
	}
	if out, code := p.do("reap", "--dry-run", "--on", "gcp-cloudrun"); code != 0 || strings.Contains(out, "windlass-0") {
		t.Errorf("something is left (exit %d): %s", code, out)
	}
}

// TestCloudRunInterrupt: Ctrl-C cancels the execution, and the program waits for
// the proof.
func TestCloudRunInterrupt(t *testing.T) {
	t.Parallel()
	p, cloud := onCloudRun(t, "on")
	cmd := p.command("run", "--on", "gcp-cloudrun", "--image", "busybox:local", "--", "sh", "-c", `trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.1; done`)
	var out, errs lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, soon, "first output", func() bool { return strings.Contains(out.String(), "up\n") })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("exit %d (%v): %s", cmd.ProcessState.ExitCode(), err, errs.String())
	}
	if !strings.Contains(out.String(), "bye\n") {
		t.Errorf("the last words are missing: %q", out.String())
	}
	if n := cloud.Calls().Count("run:CancelExecution"); n != 1 {
		t.Errorf("%d calls of CancelExecution", n)
	}
	if o, _ := p.do("ps", "-a", "--json"); !strings.Contains(o, `"cancelled"`) {
		t.Errorf("not cancelled on record: %s", o)
	}
}

// TestCloudRunDetached: the keeper drives a run whose command has gone; other
// commands follow, wait and tell its code.
func TestCloudRunDetached(t *testing.T) {
	t.Parallel()
	p, cloud := onCloudRun(t, "on")
	out, code := p.do("run", "-d", "--on", "gcp-cloudrun", "--image", "busybox:local", "--", "sh", "-c", "echo begin; sleep 1; echo end; exit 4")
	id := strings.TrimSpace(out)
	if code != 0 || len(id) != 26 {
		t.Fatalf("exit %d, output %q", code, out)
	}
	if out, code := p.do("logs", "-f", id); code != 0 || out != "begin\nend\n" {
		t.Errorf("logs: exit %d, output %q", code, out)
	}
	if _, code := p.do("wait", id); code != 4 {
		t.Errorf("wait: exit %d", code)
	}
	testwait.Until(t, soon, "clean-up", func() bool { return cloud.Calls().Count("run:DeleteJob") == 1 })
}

//go:build linux

package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	"github.com/windlass-run/windlass/internal/testwait"
)

// onECS is the program with a provider aws-ecs on a pocket cloud.
func onECS(t *testing.T, keeper string) (*program, *pocket.Server) {
	t.Helper()
	p := newProgram(t, keeper)
	cloud, err := pocket.New(pocket.Options{Record: true})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(cloud)
	t.Cleanup(func() {
		web.Close()
		if err := cloud.Close(); err != nil {
			t.Error(err)
		}
	})
	config := fmt.Sprintf(`providers:
  aws-ecs:
    kind: aws-ecs
    credentials: pocket
    poll_interval: 100ms
    config:
      region: %s
      endpoint: %s
      subnets: [subnet-0123456789abcdef0]
      execution_role: arn:aws:iam::%s:role/execution
      log_quiet: 500ms
      describe_rate: 1000
      log_rate: 1000
`, pocket.Region, web.URL, pocket.Account)
	if err := os.WriteFile(filepath.Join(p.dir, "windlass.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if keeper != "off" {
		t.Cleanup(p.dismiss)
	}
	return p, cloud
}

// TestECSRun runs a job through the real program: its output, its code, its
// record, and nothing left behind.
func TestECSRun(t *testing.T) {
	t.Parallel()
	p, cloud := onECS(t, "off")
	out, code := p.do("run", "--on", "aws-ecs", "--image", "busybox:local", "-e", "WHO=world", "--", "sh", "-c", `echo "hello $WHO"; echo '$(x) {{y}}' >&2; exit 7`)
	if code != 7 || !strings.Contains(out, "hello world\n") || !strings.Contains(out, "$(x) {{y}}\n") {
		t.Errorf("exit %d, output %q", code, out)
	}
	if out, code := p.do("ps", "-a", "--json"); code != 0 || !strings.Contains(out, `"nonzero_exit"`) {
		t.Errorf("exit %d: %s", code, out)
	}
	for action, want := range map[string]int{"ecs:RunTask": 1, "ecs:RegisterTaskDefinition": 1, "ecs:DeregisterTaskDefinition": 1} {
		if n := cloud.Calls().Count(action); n != want {
			t.Errorf("%d calls of %s, want %d", n, action, want)
		}
	}
	if out, code := p.do("reap", "--dry-run", "--on", "aws-ecs"); code != 0 || strings.Contains(out, "task") {
		t.Errorf("something is left (exit %d): %s", code, out)
	}
}

// TestECSNoProgram: a program that the image doesn't have is 127, as with docker run.
func TestECSNoProgram(t *testing.T) {
	t.Parallel()
	p, _ := onECS(t, "off")
	if _, code := p.do("run", "--on", "aws-ecs", "--image", "busybox:local", "--", "no-such-program"); code != 127 {
		t.Errorf("exit %d", code)
	}
}

// TestECSInterrupt: Ctrl-C stops the task, and the program waits for the proof.
func TestECSInterrupt(t *testing.T) {
	t.Parallel()
	p, cloud := onECS(t, "on")
	cmd := p.command("run", "--on", "aws-ecs", "--image", "busybox:local", "--", "sh", "-c", `trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.1; done`)
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
	if n := cloud.Calls().Count("ecs:StopTask"); n != 1 {
		t.Errorf("%d calls of StopTask", n)
	}
	for _, c := range cloud.Calls().Calls("ecs:StopTask") {
		if !bytes.Contains(c.Request, []byte("windlass: ")) {
			t.Errorf("the stop doesn't say whose it is: %s", c.Request)
		}
	}
	if o, code := p.do("status", "--json"); code == 0 {
		t.Log(o)
	}
	if o, _ := p.do("ps", "-a", "--json"); !strings.Contains(o, `"cancelled"`) {
		t.Errorf("not cancelled on record: %s", o)
	}
}

// TestECSDetached: the keeper drives a run whose command has gone, with the
// credentials that it brought; other commands follow, wait and tell its code.
func TestECSDetached(t *testing.T) {
	t.Parallel()
	p, cloud := onECS(t, "on")
	out, code := p.do("run", "-d", "--on", "aws-ecs", "--image", "busybox:local", "--", "sh", "-c", "echo begin; sleep 1; echo end; exit 4")
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
	testwait.Until(t, soon, "clean-up", func() bool { return cloud.Calls().Count("ecs:DeregisterTaskDefinition") == 1 })
}

// TestECSFromElsewhere: a machine without the ledger's row tells the state, reads
// the output and stops the job, by what the task carries alone.
func TestECSFromElsewhere(t *testing.T) {
	t.Parallel()
	p, cloud := onECS(t, "on")
	out, code := p.do("run", "-d", "--on", "aws-ecs", "--image", "busybox:local", "--", "sh", "-c", "echo up; exec sleep 1000")
	id := strings.TrimSpace(out)
	if code != 0 {
		t.Fatalf("exit %d, output %q", code, out)
	}
	p.state(id, "running")
	other := newProgram(t, "off")
	config, err := os.ReadFile(filepath.Join(p.dir, "windlass.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other.dir, "windlass.yaml"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := other.do("status", "--on", "aws-ecs", id); code != 0 || !strings.Contains(out, "running") {
		t.Errorf("status: exit %d, %s", code, out)
	}
	testwait.Until(t, soon, "output", func() bool {
		out, _ := other.do("logs", "--on", "aws-ecs", id)
		return out == "up\n"
	})
	if out, code := other.do("cancel", "--on", "aws-ecs", id); code != 0 {
		t.Errorf("cancel: exit %d, %s", code, out)
	}
	if n := cloud.Calls().Count("ecs:StopTask"); n != 1 {
		t.Errorf("%d stops", n)
	}
	// The holder sees that somebody else ended it.
	p.state(id, "cancelled")
}

// TestECSFollowFromElsewhere: following a log from a machine without the
// ledger's row ends when the job and its output have.
func TestECSFollowFromElsewhere(t *testing.T) {
	t.Parallel()
	p, _ := onECS(t, "off")
	cmd := p.command("run", "--on", "aws-ecs", "--image", "busybox:local", "--json", "--", "sh", "-c", "echo begin; sleep 1; echo end; exit 4")
	var out lockedBuffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, soon, "first output", func() bool { return strings.Contains(out.String(), base64.StdEncoding.EncodeToString([]byte("begin"))) })
	_, rest, _ := strings.Cut(out.String(), `"run":"`)
	id := rest[:min(26, len(rest))]
	if got, code := p.do("logs", "-f", "--on", "aws-ecs", id); code != 0 || got != "begin\nend\n" {
		t.Errorf("logs of %q: exit %d, output %q", id, code, got)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 4 {
		t.Errorf("run: %v", err)
	}
}

// lockedBuffer is a buffer that may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

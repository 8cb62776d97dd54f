//go:build linux

package main

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	pocket "github.com/windlass-run/windlass/internal/pocket/aws"
	pocketbatch "github.com/windlass-run/windlass/internal/pocket/batch"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/testwait"
)

// onBatch is the program with a provider aws-batch on a pocket cloud.
func onBatch(t *testing.T, keeper string) (*program, *pocket.Server) {
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
  aws-batch:
    kind: aws-batch
    credentials: pocket
    poll_interval: 100ms
    config:
      region: %s
      endpoint: %s
      queue: %s
      execution_role: arn:aws:iam::%s:role/execution
      log_quiet: 500ms
      describe_rate: 1000
      log_rate: 1000
`, pocket.Region, web.URL, pocketbatch.DefaultQueue, pocket.Account)
	if err := os.WriteFile(filepath.Join(p.dir, "windlass.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if keeper != "off" {
		t.Cleanup(p.dismiss)
	}
	return p, cloud
}

// TestBatchRun runs a job through the real program: its output, its code, its
// record, and nothing left behind.
func TestBatchRun(t *testing.T) {
	t.Parallel()
	p, cloud := onBatch(t, "off")
	out, code := p.do("run", "--on", "aws-batch", "--image", "busybox:local", "-e", "WHO=world", "--", "sh", "-c", `echo "hello $WHO"; echo '$(x) {{y}}' >&2; exit 7`)
	if code != 7 || !strings.Contains(out, "hello world\n") || !strings.Contains(out, "$(x) {{y}}\n") {
		t.Errorf("exit %d, output %q", code, out)
	}
	if out, code := p.do("ps", "-a", "--json"); code != 0 || !strings.Contains(out, `"nonzero_exit"`) {
		t.Errorf("exit %d: %s", code, out)
	}
	for action, want := range map[string]int{"batch:SubmitJob": 1, "batch:RegisterJobDefinition": 1, "batch:DeregisterJobDefinition": 1} {
		if n := cloud.Calls().Count(action); n != want {
			t.Errorf("%d calls of %s, want %d", n, action, want)
		}
	}
	if out, code := p.do("reap", "--dry-run", "--on", "aws-batch"); code != 0 || strings.Contains(out, "job-definition") {
		t.Errorf("something is left (exit %d): %s", code, out)
	}
	refused := p.command("run", "--on", "aws-batch", "--image", "busybox:local", "--", "echo", "Ref::x")
	words, err := refused.CombinedOutput()
	if refused.ProcessState.ExitCode() != 125 || !strings.Contains(string(words), `args[1] "Ref::x"`) || cloud.Calls().Count("batch:SubmitJob") != 1 {
		t.Errorf("a reference to a parameter: %v, %s", err, words)
	}
}

// TestBatchLostReply: a submit whose reply is lost is found and followed; it ran
// once.
func TestBatchLostReply(t *testing.T) {
	t.Parallel()
	p, cloud := onBatch(t, "off")
	cloud.Faults().Add(fault.Rule{Action: "batch:SubmitJob", Count: 1, Effect: fault.Effect{Drop: true}})
	out, code := p.do("run", "--on", "aws-batch", "--image", "busybox:local", "--", "sh", "-c", "echo once; exit 3")
	if code != 3 || strings.Count(out, "once\n") != 1 {
		t.Errorf("exit %d, output %q", code, out)
	}
	if n := cloud.Calls().Count("batch:SubmitJob"); n != 1 {
		t.Errorf("%d submits", n)
	}
}

// TestBatchInterrupt: Ctrl-C terminates the job, and the program waits for the
// proof.
func TestBatchInterrupt(t *testing.T) {
	t.Parallel()
	p, cloud := onBatch(t, "on")
	cmd := p.command("run", "--on", "aws-batch", "--image", "busybox:local", "--", "sh", "-c", `trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.1; done`)
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
	if n := cloud.Calls().Count("batch:TerminateJob"); n != 1 {
		t.Errorf("%d calls of TerminateJob", n)
	}
	for _, c := range cloud.Calls().Calls("batch:TerminateJob") {
		if !bytes.Contains(c.Request, []byte("windlass: ")) {
			t.Errorf("the end doesn't say whose it is: %s", c.Request)
		}
	}
	if o, _ := p.do("ps", "-a", "--json"); !strings.Contains(o, `"cancelled"`) {
		t.Errorf("not cancelled on record: %s", o)
	}
}

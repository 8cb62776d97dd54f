//go:build linux

package main

import (
	"bytes"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/windlass-run/windlass/internal/testwait"
)

// canary is a secret's value.
const canary = "canary-of-the-cloud-25-ch"

// onEachCloud runs a test on every kind, side by side.
func onEachCloud(t *testing.T, test func(t *testing.T, k cloudKind)) {
	for _, k := range cloudKinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			test(t, k)
		})
	}
}

// TestCloudRun runs a job through the real program: its output, its code, its
// secret, its record, and nothing left behind.
func TestCloudRun(t *testing.T) {
	onEachCloud(t, func(t *testing.T, k cloudKind) {
		p, cloud := onCloud(t, k, "off")
		second, args, length := "", []string{"-e", "WHO=world"}, ""
		if k.oneStream {
			second = " >&2"
		}
		if k.keep != nil {
			args, length = append(args, "--secret", "TOKEN="+k.keep(t, p, cloud, canary)), " 25"
		}
		script := `echo "hello $WHO${TOKEN:+ ${#TOKEN}}"; sleep 0.1; echo '$(x) {{y}}'` + second + `; exit 7`
		out, code := p.do(k.run(append(args, "--", "sh", "-c", script)...)...)
		if want := "hello world" + length + "\n$(x) {{y}}\n"; code != 7 || out != want {
			t.Errorf("exit %d, output %q, want %q", code, out, want)
		}
		if out, code := p.do("ps", "-a", "--json"); code != 0 || !strings.Contains(out, `"nonzero_exit"`) {
			t.Errorf("exit %d: %s", code, out)
		}
		for action, want := range k.calls {
			if n := cloud.Calls().Count(action); n != want {
				t.Errorf("%d calls of %s, want %d", n, action, want)
			}
		}
		if out, code := p.do("reap", "--dry-run", "--on", k.name); code != 0 || strings.Contains(out, k.left) {
			t.Errorf("something is left (exit %d): %s", code, out)
		}
		if out, code := p.do("provider", "check", k.name); code != 0 || !strings.Contains(out, k.right) {
			t.Errorf("check: exit %d: %s", code, out)
		}
		for _, c := range cloud.Calls().Calls("") {
			if c.Action != k.carries && bytes.Contains(c.Request, []byte(canary)) || c.Action != k.reads && bytes.Contains(c.Reply, []byte(canary)) {
				t.Errorf("the secret is in a call of %s", c.Action)
			}
		}
	})
}

// TestCloudNoProgram: a command that the image doesn't have is 127, and one that
// can't be run 126, as with docker run, with the platform's words.
func TestCloudNoProgram(t *testing.T) {
	onEachCloud(t, func(t *testing.T, k cloudKind) {
		p, _ := onCloud(t, k, "off")
		for command, want := range map[string]int{"no-such-program": 127, "/etc/passwd": 126} {
			cmd := p.command(k.run("--", command)...)
			text, err := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != want || !strings.Contains(string(text), command) {
				t.Errorf("%s: exit %d, want %d (%v): %s", command, code, want, err, text)
			}
		}
	})
}

// TestCloudInterrupt: Ctrl-C ends the job, and the program waits for the proof.
func TestCloudInterrupt(t *testing.T) {
	onEachCloud(t, func(t *testing.T, k cloudKind) {
		p, cloud := onCloud(t, k, "on")
		cmd := p.command(k.run("--", "sh", "-c", `trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.1; done`)...)
		var out, errs lockedBuffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		testwait.Until(t, soon, "first output", func() bool { return strings.Contains(out.String(), "up\n") })
		// One that is still starting when the test ends couldn't be sent away.
		testwait.Until(t, soon, "keeper", func() bool { _, err := p.keeper(); return err == nil })
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
		// Where the keeper took the run over in that moment it asks once more: it
		// can't know whether the call that was cut off arrived.
		calls := cloud.Calls().Calls(k.cancels)
		if len(calls) < 1 || k.signs && len(calls) > 2 {
			t.Errorf("%d calls of %s", len(calls), k.cancels)
		}
		for _, c := range calls {
			if k.signs && !bytes.Contains(c.Request, []byte("windlass: ")) {
				t.Errorf("the call doesn't say whose it is: %s", c.Request)
			}
		}
		if o, _ := p.do("ps", "-a", "--json"); !strings.Contains(o, `"cancelled"`) {
			t.Errorf("not cancelled on record: %s", o)
		}
	})
}

// TestCloudDetached: the keeper drives a run whose command has gone, with the
// credentials that it brought; other commands follow, wait and tell its code.
func TestCloudDetached(t *testing.T) {
	onEachCloud(t, func(t *testing.T, k cloudKind) {
		p, cloud := onCloud(t, k, "on")
		out, code := p.do(k.run("-d", "--", "sh", "-c", "echo begin; sleep 1; echo end; exit 4")...)
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
		testwait.Until(t, soon, "clean-up", func() bool { return cloud.Calls().Count(k.cleans) == 1 })
	})
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

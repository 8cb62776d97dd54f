//go:build linux

package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	pocket "github.com/windlass-run/windlass/internal/pocket/digitalocean"
	"github.com/windlass-run/windlass/internal/testwait"
)

// onDigitalOcean is the program with a provider digitalocean on a pocket cloud.
// Exit codes come from the log.
func onDigitalOcean(t *testing.T, keeper string) (*program, *pocket.Server) {
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
  digitalocean:
    kind: digitalocean
    credentials: pocket
    poll_interval: 100ms
    config:
      endpoint: %s
      exit_code_in_log: true
      command_read_by: shell
`, web.URL)
	if err := os.WriteFile(filepath.Join(p.dir, "windlass.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if keeper != "off" {
		t.Cleanup(p.dismiss)
	}
	return p, cloud
}

// onDigitalOceanArgs begin the command of a job whose image has no entrypoint.
func onDigitalOceanArgs(more ...string) []string {
	return append([]string{"run", "--on", "digitalocean", "--image", "busybox:local", "--image-entrypoint", ""}, more...)
}

// TestDigitalOceanRun runs a job through the real program: its output, its code,
// its secret, its record, and nothing left behind.
func TestDigitalOceanRun(t *testing.T) {
	t.Parallel()
	const canary = "canary-of-the-environment"
	p, cloud := onDigitalOcean(t, "off")
	p.env = append(p.env, "THE_TOKEN="+canary)
	out, code := p.do(onDigitalOceanArgs("-e", "WHO=world", "--secret", "TOKEN=secret://env/THE_TOKEN", "--",
		"sh", "-c", `echo "hello $WHO ${#TOKEN}"; echo '$(x) {{y}}'; exit 7`)...)
	if code != 7 || out != "hello world 25\n$(x) {{y}}\n" {
		t.Errorf("exit %d, output %q", code, out)
	}
	if out, code := p.do("ps", "-a", "--json"); code != 0 || !strings.Contains(out, `"nonzero_exit"`) {
		t.Errorf("exit %d: %s", code, out)
	}
	for action, want := range map[string]int{"apps_create": 1, "apps_update": 0, "apps_create_deployment": 0, "apps_delete": 1} {
		if n := cloud.Calls().Count(action); n != want {
			t.Errorf("%d calls of %s, want %d", n, action, want)
		}
	}
	if out, code := p.do("reap", "--dry-run", "--on", "digitalocean"); code != 0 || strings.Contains(out, "wl-0") {
		t.Errorf("something is left (exit %d): %s", code, out)
	}
	for _, c := range cloud.Calls().Calls("") {
		text := string(c.Reply)
		if c.Action != "apps_create" {
			text += string(c.Request)
		}
		if strings.Contains(text, canary) {
			t.Errorf("the secret is in a call of %s", c.Action)
		}
	}
}

// TestDigitalOceanInterrupt: Ctrl-C cancels the deployment, and the program waits
// for the proof.
func TestDigitalOceanInterrupt(t *testing.T) {
	t.Parallel()
	p, cloud := onDigitalOcean(t, "on")
	cmd := p.command(onDigitalOceanArgs("--", "sh", "-c", `trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.1; done`)...)
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
	if n := cloud.Calls().Count("apps_cancel_deployment"); n < 1 {
		t.Errorf("%d calls of cancel", n)
	}
	if o, _ := p.do("ps", "-a", "--json"); !strings.Contains(o, `"cancelled"`) {
		t.Errorf("not cancelled on record: %s", o)
	}
}

// TestDigitalOceanDetached: the keeper drives a run whose command has gone; other
// commands follow, wait and tell its code.
func TestDigitalOceanDetached(t *testing.T) {
	t.Parallel()
	p, cloud := onDigitalOcean(t, "on")
	out, code := p.do(onDigitalOceanArgs("-d", "--", "sh", "-c", "echo begin; sleep 1; echo end; exit 4")...)
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
	testwait.Until(t, soon, "clean-up", func() bool { return cloud.Calls().Count("apps_delete") == 1 })
}

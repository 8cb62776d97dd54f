//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	pocket "github.com/windlass-run/windlass/internal/pocket/azure"
	"github.com/windlass-run/windlass/internal/testwait"
)

// onACI is the program with a provider azure-aci on a pocket cloud.
func onACI(t *testing.T, keeper string) (*program, *pocket.Server) {
	t.Helper()
	p := newProgram(t, keeper)
	state := t.TempDir()
	cloud, err := pocket.New(pocket.Options{Record: true, State: state})
	if err != nil {
		t.Fatal(err)
	}
	cloud.TuneKnobs(func(k *pocket.Knobs) { k.Pace = pocket.DefaultPace(); k.Pace.Grace = 3 * time.Second })
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
  azure-aci:
    kind: azure-aci
    credentials: pocket
    poll_interval: 100ms
    config:
      subscription: %s
      resource_group: %s
      location: %s
      endpoint: https://%s
      ca_file: %s
      log_poll: 100ms
      log_quiet: 500ms
`, pocket.SubscriptionID, pocket.ResourceGroup, pocket.Location, address, filepath.Join(state, pocket.CAFile))
	if err := os.WriteFile(filepath.Join(p.dir, "windlass.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if keeper != "off" {
		t.Cleanup(p.dismiss)
	}
	return p, cloud
}

// onACIArgs begin the command of a job whose image has no entrypoint.
func onACIArgs(more ...string) []string {
	return append([]string{"run", "--on", "azure-aci", "--image", "busybox:local", "--image-entrypoint", ""}, more...)
}

// TestACIRun runs a job through the real program: its output, its code, its
// secret, its record, and nothing left behind.
func TestACIRun(t *testing.T) {
	t.Parallel()
	p, cloud := onACI(t, "off")
	if _, err := cloud.PutSecret(pocket.Vault, "token", "canary-of-the-vault"); err != nil {
		t.Fatal(err)
	}
	out, code := p.do(onACIArgs("-e", "WHO=world", "--secret", "TOKEN=secret://azure-kv/"+pocket.Vault+"/token", "--",
		"sh", "-c", `echo "hello $WHO ${#TOKEN}"; echo '$(x) {{y}}'; exit 7`)...)
	if code != 7 || out != "hello world 19\n$(x) {{y}}\n" {
		t.Errorf("exit %d, output %q", code, out)
	}
	if out, code := p.do("ps", "-a", "--json"); code != 0 || !strings.Contains(out, `"nonzero_exit"`) {
		t.Errorf("exit %d: %s", code, out)
	}
	if out, code := p.do("provider", "check", "azure-aci"); code != 0 || !strings.Contains(out, "Microsoft.ContainerInstance/containerGroups/write") {
		t.Errorf("check: exit %d: %s", code, out)
	}
	for action, want := range map[string]int{"ContainerGroups_CreateOrUpdate": 1, "ContainerGroups_Stop": 0, "ContainerGroups_Delete": 1} {
		if n := cloud.Calls().Count(action); n != want {
			t.Errorf("%d calls of %s, want %d", n, action, want)
		}
	}
	if out, code := p.do("reap", "--dry-run", "--on", "azure-aci"); code != 0 || strings.Contains(out, "windlass-0") {
		t.Errorf("something is left (exit %d): %s", code, out)
	}
	for _, c := range cloud.Calls().Calls("") {
		if c.Action != "GetSecret" && c.Action != "ContainerGroups_CreateOrUpdate" && strings.Contains(string(c.Request)+string(c.Reply), "canary-of-the-vault") {
			t.Errorf("the secret is in a call of %s", c.Action)
		}
	}
}

// TestACIInterrupt: Ctrl-C stops the group, and the program waits for the proof.
func TestACIInterrupt(t *testing.T) {
	t.Parallel()
	p, cloud := onACI(t, "on")
	cmd := p.command(onACIArgs("--", "sh", "-c", `trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.1; done`)...)
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
	if n := cloud.Calls().Count("ContainerGroups_Stop"); n < 1 {
		t.Errorf("%d calls of Stop", n)
	}
	if o, _ := p.do("ps", "-a", "--json"); !strings.Contains(o, `"cancelled"`) {
		t.Errorf("not cancelled on record: %s", o)
	}
}

// TestACIDetached: the keeper drives a run whose command has gone; other commands
// follow, wait and tell its code.
func TestACIDetached(t *testing.T) {
	t.Parallel()
	p, cloud := onACI(t, "on")
	out, code := p.do(onACIArgs("-d", "--", "sh", "-c", "echo begin; sleep 1; echo end; exit 4")...)
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
	testwait.Until(t, soon, "clean-up", func() bool { return cloud.Calls().Count("ContainerGroups_Delete") == 1 })
}

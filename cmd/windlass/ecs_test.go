//go:build linux

package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/testwait"
)

// TestECSFromElsewhere: a machine without the ledger's row tells the state, reads
// the output and stops the job, by what the task carries alone.
func TestECSFromElsewhere(t *testing.T) {
	t.Parallel()
	p, cloud := onCloud(t, kindOf(t, "aws-ecs"), "on")
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
	p, _ := onCloud(t, kindOf(t, "aws-ecs"), "off")
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

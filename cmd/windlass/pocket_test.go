//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/windlass-run/windlass/internal/credential"
	"github.com/windlass-run/windlass/internal/driver/all"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// pocketKinds are the kinds of this program that a pocket cloud speaks for.
func pocketKinds() []string {
	var out []string
	for _, row := range credential.Table() {
		has := slices.ContainsFunc(all.Drivers(), func(d sdk.Driver) bool { return d.Kind == row.Kind })
		if has && row.Pocket != nil {
			out = append(out, row.Kind)
		}
	}
	return out
}

// pocketUp runs windlass pocket up, until the test's end, with a configuration
// in pocket.yaml.
func pocketUp(t *testing.T) *program {
	t.Helper()
	p := newProgram(t, "on")
	cmd := p.command("pocket", "up", "--write", "pocket.yaml")
	var errs lockedBuffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("pocket up: %v: %s", err, errs.String())
		}
	})
	// Before the clouds go: a keeper that has runs would go on looking for them.
	t.Cleanup(p.dismiss)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("pocket up says %q, %v: %s", line, err, errs.String())
	}
	p.env = append(p.env, "WINDLASS_CONFIG="+filepath.Join(p.dir, "pocket.yaml"))
	return p
}

// TestPocketUp lives with each kind of cloud by the real program alone: what a
// user does who has no account.
func TestPocketUp(t *testing.T) {
	p := pocketUp(t)
	kinds := pocketKinds()
	if len(kinds) < 3 {
		t.Fatalf("only %q have pocket clouds", kinds)
	}
	// A test of its own around those in parallel, so that the clouds outlive them.
	t.Run("kinds", func(t *testing.T) {
		for _, kind := range kinds {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				q := *p
				q.t = t
				q.livesOn(kind)
			})
		}
	})
}

// livesOn runs, follows, cancels and looks for what is left on a kind.
func (p *program) livesOn(kind string) {
	p.t.Helper()
	flags, code3 := []string{"--on", kind, "--image", "busybox"}, 3
	switch kind {
	case "azure-aci": // the registry can't be asked
		flags = append(flags, "--image-entrypoint", "")
	case "digitalocean": // which gives no codes, either
		flags, code3 = append(flags, "--image-entrypoint", ""), 125
	}
	if out, code := p.do("provider", "check", kind); code != 0 {
		p.t.Errorf("provider check: exit %d\n%s", code, out)
	}
	if out, code := p.do(job("run", flags, "echo hello; exit 3")...); code != code3 || out != "hello\n" {
		p.t.Errorf("run: exit %d, output %q", code, out)
	}
	out, code := p.do(job("run", append(flags, "-d"), "echo begin; sleep 1; echo end")...)
	id := strings.TrimSpace(out)
	if code != 0 || len(id) != 26 {
		p.t.Fatalf("run -d: exit %d, output %q", code, out)
	}
	if out, code := p.do("logs", "-f", id); code != 0 || out != "begin\nend\n" {
		p.t.Errorf("logs: exit %d, output %q", code, out)
	}
	out, code = p.do(job("run", append(flags, "-d", "--name", "long-"+kind), "trap 'exit 0' TERM; while :; do sleep 0.1; done")...)
	if code != 0 {
		p.t.Fatalf("run -d: exit %d, output %q", code, out)
	}
	p.state("long-"+kind, "running")
	if out, code := p.do("cancel", "long-"+kind); code != 0 || !strings.Contains(out, "cancelled") {
		p.t.Errorf("cancel: exit %d, output %q", code, out)
	}
	testwait.Until(p.t, soon, "end of clean-up", func() bool { return p.orphans(kind) == 0 })
}

// job is a command that runs a script.
func job(verb string, flags []string, script string) []string {
	return slices.Concat([]string{verb}, flags, []string{"--", "sh", "-c", script})
}

// orphans counts what the program has left, or still has, on a kind.
func (p *program) orphans(kind string) int {
	p.t.Helper()
	out, code := p.do("reap", "--dry-run", "--all", "--json", "--on", kind)
	var env struct{ Data []json.RawMessage }
	if err := json.Unmarshal([]byte(out), &env); err != nil || code != 0 {
		p.t.Fatalf("reap --dry-run: exit %d, %v: %s", code, err, out)
	}
	return len(env.Data)
}

// TestPocketDocument runs each command of docs/pocket.md, which shows every kind.
func TestPocketDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/pocket.md")
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for i, part := range strings.Split(string(text), "```") {
		if i%2 == 1 {
			for line := range strings.Lines(strings.TrimPrefix(part, "sh\n")) {
				commands = append(commands, strings.TrimSpace(line))
			}
		}
	}
	if len(commands) == 0 || commands[0] != "windlass pocket up --write pocket.yaml" {
		t.Fatalf("the document's commands are %q", commands)
	}
	for _, kind := range pocketKinds() {
		if !slices.ContainsFunc(commands, func(c string) bool { return strings.HasPrefix(c, "windlass run --config pocket.yaml --on "+kind+" ") }) {
			t.Errorf("the document doesn't show %s", kind)
		}
	}
	p := pocketUp(t)
	bin := filepath.Join(p.dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "windlass")); err != nil {
		t.Fatal(err)
	}
	for _, command := range commands[1:] {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir, cmd.Env = p.dir, append(slices.Clone(p.env), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
		if _, words, ok := strings.Cut(command, "-- echo "); ok && string(out) != words+"\n" {
			t.Errorf("%s gave %q", command, out)
		}
	}
}

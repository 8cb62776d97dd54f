//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/windlass-run/windlass/internal/credential"
	"github.com/windlass-run/windlass/internal/driver/all"
	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// pocketKinds are the kinds of this program that a pocket cloud speaks for.
func pocketKinds() []string {
	var out []string
	for _, row := range credential.Table() {
		has := slices.ContainsFunc(all.Drivers(), func(d sdk.Driver) bool { return d.Kind == row.Kind })
		if has && (row.Pocket != nil || row.File != "") {
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
	stop, err := p.clouds()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	// Before the clouds go: a keeper that has runs would go on looking for them.
	t.Cleanup(p.dismiss)
	return p
}

// clouds runs windlass pocket up until stop is called, with a configuration in
// pocket.yaml that the program then has.
func (p *program) clouds(flags ...string) (stop func(), err error) {
	p.t.Helper()
	cmd := p.command(append([]string{"pocket", "up", "--write", "pocket.yaml"}, flags...)...)
	var errs lockedBuffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		return nil, fmt.Errorf("pocket up says %q, %w, %w: %s", line, err, cmd.Wait(), errs.String())
	}
	if config := "WINDLASS_CONFIG=" + filepath.Join(p.dir, "pocket.yaml"); !slices.Contains(p.env, config) {
		p.env = append(p.env, config)
	}
	return func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			p.t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			p.t.Errorf("pocket up: %v: %s", err, errs.String())
		}
	}, nil
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
		t.Run("clusters", func(t *testing.T) {
			t.Parallel()
			q := *p
			q.t = t
			q.usesClusters()
		})
		t.Run("ECS on EC2", func(t *testing.T) {
			t.Parallel()
			q := *p
			q.t = t
			text, err := os.ReadFile(filepath.Join(p.dir, "pocket.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			// Each kind's config begins with its first setting, and that of ECS is the first.
			q.write("ec2.yaml", strings.Replace(string(text), "    config:\n", "    config:\n      launch_type: ec2\n", 1))
			if out, code := q.do("run", "--config", "ec2.yaml", "--on", "aws-ecs", "--image", "busybox", "--memory", "64m", "--", "echo", "on EC2"); code != 0 || out != "on EC2\n" {
				t.Errorf("exit %d, output %q", code, out)
			}
		})
	})
}

// livesOn runs, follows, cancels and looks for what is left on a kind.
func (p *program) livesOn(kind string) {
	p.t.Helper()
	flags, code3 := pocketFlags(kind), 3
	if kind == "digitalocean" { // which gives no codes
		code3 = 125
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
	leaves := "exit 0"
	if kind == "argo" { // for which that is a success, whoever asked for the end
		leaves = "exit 9"
	}
	out, code = p.do(job("run", append(flags, "-d", "--name", "long-"+kind), "trap '"+leaves+"' TERM; while :; do sleep 0.1; done")...)
	if code != 0 {
		p.t.Fatalf("run -d: exit %d, output %q", code, out)
	}
	p.state("long-"+kind, "running")
	if out, code := p.do("cancel", "long-"+kind); code != 0 || !strings.Contains(out, "cancelled") {
		p.t.Errorf("cancel: exit %d, output %q", code, out)
	}
	testwait.Until(p.t, soon, "end of clean-up", func() bool { return p.orphans(kind) == 0 })
}

// pocketFlags are those that a job on a kind needs.
func pocketFlags(kind string) []string {
	flags := []string{"--on", kind, "--image", "busybox"}
	if kind == "azure-aci" || kind == "digitalocean" || kind == "argo" { // the registry can't be asked
		flags = append(flags, "--image-entrypoint", "")
	}
	return flags
}

// TestPocketRestart: a keeper that lives on reaches clouds that were started anew,
// at the same place and without what the first ones had. What it keeps from before,
// certificates and tokens, isn't in the way.
func TestPocketRestart(t *testing.T) {
	p := newProgram(t, "on")
	var stop func()
	var err error
	port := ""
	// Below the ports that systems give away by themselves, so that nobody takes
	// one between the starts.
	for range 20 {
		port = strconv.Itoa(20000 + rand.IntN(1500)*8)
		if stop, err = p.clouds("--port", port); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop() })
	t.Cleanup(p.dismiss)
	if out, code := p.do("run", "-d", "--name", "holds", "--on", "local", "--", "sleep", "1000"); code != 0 {
		t.Fatalf("run -d: exit %d, output %q", code, out)
	}
	t.Cleanup(func() { p.do("cancel", "holds") })
	before := p.keeperHolds(1)
	p.runOnAll("first")
	stop()
	if stop, err = p.clouds("--port", port); err != nil {
		stop = func() {}
		t.Fatal(err)
	}
	p.runOnAll("second")
	if st, err := p.keeper(); err != nil || st.PID != before {
		t.Errorf("the keeper is %d, %v; it was %d", st.PID, err, before)
	}
}

// runOnAll has the keeper take a job on each kind to its end.
func (p *program) runOnAll(name string) {
	p.t.Helper()
	for _, kind := range pocketKinds() {
		flags := append(pocketFlags(kind), "-d", "--name", name+"-"+kind)
		if out, code := p.do(job("run", flags, "echo begin; sleep 0.3; echo end")...); code != 0 {
			p.t.Errorf("run -d on %s: exit %d, output %q", kind, code, out)
		}
	}
	for _, kind := range pocketKinds() {
		if out, code := p.do("wait", "--timeout", soon.String(), name+"-"+kind); code != 0 {
			p.t.Fatalf("wait for %s of %s: exit %d, output %q", name, kind, code, out)
		}
		if out, code := p.do("logs", "-f", name+"-"+kind); code != 0 || out != "begin\nend\n" {
			p.t.Errorf("logs of %s of %s: exit %d, output %q", name, kind, code, out)
		}
	}
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
	helpers := "" // functions of the shell, which later commands call
	for i, part := range strings.Split(string(text), "```") {
		if i%2 == 1 {
			for line := range strings.Lines(strings.TrimPrefix(part, "sh\n")) {
				if strings.Contains(line, "() {") {
					helpers += line
				} else {
					commands = append(commands, strings.TrimSpace(line))
				}
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
	for _, scheme := range []string{"aws-sm", "aws-ssm", "gcp-sm", "azure-kv", "k8s", "env"} {
		if !slices.ContainsFunc(commands, func(c string) bool { return strings.Contains(c, "secret://"+scheme+"/") }) {
			t.Errorf("the document doesn't show a secret of %s", scheme)
		}
	}
	testneed.Program(t, "curl")
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
		cmd := exec.CommandContext(t.Context(), "sh", "-c", helpers+command)
		cmd.Dir, cmd.Env = p.dir, append(slices.Clone(p.env), "PATH="+bin+":"+os.Getenv("PATH"))
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v\n%s%s", command, err, out, errs.String())
		}
		if _, words, ok := strings.Cut(command, "-- echo "); ok && string(out) != words+"\n" {
			t.Errorf("%s gave %q", command, out)
		}
	}
}

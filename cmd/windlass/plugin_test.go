//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/windlass-run/windlass/internal/pluginhost"
	"github.com/windlass-run/windlass/internal/testwait"
)

// withPlugin is the program with the plugin in its folder, and a provider of it.
func withPlugin(t *testing.T, keeper string) *program {
	t.Helper()
	p := newProgram(t, keeper)
	p.plugin(pretend)
	p.write("windlass.yaml", "providers: {stage: {kind: pretend, poll_interval: 50ms, config: {evidence: 1h}}}\n")
	if keeper != "off" {
		t.Cleanup(p.dismiss)
	}
	return p
}

// plugin puts this program under the name of a plugin into the folder of plugins.
func (p *program) plugin(name string) {
	t := p.t
	t.Helper()
	at := filepath.Join(p.dir, ".local", "share", "windlass", "plugins", name)
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Link(self, filepath.Join(at, name)); err != nil {
		data, err := os.ReadFile(self)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, name), data, 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	p.write(filepath.Join(".local", "share", "windlass", "plugins", name, "plugin.json"), fmt.Sprintf(`{"name": %q, "version": "1.2.3"}`, name))
}

// hosted waits for the n-th process of the plugin that the keeper has started.
func (p *program) hosted(n int) int {
	p.t.Helper()
	started := regexp.MustCompile(`msg="plugin started" plugin=pretend version=1.2.3 process=([0-9]+)`)
	pid := 0
	testwait.Until(p.t, soon, "process "+strconv.Itoa(n)+" of the plugin", func() bool {
		log, _ := os.ReadFile(filepath.Join(p.stateDir(), "keeper.log"))
		all := started.FindAllSubmatch(log, -1)
		if len(all) < n {
			return false
		}
		pid, _ = strconv.Atoi(string(all[n-1][1]))
		return true
	})
	return pid
}

func lives(pid int) bool { return syscall.Kill(pid, 0) == nil }

// TestPluginRun: a job on a provider of a plugin behaves as on any other, hosted by the
// keeper or by the command itself.
func TestPluginRun(t *testing.T) {
	for _, keeper := range []string{"off", "on"} {
		t.Run("keeper "+keeper, func(t *testing.T) {
			t.Parallel()
			p := withPlugin(t, keeper)
			out, code := p.do("run", "--on", "stage", "--image", "any", "--", "echo", "hello", ";", "exit", "7")
			if code != 7 || out != "hello\n" {
				t.Errorf("exit %d, output %q", code, out)
			}
			if out, code := p.do("ps", "-a", "--json"); code != 0 || !strings.Contains(out, `"nonzero_exit"`) || !strings.Contains(out, "stage") {
				t.Errorf("exit %d: %s", code, out)
			}
			if out, code := p.do("provider", "check", "stage"); code != 0 || !strings.Contains(out, "fake cloud") {
				t.Errorf("check: exit %d: %s", code, out)
			}
			if out, code := p.do("provider", "describe", "stage"); code != 0 || !strings.Contains(out, "JobCanceler") {
				t.Errorf("describe: exit %d: %s", code, out)
			}
			if _, code := p.do("run", "--on", "stage", "--image", "any", "--", "no-such-word"); code != 125 {
				t.Errorf("what it can't do: exit %d", code)
			}
			if keeper == "on" {
				// One process for all of that.
				if log, _ := os.ReadFile(filepath.Join(p.stateDir(), "keeper.log")); strings.Count(string(log), "plugin started") != 1 {
					t.Errorf("the keeper's log: %s", log)
				}
			}
		})
	}
}

// TestPluginInterrupt: Ctrl-C cancels, and the program waits for the proof.
func TestPluginInterrupt(t *testing.T) {
	t.Parallel()
	p := withPlugin(t, "on")
	cmd := p.command("run", "--on", "stage", "--image", "any", "--", "echo", "up", ";", "hang")
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
	if o, _ := p.do("ps", "-a", "--json"); !strings.Contains(o, `"cancelled"`) {
		t.Errorf("not cancelled on record: %s", o)
	}
}

// TestPluginKilledMidRun: the plugin's process is killed while a job goes on. It is
// started again, the run is taken up by its handle, and ends as it truly did.
func TestPluginKilledMidRun(t *testing.T) {
	t.Parallel()
	p := withPlugin(t, "on")
	out, code := p.do("run", "-d", "--on", "stage", "--image", "any", "--", "echo", "begin", ";", "sleep", "3s", ";", "echo", "end", ";", "exit", "4")
	id := strings.TrimSpace(out)
	if code != 0 || len(id) != 26 {
		t.Fatalf("exit %d, output %q", code, out)
	}
	p.state(id, "running")
	first := p.hosted(1)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, code := p.do("wait", id); code != 4 {
		t.Errorf("wait: exit %d", code)
	}
	if out, code := p.do("logs", "-f", id); code != 0 || out != "begin\nend\n" {
		t.Errorf("logs: exit %d, output %q", code, out)
	}
	if second := p.hosted(2); second == first {
		t.Errorf("process %d twice", first)
	}
}

// grow has other bytes in the plugin's program, as an upgrade does.
func (p *program) grow(name string) {
	p.t.Helper()
	at := filepath.Join(p.dir, ".local", "share", "windlass", "plugins", name, name)
	data, err := os.ReadFile(at)
	if err == nil {
		err = os.WriteFile(at+".new", append(data, "more"...), 0o700) //nolint:gosec // a program
	}
	if err == nil {
		err = os.Rename(at+".new", at)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// TestPluginMovesToItsUpgrade: after an upgrade the keeper goes on with the new program by
// itself: at the next use where it looks after no run, else when the last one has ended.
func TestPluginMovesToItsUpgrade(t *testing.T) {
	t.Parallel()
	p := withPlugin(t, "on")
	exits := func(code int) {
		t.Helper()
		out, got := p.do("run", "-d", "--on", "stage", "--image", "any", "--", "exit", strconv.Itoa(code))
		if got != 0 {
			t.Fatalf("exit %d: %s", got, out)
		}
		if _, got := p.do("wait", strings.TrimSpace(out)); got != code {
			t.Errorf("wait: exit %d, want %d", got, code)
		}
	}
	ends := func(pid int) {
		t.Helper()
		testwait.Until(t, soon, "end of the former process", func() bool { return !lives(pid) })
	}
	exits(3)
	p.keeperHolds(0)
	first := p.hosted(1)
	p.grow(pretend)
	exits(4)
	second := p.hosted(2)
	ends(first)

	out, code := p.do("run", "-d", "--on", "stage", "--image", "any", "--", "gate", ";", "exit", "5")
	id := strings.TrimSpace(out)
	if code != 0 {
		t.Fatalf("exit %d, output %q", code, out)
	}
	p.state(id, "running")
	p.grow(pretend)
	exits(6)
	third := p.hosted(3)
	if !lives(second) {
		t.Error("the process of a run that goes on has ended")
	}
	if _, code := p.do("cancel", id); code != 0 && code != 130 {
		t.Errorf("cancel: exit %d", code)
	}
	p.keeperHolds(0)
	exits(7)
	ends(second)
	if !lives(third) {
		t.Error("there is a fourth process")
	}
	st, err := p.keeper()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(filepath.Join(p.stateDir(), "keeper.log"))
	if err != nil || strings.Count(string(log), `msg="keeper started"`) != 1 {
		t.Errorf("another keeper, %d: %v %s", st.PID, err, log)
	}
}

// TestPluginGoesWithItsKeeper: a keeper that is killed takes its plugins with it, and
// leaves the run to the next one.
func TestPluginGoesWithItsKeeper(t *testing.T) {
	t.Parallel()
	p := withPlugin(t, "on")
	out, code := p.do("run", "-d", "--on", "stage", "--image", "any", "--", "sleep", "3s", ";", "exit", "6")
	id := strings.TrimSpace(out)
	if code != 0 {
		t.Fatalf("exit %d, output %q", code, out)
	}
	first := p.hosted(1)
	st, err := p.keeper()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(st.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, soon, "end of the plugin", func() bool { return !lives(first) })
	if _, code := p.do("wait", id); code != 6 {
		t.Errorf("wait: exit %d", code)
	}
	second := p.hosted(2)
	p.dismiss()
	testwait.Until(t, soon, "end of the plugin", func() bool { return !lives(second) })
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "wlplug"+strconv.Itoa(st.PID)+"-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
}

// TestPluginCommands installs the plugin from an index, lists it, checks it, and finds
// out when it was changed.
func TestPluginCommands(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sum, err := pluginhost.Sum(self)
	if err != nil {
		t.Fatal(err)
	}
	index := func(sum string) {
		p.write("index.json", fmt.Sprintf(`{"plugins": [{"name": "pretend", "version": "1.2.3",
			"programs": [{"os": %q, "arch": %q, "address": %q, "sha256": %q}]}]}`, runtime.GOOS, runtime.GOARCH, "file://"+self, sum))
	}
	at := filepath.Join(p.dir, ".local", "share", "windlass", "plugins")
	index(strings.Repeat("0", 64))
	if _, code := p.do("plugin", "install", "pretend@1.2.3", "--index", "index.json"); code != 125 && code != 1 {
		t.Errorf("another program: exit %d", code)
	}
	if left, _ := os.ReadDir(at); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	index(sum)
	if out, code := p.do("plugin", "install", "pretend@1.2.3", "--index", "index.json", "--json"); code != 0 || !strings.Contains(out, sum) || !strings.Contains(out, `"already": false`) {
		t.Errorf("install: exit %d: %s", code, out)
	}
	if out, code := p.do("plugin", "ls"); code != 0 || !strings.Contains(out, "pretend  1.2.3    verified") {
		t.Errorf("ls: exit %d: %s", code, out)
	}
	if out, code := p.do("plugin", "check"); code != 0 || !strings.Contains(out, "ok    pretend: driver: pretend") {
		t.Errorf("check: exit %d: %s", code, out)
	}
	p.write("windlass.yaml", "providers: {stage: {kind: pretend, config: {evidence: 1h}}}\n")
	if out, code := p.do("run", "--on", "stage", "--image", "any", "--", "exit", "5"); code != 5 {
		t.Errorf("run: exit %d: %s", code, out)
	}
	if err := os.Remove(filepath.Join(at, pretend, pretend)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at, pretend, pretend), []byte("#!/bin/sh\ntouch "+p.dir+"/evil\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	for _, args := range [][]string{{"plugin", "check"}, {"run", "--on", "stage", "--image", "any", "--", "exit", "5"}} {
		if out, code := p.do(args...); code != 1 && code != 125 {
			t.Errorf("%q of a program that was changed: exit %d: %s", args, code, out)
		}
	}
	if out, code := p.do("plugin", "ls", "--json"); code != 0 || !strings.Contains(out, `"state": "refused"`) || !strings.Contains(out, "not "+sum) {
		t.Errorf("ls: exit %d: %s", code, out)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "evil")); err == nil {
		t.Error("it was started")
	}
}

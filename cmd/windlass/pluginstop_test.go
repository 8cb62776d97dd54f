//go:build linux

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testwait"
)

// stopped is a plugin whose process is stopped, as kill -STOP does, while a command goes on.
type stopped struct {
	*program
	first int
}

// stop stops the keeper's first process of the plugin.
func (p *program) stop() stopped {
	p.t.Helper()
	pid := p.hosted(1)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return stopped{p, pid}
}

// replaced waits for the end of the process that was stopped, and looks at what is left: the
// next process, why the first was ended, and nothing else.
func (s stopped) replaced() {
	s.t.Helper()
	testwait.Until(s.t, soon, "end of the process that was stopped", func() bool { return !lives(s.first) })
	if s.hosted(2) == s.first {
		s.t.Error("the process that was stopped goes on")
	}
	log, err := os.ReadFile(filepath.Join(s.stateDir(), "keeper.log"))
	if err != nil || !strings.Contains(string(log), "answered nothing and was killed") {
		s.t.Errorf("the keeper's log, %v: %s", err, log)
	}
	st, err := s.keeper()
	if err != nil {
		s.t.Fatal(err)
	}
	s.dismiss()
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "wlplug"+strconv.Itoa(st.PID)+"-*"))
	if err != nil || len(left) > 0 {
		s.t.Errorf("left %q, %v", left, err)
	}
}

// started is a command in the background.
type started struct {
	*program
	out, errs lockedBuffer
	pid       int
	signal    func(syscall.Signal)
	wait      func() int
}

func (p *program) start(args ...string) *started {
	p.t.Helper()
	s := &started{program: p}
	cmd := p.command(args...)
	cmd.Stdout, cmd.Stderr = &s.out, &s.errs
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	s.pid = cmd.Process.Pid
	s.signal = func(sig syscall.Signal) {
		p.t.Helper()
		if err := cmd.Process.Signal(sig); err != nil {
			p.t.Fatal(err)
		}
	}
	s.wait = func() int {
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}
	return s
}

// says waits for words on standard error, within a time.
func (s *started) says(within time.Duration, words string) {
	s.t.Helper()
	testwait.Until(s.t, within, words, func() bool { return strings.Contains(s.errs.String(), words) })
}

// TestPluginStops stops the process of a plugin in each phase of its use. Whoever needs it
// has it ended and goes on with another, in a time that has a bound, with the code and
// the words that are right; and nothing is left.
func TestPluginStops(t *testing.T) {
	t.Run("before it is asked", func(t *testing.T) {
		t.Parallel()
		p := withPlugin(t, "on")
		if out, code := p.do("provider", "check", "stage"); code != 0 {
			t.Fatalf("check: exit %d: %s", code, out)
		}
		s := p.stop()
		if out, code := p.do("run", "--on", "stage", "--image", "any", "--", "echo", "hello", ";", "exit", "7"); code != 7 || out != "hello\n" {
			t.Errorf("exit %d, output %q", code, out)
		}
		s.replaced()
	})
	t.Run("in a run", func(t *testing.T) {
		t.Parallel()
		p := withPlugin(t, "on")
		c := p.start("run", "--on", "stage", "--image", "any", "--", "echo", "up", ";", "sleep", "3s", ";", "echo", "end", ";", "exit", "4")
		testwait.Until(t, soon, "first output", func() bool { return c.out.String() == "up\n" })
		s := p.stop()
		if code := c.wait(); code != 4 || c.out.String() != "up\nend\n" {
			t.Errorf("exit %d, output %q: %s", code, c.out.String(), c.errs.String())
		}
		s.replaced()
	})
	t.Run("Ctrl-C in a run", func(t *testing.T) {
		t.Parallel()
		p := withPlugin(t, "on")
		c := p.start("run", "--on", "stage", "--image", "any", "--", "echo", "up", ";", "hang")
		testwait.Until(t, soon, "first output", func() bool { return c.out.String() == "up\n" })
		s := p.stop()
		c.signal(syscall.SIGINT)
		if code := c.wait(); code != 130 {
			t.Errorf("exit %d: %s", code, c.errs.String())
		}
		if o, _ := p.do("ps", "-a", "--json"); !strings.Contains(o, `"cancelled"`) {
			t.Errorf("not cancelled on record: %s", o)
		}
		s.replaced()
	})
	for _, keeper := range []string{"on", "off"} {
		t.Run("Ctrl-C twice in a run, keeper "+keeper, func(t *testing.T) {
			t.Parallel()
			leavesAtOnce(t, keeper)
		})
	}
	t.Run("in logs", func(t *testing.T) {
		t.Parallel()
		p := withPlugin(t, "on")
		out, code := p.do("run", "-d", "--on", "stage", "--image", "any", "--", "echo", "begin", ";", "sleep", "2s", ";", "echo", "end", ";", "exit", "5")
		id := strings.TrimSpace(out)
		if code != 0 {
			t.Fatalf("exit %d, output %q", code, out)
		}
		c := p.start("logs", "-f", id)
		testwait.Until(t, soon, "first output", func() bool { return c.out.String() == "begin\n" })
		s := p.stop()
		if code := c.wait(); code != 0 || c.out.String() != "begin\nend\n" {
			t.Errorf("logs: exit %d, output %q: %s", code, c.out.String(), c.errs.String())
		}
		if _, code := p.do("wait", id); code != 5 {
			t.Errorf("wait: exit %d", code)
		}
		s.replaced()
	})
	t.Run("in a change of a resource", func(t *testing.T) {
		t.Parallel()
		p, c := applying(t)
		s := p.stop()
		if code := c.wait(); code != 125 {
			t.Errorf("exit %d: %s", code, c.errs.String())
		}
		for _, want := range []string{"fake.box box: stage hasn't answered yet", "its process has ended: it answered nothing and was killed", "to do: ", "windlass explain resource.unconfirmed"} {
			if !strings.Contains(c.errs.String(), want) {
				t.Errorf("not %q: %s", want, c.errs.String())
			}
		}
		p.settles()
		s.replaced()
	})
	t.Run("Ctrl-C in a change of a resource", func(t *testing.T) {
		t.Parallel()
		p, c := applying(t)
		s := p.stop()
		c.signal(syscall.SIGINT)
		c.says(soon, "Ctrl-C again leaves at once")
		<-time.After(300 * time.Millisecond) // closer together they are one wish
		began := time.Now()
		c.signal(syscall.SIGINT)
		if code := c.wait(); code != 130 || time.Since(began) > 5*time.Second {
			t.Errorf("exit %d after %s: %s", code, time.Since(began), c.errs.String())
		}
		p.settles()
		s.replaced()
	})
}

// leavesAtOnce leaves a run whose plugin answers nothing. The command ends without waiting
// for it, a process of its own ends with it, and what is on record is enough to go on from.
func leavesAtOnce(t *testing.T, keeper string) {
	p := withPlugin(t, keeper)
	c := p.start("run", "--on", "stage", "--image", "any", "--", "echo", "up", ";", "hang")
	testwait.Until(t, soon, "first output", func() bool { return c.out.String() == "up\n" })
	var pid int
	if keeper == "on" {
		pid = p.stop().first
	} else {
		pid = c.child()
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	}
	c.signal(syscall.SIGINT)
	c.says(soon, "once more leaves at once")
	<-time.After(300 * time.Millisecond) // closer together they are one wish
	c.signal(syscall.SIGINT)
	c.says(soon, "left run ")
	began := time.Now()
	if code := c.wait(); code != 130 || time.Since(began) > 3*time.Second {
		t.Errorf("exit %d, %s after it has left: %s", code, time.Since(began), c.errs.String())
	}
	if strings.Contains(c.errs.String(), "close:") {
		t.Errorf("it says what doesn't matter: %s", c.errs.String())
	}
	if keeper == "on" {
		if !lives(pid) {
			t.Error("the keeper's process has ended with the command")
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil { // so that nobody waits for the keeper's doubt
			t.Fatal(err)
		}
	}
	testwait.Until(t, soon, "end of the process that was stopped", func() bool { return !lives(pid) })
	id := regexp.MustCompile(`left run ([0-9a-z]+)`).FindStringSubmatch(c.errs.String())
	if out, code := p.do("wait", id[1]); code != 130 {
		t.Errorf("wait: exit %d: %s", code, out)
	}
}

// child waits for the command's one child.
func (s *started) child() (pid int) {
	s.t.Helper()
	testwait.Until(s.t, soon, "the command's child", func() bool {
		lists, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(s.pid), "task", "*", "children"))
		for _, list := range lists {
			if data, err := os.ReadFile(list); err == nil && pid == 0 {
				pid, _ = strconv.Atoi(strings.TrimSpace(string(data)))
			}
		}
		return pid != 0
	})
	return pid
}

// applying is a command in the middle of making a resource: its row is there, and the call
// isn't answered.
func applying(t *testing.T) (*program, *started) {
	t.Helper()
	p := withPlugin(t, "on")
	p.write("windlass.yaml", "providers: {stage: {kind: pretend, call_timeout: 20s, config: {evidence: 1h}}}\n")
	p.write("r.yaml", "resources:\n  - {name: box, type: fake.box, provider: stage, config: {label: x}}\n")
	if out, code := p.do("resource", "read", "-f", "r.yaml"); code != 1 {
		t.Fatalf("read: exit %d: %s", code, out)
	}
	if err := os.MkdirAll(filepath.Dir(p.block()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.block(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := p.start("resource", "apply", "-f", "r.yaml")
	testwait.Until(t, soon, "the row", func() bool {
		out, _ := p.do("ledger", "log")
		return strings.Contains(out, "resource.create")
	})
	return p, c
}

// block is the file with which the plugin makes no resource.
func (p *program) block() string {
	return filepath.Join(p.stateDir(), "driver", pretend, "cloud-fake", "block", "CreateResource")
}

// settles waits for the end of the change's row: its call was never carried out.
func (p *program) settles() {
	p.t.Helper()
	out, _ := p.do("ledger", "log", "--json")
	m := regexp.MustCompile(`"id": "([0-9a-z]{26})"`).FindStringSubmatch(out)
	if m == nil {
		p.t.Fatalf("no row: %s", out)
	}
	if _, code := p.do("wait", m[1]); code != 125 {
		p.t.Errorf("wait: exit %d", code)
	}
	if out, _ := p.do("status", m[1], "--json"); !strings.Contains(out, `"lost"`) || !strings.Contains(out, "it isn't there now") {
		p.t.Errorf("status: %s", out)
	}
	if err := os.Remove(p.block()); err != nil {
		p.t.Fatal(err)
	}
	if out, code := p.do("resource", "apply", "-f", "r.yaml"); code != 0 || !strings.Contains(out, "create") {
		p.t.Errorf("again: exit %d: %s", code, out)
	}
}

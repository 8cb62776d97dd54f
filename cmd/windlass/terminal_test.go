//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/windlass-run/windlass/internal/testwait"
)

const soon = time.Minute

// program is the program in a folder of its own.
type program struct {
	t   *testing.T
	dir string
	env []string
}

func newProgram(t *testing.T, keeper string) *program {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the whole program: left out by -short")
	}
	dir := t.TempDir()
	p := &program{t: t, dir: dir, env: []string{asProgram + "=1", "WINDLASS_STATE=" + filepath.Join(dir, "state"), "WINDLASS_KEEPER=" + keeper,
		"WINDLASS_ACTOR=tester@here", "HOME=" + dir, "PATH=" + os.Getenv("PATH"), "TERM=xterm", "GOCOVERDIR=" + dir, fastExit}}
	return p
}

func (p *program) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), os.Args[0], args...)
	cmd.Dir, cmd.Env = p.dir, p.env
	return cmd
}

// do runs the program to its end and returns stdout and the exit code.
func (p *program) do(args ...string) (string, int) {
	p.t.Helper()
	cmd := p.command(args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	code := 0
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		p.t.Fatal(err)
	}
	if errs.Len() > 0 {
		p.t.Logf("windlass %s: %s", strings.Join(args, " "), errs.String())
	}
	return string(out), code
}

// state waits until the run of a name has a state.
func (p *program) state(name, want string) {
	p.t.Helper()
	testwait.Until(p.t, soon, "run in state "+want, func() bool {
		out, _ := p.do("status", "--json", name)
		return strings.Contains(out, `"state": "`+want+`"`)
	})
}

// screen is what a terminal shows.
type screen struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *screen) read(r io.Reader, done chan<- struct{}) {
	defer close(done)
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		s.mu.Lock()
		s.b.Write(buf[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// terminal is the program on a terminal.
type terminal struct {
	screen
	tty  *os.File
	cmd  *exec.Cmd
	read chan struct{}
}

func (p *program) terminal(args ...string) *terminal {
	p.t.Helper()
	cmd := p.command(args...)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		p.t.Fatal(err)
	}
	t := &terminal{tty: pollable(p.t, tty), cmd: cmd, read: make(chan struct{})}
	go t.screen.read(t.tty, t.read)
	p.t.Cleanup(func() {
		_ = t.tty.Close()
		_ = t.cmd.Process.Kill()
	})
	return t
}

// pollable returns the file so that closing it ends a read that waits.
func pollable(t *testing.T, f *os.File) *os.File {
	t.Helper()
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "terminal")
}

// exit waits for the end and returns the exit code.
func (t *terminal) exit(tt *testing.T) int {
	tt.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = t.cmd.Wait()
	}()
	select {
	case <-done:
	case <-time.After(soon):
		tt.Fatalf("it doesn't end; the terminal shows:\n%s", t.String())
	}
	return t.cmd.ProcessState.ExitCode()
}

// unique makes a length of sleep that tells this test's job from others'.
func unique(seconds string) string { return fmt.Sprintf("%s.%d", seconds, os.Getpid()) }

// alive reports whether a process whose command line has a mark runs.
func alive(mark string) bool {
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range found {
		if b, err := os.ReadFile(path); err == nil && bytes.HasPrefix(b, []byte("sleep\x00"+mark)) {
			return true
		}
	}
	return false
}

// TestCtrlC presses Ctrl-C on a real terminal: the job is ended, proven gone, and
// recorded.
func TestCtrlC(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	mark := unique("86411")
	term := p.terminal("run", "--name", "long", "--", "sh", "-c", "echo begun; sleep "+mark)
	testwait.Until(t, soon, "output", func() bool { return strings.Contains(term.String(), "begun") })
	testwait.Until(t, soon, "job", func() bool { return alive(mark) })
	if _, err := term.tty.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	if code := term.exit(t); code != 130 {
		t.Errorf("exit %d, want 130; the terminal shows:\n%s", code, term.String())
	}
	for _, want := range []string{"windlass status|logs|cancel", "waiting for proof", "was cancelled"} {
		if !strings.Contains(term.String(), want) {
			t.Errorf("the terminal lacks %q:\n%s", want, term.String())
		}
	}
	if alive(mark) {
		t.Error("the job runs on")
	}
	p.state("long", "cancelled")
}

// TestCtrlCTwice leaves a job that ignores TERM, and says how to find it.
func TestCtrlCTwice(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	mark := unique("86412")
	term := p.terminal("run", "--name", "stubborn", "--grace", "1h", "--", "sh", "-c", "trap '' TERM; echo begun; sleep "+mark+"; sleep "+mark)
	testwait.Until(t, soon, "output", func() bool { return strings.Contains(term.String(), "begun") })
	if _, err := term.tty.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, soon, "line about the cancel", func() bool { return strings.Contains(term.String(), "waiting for proof") })
	<-time.After(300 * time.Millisecond) // closer together they are one wish
	if _, err := term.tty.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	if code := term.exit(t); code != 130 {
		t.Errorf("exit %d, want 130", code)
	}
	if !strings.Contains(term.String(), "windlass status ") {
		t.Errorf("the terminal doesn't say how to find the run:\n%s", term.String())
	}
	if strings.Contains(term.String(), "^Cwindlass") {
		t.Errorf("what is said stands behind what the terminal shows of the key:\n%s", term.String())
	}
	// It is found, and ended, by the next command.
	out, _ := p.do("ps")
	if !strings.Contains(out, "stubborn") {
		t.Errorf("ps: %s", out)
	}
	p.killAll(mark)
	p.do("wait", "stubborn")
	p.state("stubborn", "cancelled")
}

// killAll ends what a test's stubborn job left.
func (p *program) killAll(mark string) {
	p.t.Helper()
	testwait.Until(p.t, soon, "end of the stubborn job", func() bool {
		found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		any := false
		for _, path := range found {
			b, err := os.ReadFile(path)
			if err != nil || !bytes.Contains(b, []byte("sleep "+mark)) && !bytes.HasPrefix(b, []byte("sleep\x00"+mark)) {
				continue
			}
			if bytes.Contains(b, []byte("windlass")) || bytes.Contains(b, []byte("run\x00")) {
				continue
			}
			any = true
			if proc, err := os.FindProcess(pidOf(path)); err == nil {
				_ = proc.Kill()
			}
		}
		return !any
	})
}

func pidOf(path string) int {
	n := 0
	for _, c := range filepath.Base(filepath.Dir(path)) {
		n = 10*n + int(c-'0')
	}
	return n
}

// TestClosedTerminal hangs the terminal up: the job is cancelled.
func TestClosedTerminal(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	mark := unique("86413")
	term := p.terminal("run", "--name", "long", "--", "sh", "-c", "echo begun; sleep "+mark)
	testwait.Until(t, soon, "output", func() bool { return strings.Contains(term.String(), "begun") })
	if err := term.tty.Close(); err != nil {
		t.Fatal(err)
	}
	if code := term.exit(t); code != 130 {
		t.Errorf("exit %d, want 130", code)
	}
	p.state("long", "cancelled")
	if alive(mark) {
		t.Error("the job runs on")
	}
}

// TestTerm sends SIGTERM, as an init system or a CI runner does.
func TestTerm(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	cmd := p.command("run", "--name", "long", "--", "sleep", unique("86414"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.state("long", "running")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit %d, want 130", code)
	}
	p.state("long", "cancelled")
}

// TestQuit: Ctrl-\ leaves at once with a line that says how to find the run, and
// dumps no goroutines, unless GOTRACEBACK asks for that.
func TestQuit(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{false, true} {
		p := newProgram(t, "off")
		if asked {
			p.env = append(p.env, "GOTRACEBACK=all")
		}
		cmd := p.command("run", "--name", "long", "--", "sleep", unique("86415"))
		var errs bytes.Buffer
		cmd.Stderr = &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p.state("long", "running")
		if err := cmd.Process.Signal(syscall.SIGQUIT); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		text := errs.String()
		if dumped := strings.Contains(text, "goroutine "); dumped != asked {
			t.Errorf("GOTRACEBACK set is %v, dumped is %v: %s", asked, dumped, text)
		}
		if code := cmd.ProcessState.ExitCode(); !asked && (code != 131 || !strings.Contains(text, "windlass ps")) {
			t.Errorf("exit code %d: %s", code, text)
		}
		if _, code := p.do("cancel", "long"); code != 0 {
			t.Errorf("cancel: %d", code)
		}
	}
}

// TestIgnoredHangup starts the program as nohup does: a hang-up passes it by.
func TestIgnoredHangup(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `trap '' HUP; exec "$@"`, "sh", os.Args[0], "run", "--name", "long", "--", "sh", "-c", "sleep 3; exit 9")
	cmd.Dir, cmd.Env = p.dir, p.env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.state("long", "running")
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 9 {
		t.Errorf("exit %d, want the job's 9", code)
	}
}

// TestBrokenPipe closes the reader of stdout, as head does: the job goes on,
// and its exit code comes through.
func TestBrokenPipe(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := p.command("run", "--name", "talk", "--", "sh", "-c", "for i in 1 2 3 4 5 6; do echo line $i; sleep 0.2; done; exit 6")
	var errs screen
	er, ew, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, ew
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Close(), ew.Close()
	done := make(chan struct{})
	go errs.read(er, done)
	if _, err := r.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	<-done
	_ = er.Close()
	if code := cmd.ProcessState.ExitCode(); code != 6 {
		t.Errorf("exit %d, want the job's 6", code)
	}
	if n := strings.Count(errs.String(), "nobody reads the output"); n != 1 {
		t.Errorf("stderr says it %d times:\n%s", n, errs.String())
	}
	if out, _ := p.do("logs", "talk"); !strings.HasSuffix(out, "line 5\nline 6\n") {
		t.Errorf("logs: %q", out)
	}
}

// TestTerminalLooks checks colour and width on a terminal, and neither in a
// pipe.
func TestTerminalLooks(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "off")
	p.do("run", "--", "sh", "-c", "exit 3", strings.Repeat("long ", 60))
	show := func(args ...string) string {
		term := p.terminal(args...)
		term.exit(t)
		<-term.read
		return term.String()
	}
	out := show("ps", "-a")
	if !strings.Contains(out, "\x1b[31mfailed (exit 3)\x1b[0m") || !strings.Contains(out, "…") {
		t.Errorf("on a terminal: %q", out)
	}
	p.env = append(p.env, "NO_COLOR=1")
	out = show("ps", "-a")
	if strings.Contains(out, "\x1b") {
		t.Errorf("with NO_COLOR: %q", out)
	}
	for _, line := range strings.Split(out, "\r\n") {
		if n := len([]rune(line)); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if out, _ := p.do("ps", "-a"); strings.Contains(out, "\x1b") || strings.Contains(out, "…") {
		t.Errorf("in a pipe: %q", out)
	}
}

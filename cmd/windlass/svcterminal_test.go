//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/windlass-run/windlass/internal/testwait"
)

// liveProgram is the program with a live workload on the provider fake.
func liveProgram(t *testing.T, name string) *program {
	t.Helper()
	p := newProgram(t, "off")
	for file, text := range map[string]string{"windlass.yaml": fakeConfig, "api.yaml": "target: fake/main/" + name + "\nimage: img:1\nreplicas: 1\n"} {
		if err := os.WriteFile(filepath.Join(p.dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, code := p.do("svc", "start", "-f", "api.yaml", "--wait"); code != 0 {
		t.Fatalf("exit %d: %s", code, out)
	}
	return p
}

func modes(t *testing.T, tty *os.File) unix.Termios {
	t.Helper()
	var m *unix.Termios
	c, err := tty.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Control(func(fd uintptr) { m, err = unix.IoctlGetTermios(int(fd), unix.TCGETS) }); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return *m
}

// TestExecOnTerminal types at a command inside an instance: Ctrl-C is a key like any
// other, and however the session ends, the terminal is given back as it was.
func TestExecOnTerminal(t *testing.T) {
	p := liveProgram(t, "api")
	term := p.terminal("svc", "exec", "-t", "api", "--", "echo", "up", ";", "cat")
	testwait.Until(t, soon, "running command", func() bool { return strings.Contains(term.String(), "up") })
	if modes(t, term.tty).Lflag&(unix.ICANON|unix.ISIG|unix.ECHO) != 0 {
		t.Error("the terminal keeps keys to itself")
	}
	if _, err := term.tty.WriteString("a\x03b"); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, soon, "keys at the command", func() bool { return strings.Contains(term.String(), "a\x03b") })
	if err := term.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := term.exit(t); code == 0 {
		t.Error("a session that was left is no success")
	}
	if modes(t, term.tty).Lflag&(unix.ICANON|unix.ISIG|unix.ECHO) != unix.ICANON|unix.ISIG|unix.ECHO {
		t.Error("the terminal wasn't given back")
	}
}

// TestExecFollowsSize changes the size of the terminal.
func TestExecFollowsSize(t *testing.T) {
	p := liveProgram(t, "api")
	term := p.terminal("svc", "exec", "-t", "api", "--", "size")
	testwait.Until(t, soon, "first size", func() bool { return strings.Contains(term.String(), "80x24") })
	if err := pty.Setsize(term.tty, &pty.Winsize{Rows: 40, Cols: 132}); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, soon, "new size", func() bool { return strings.Contains(term.String(), "132x40") })
	_ = term.cmd.Process.Signal(syscall.SIGTERM)
	term.exit(t)
}

// TestTopOnTerminal shows the picture, renews it, and gives the screen back at Ctrl-C.
func TestTopOnTerminal(t *testing.T) {
	p := liveProgram(t, "api")
	term := p.terminal("svc", "top")
	testwait.Until(t, soon, "sample", func() bool { return strings.Contains(term.String(), "100m") })
	if err := pty.Setsize(term.tty, &pty.Winsize{Rows: 10, Cols: 60}); err != nil {
		t.Fatal(err)
	}
	before := strings.Count(term.String(), "\x1b[H")
	testwait.Until(t, soon, "another picture", func() bool { return strings.Count(term.String(), "\x1b[H") > before })
	if _, err := term.tty.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	if code := term.exit(t); code != 0 {
		t.Errorf("exit %d", code)
	}
	testwait.Until(t, soon, "screen given back", func() bool { return strings.Contains(term.String(), "\x1b[?25h\x1b[?1049l") })
}

package run

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testwait"
)

// TestTerminal runs a further command at a terminal, with the container's
// variables; the container's end is its end.
func TestTerminal(t *testing.T) {
	executors(t, func(t *testing.T, e Executor, image string) {
		c := start(t, e, Spec{Name: t.Name(), Image: image, Command: []string{"sh", "-c", `trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done`}, Env: []string{"WHO=you"}})
		testwait.Until(t, wait, "first line", func() bool { return c.out.String() == "up\n" })
		open := func(argv ...string) Terminal {
			t.Helper()
			term, err := c.Container.(TerminalOpener).OpenTerminal(t.Context(), argv, TerminalSize{Columns: 91, Rows: 17})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = term.Close() })
			return term
		}
		term := open("sh")
		if _, err := term.Write([]byte("stty size; echo \"he\"\"llo $WHO\"; exit 3\n")); err != nil {
			t.Fatal(err)
		}
		out, err := io.ReadAll(term)
		if err != nil || !bytes.Contains(out, []byte("17 91\r\n")) || !bytes.Contains(out, []byte("hello you\r\n")) {
			t.Errorf("%q, %v", out, err)
		}
		left := open("cat")
		c.Stop(wait)
		if _, err := io.ReadAll(left); err != nil {
			t.Error(err)
		}
		c.ends(t)
	})
}

// TestTerminalUnstarted tells of a command that can't be run.
func TestTerminalUnstarted(t *testing.T) {
	e := NewProcesses(nil)
	t.Cleanup(func() { closes(t, e) })
	c := start(t, e, Spec{Name: t.Name(), Command: []string{"sleep", "1000"}})
	for _, argv := range [][]string{{"no-such-program"}, {}} {
		_, err := c.Container.(TerminalOpener).OpenTerminal(t.Context(), argv, TerminalSize{})
		var failed *StartError
		if !errors.As(err, &failed) || strings.TrimSpace(failed.Text) == "" {
			t.Errorf("%q: %v", argv, err)
		}
	}
}

// TestUsage measures what works.
func TestUsage(t *testing.T) {
	executors(t, func(t *testing.T, e Executor, image string) {
		c := start(t, e, Spec{Name: t.Name(), Image: image, Command: []string{"sh", "-c", "while :; do :; done"}})
		testwait.Until(t, wait, "use of the processor", func() bool {
			u, ok := c.Container.(Meter).Usage(t.Context())
			return ok && u.CPU >= 20*time.Millisecond && u.Memory > 0
		})
		c.Stop(0)
		c.ends(t)
		if u, ok := c.Container.(Meter).Usage(t.Context()); ok {
			t.Errorf("what has ended uses %+v", u)
		}
	})
}

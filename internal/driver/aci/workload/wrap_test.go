package workload

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/testneed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestF91Wrap has a real shell run commands by the line that it is typed.
func TestF91Wrap(t *testing.T) {
	sh := testneed.Program(t, "sh")
	for _, k := range []struct {
		argv []string
		out  string
		code int
	}{
		{[]string{"printf", "%s,", "a b", "", "$(HOME)", `'"\`, "*", "ü", "!x", "\ttab"}, "a b,,$(HOME),'\"\\,*,ü,!x,\ttab,", 0},
		{[]string{"sh", "-c", "printf 'no newline'; exit 7"}, "no newline", 7},
		{[]string{"sh", "-c", "printf 'x\\n\\n'"}, "x\n\n", 0},
		{[]string{"cat"}, "", 0}, // its input is empty
		{[]string{"no-such-program-here"}, "", 127},
		{[]string{"sh", "-c", "kill -9 $$"}, "", 137},
	} {
		w, err := wrap(k.argv, "0123abcd", false)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(w.line, w.begin) || strings.Contains(w.line, w.end) || strings.ContainsAny(strings.TrimSuffix(w.line, "\n"), "\t\r\n!\x00") {
			t.Errorf("%q: the line has a mark, or keys that a shell's editor acts on: %q", k.argv, w.line)
		}
		cmd := exec.CommandContext(t.Context(), sh)
		cmd.Stdin = strings.NewReader(w.line)
		raw, _ := cmd.Output() // its code is the command's
		u := &unwrapper{w: w}
		if out := string(u.add(raw)); out != k.out || u.code == nil || *u.code != k.code {
			t.Errorf("%q: %q with code %v, want %q with %d", k.argv, out, u.code, k.out, k.code)
		}
	}
	if _, err := wrap([]string{"echo", strings.Repeat("x", lineMost)}, "0123abcd", false); err == nil {
		t.Error("a command is taken that no terminal's line holds")
	}
}

// FuzzUnwrap gives the same output and code however the session's bytes are cut, and
// none that isn't told.
func FuzzUnwrap(f *testing.F) {
	f.Add([]byte("hello\nworld"), uint8(3), true, true, uint8(2))
	f.Add([]byte("\r\n#n]"), uint8(0), false, true, uint8(1))
	f.Add([]byte("#n[\n\n#n"), uint8(255), true, false, uint8(7))
	f.Fuzz(func(t *testing.T, out []byte, code uint8, crlf, whole bool, step uint8) {
		w := wrapped{begin: "#n[", end: "#n]"}
		if bytes.Contains(out, []byte(w.end)) || bytes.ContainsRune(out, '\r') {
			return
		}
		end := "\n" + w.end
		text := "$ echo\n" + w.begin + "\n" + string(out) + "\n"
		if whole {
			text = strings.TrimSuffix(text, "\n") + end + itoa(int(code)) + "\n"
		}
		if crlf {
			text = strings.ReplaceAll(text, "\n", "\r\n")
		}
		u := &unwrapper{w: w}
		var got []byte
		for rest := []byte(text); len(rest) > 0; {
			n := min(len(rest), int(step)+1)
			got = append(got, u.add(rest[:n])...)
			rest = rest[n:]
		}
		got = append(got, u.rest()...)
		if want := string(out); whole && (string(got) != want || u.code == nil || *u.code != int(code)) {
			t.Errorf("%q became %q with code %v", text, got, u.code)
		}
		if !whole && (u.code != nil || string(got) != string(out)+"\n") {
			t.Errorf("%q, which broke off, became %q with code %v", text, got, u.code)
		}
	})
}

func itoa(n int) string {
	b := []byte{}
	for {
		b = append([]byte{byte('0' + n%10)}, b...)
		if n /= 10; n == 0 {
			return string(b)
		}
	}
}

// TestNewlines takes the terminal's part out however the pieces are cut.
func TestNewlines(t *testing.T) {
	const text = "a\r\nb\rc\r\r\n\r\n\r"
	for step := 1; step <= len(text); step++ {
		n := &newlines{}
		var got []byte
		for rest := text; rest != ""; {
			k := min(step, len(rest))
			got = append(got, n.add([]byte(rest[:k]))...)
			rest = rest[k:]
		}
		if got = append(got, n.rest()...); string(got) != "a\nb\rc\r\n\n\r" {
			t.Errorf("in pieces of %d: %q", step, got)
		}
	}
}

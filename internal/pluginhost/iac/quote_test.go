//go:build linux

package iac

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/windlass-run/windlass/sdk/providertest"
)

// shells are those of this machine that a backend may have.
func shells(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for name, argv := range map[string][]string{"sh": {"sh"}, "dash": {"dash"}, "bash": {"bash", "--posix"}, "busybox": {"busybox", "sh"}} {
		if path, err := exec.LookPath(argv[0]); err == nil {
			out[name] = append([]string{path}, argv[1:]...)
		}
	}
	if len(out) == 0 {
		t.Fatal("this machine has no shell")
	}
	return out
}

// read returns the arguments that a program gets when a shell reads the command line of
// printf. The program is a small one, which shows each with a NUL behind it.
func read(t interface{ Fatalf(string, ...any) }, shell []string, line string) []string {
	cmd := exec.CommandContext(context.Background(), shell[0], append(shell[1:len(shell):len(shell)], "-c", line)...)
	cmd.Env = []string{}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s reads %q: %v", shell, line, err)
	}
	all := strings.Split(string(out), "\x00")
	if n := len(all) - 2; n >= 0 && all[n] == last && all[n+1] == "" {
		return all[:n]
	}
	t.Fatalf("%s showed %q of %q", shell, out, line)
	return nil
}

// last stands behind the arguments: without any, printf would show an empty one.
const last = "and no more"

// TestShellReadsBack: real shells read back exactly what was quoted.
func TestShellReadsBack(t *testing.T) {
	t.Parallel() // it waits for processes
	printf, err := exec.LookPath("printf")
	if err != nil {
		t.Fatal(err)
	}
	part := rapid.OneOf(rapid.SampledFrom(providertest.ArgvCorpus()), rapid.StringOf(rapid.RuneFrom([]rune(`'"\$({:&;|<>*?[]~!#=-`+"`\n\t\r ab\u0080\u0081é家🚀"))), rapid.String())
	for name, shell := range shells(t) {
		t.Run(name, func(t *testing.T) {
			check := func(t interface{ Fatalf(string, ...any) }, args []string) {
				line := commandLine(append(append([]string{printf, `%s\0`}, args...), last))
				if len(line) > maxCommand {
					return
				}
				got := read(t, shell, line)
				if len(got) != len(args) {
					t.Fatalf("%d arguments came of %d: %q", len(got), len(args), line)
				}
				for i := range args {
					if got[i] != args[i] {
						t.Fatalf("%q was read as %q", args[i], got[i])
					}
				}
			}
			check(t, providertest.ArgvCorpus())
			rapid.Check(t, func(t *rapid.T) {
				args := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
					return strings.ReplaceAll(strings.Join(rapid.SliceOfN(part, 0, 3).Draw(t, "parts"), ""), "\x00", "")
				}), 0, 8).Draw(t, "args")
				check(t, args)
			})
		})
	}
}

// FuzzQuote: a word keeps its bytes when the quotes are taken away again, and no backend
// finds a place for something of its own.
func FuzzQuote(f *testing.F) {
	for _, a := range append(providertest.ArgvCorpus(), "$$$$(x)", "{{{{", ":::::", "'$'('") {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		if !utf8.ValidString(arg) || strings.Contains(arg, "\x00") {
			t.Skip()
		}
		q := quote(arg)
		for _, mark := range []string{"$(", "${", "$$", "{{", "::"} {
			if strings.Contains(q, mark) {
				t.Errorf("%q keeps %s: %q", arg, mark, q)
			}
		}
		if got := unquote(t, q); got != arg {
			t.Errorf("%q is %q, which reads as %q", arg, q, got)
		}
	})
}

// unquote reads single quotes and \' as a shell does, and nothing else.
func unquote(t *testing.T, q string) string {
	var b strings.Builder
	for q != "" {
		switch {
		case strings.HasPrefix(q, `\'`):
			b.WriteByte('\'')
			q = q[2:]
		case q[0] == '\'':
			in, rest, ok := strings.Cut(q[1:], "'")
			if !ok {
				t.Fatalf("an open quote in %q", q)
			}
			b.WriteString(in)
			q = rest
		default:
			t.Fatalf("a bare %q", q)
		}
	}
	return b.String()
}

// TestNotBuiltIn: what a shell has built in is the program all the same, and signals reach
// it: it has the shell's process. (A busybox may prefer its own programs to those of PATH.)
func TestNotBuiltIn(t *testing.T) {
	dir := t.TempDir()
	commands := [][]string{{"echo", `a\nb`}, {"exit", "7"}, {"test", "-z"}, {"cd", "/"}, {"if"}, {"A=b"}}
	for _, argv := range append(commands, []string{"-x"}) {
		if err := os.WriteFile(filepath.Join(dir, argv[0]), []byte("#!/bin/sh\nprintf '%s|' program $$ \"$@\"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, shell := range shells(t) {
		if name == "busybox" {
			continue
		}
		run := func(argv []string) (pid, shown string) {
			cmd := exec.CommandContext(t.Context(), shell[0], append(shell[1:len(shell):len(shell)], "-c", "printf '%s\\n' $$; "+commandLine(argv))...)
			cmd.Env = []string{"PATH=" + dir + ":/bin:/usr/bin"}
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("%s: %q: %v", name, argv, err)
			}
			pid, shown, _ = strings.Cut(string(out), "\n")
			return pid, shown
		}
		for _, argv := range commands {
			pid, shown := run(argv)
			if want := strings.Join(append([]string{"program", pid}, argv[1:]...), "|") + "|"; shown != want {
				t.Errorf("%s: %q gave %q, want %q", name, argv, shown, want)
			}
		}
		if _, shown := run([]string{"-x", "a"}); !strings.HasPrefix(shown, "program|") || !strings.HasSuffix(shown, "|a|") {
			t.Errorf("%s: a name with a dash gave %q", name, shown)
		}
	}
}

// TestVariables: a variable that isn't refused reaches the program through every shell,
// and each that is refused is lost or changed by one of them, or changes what it does.
func TestVariables(t *testing.T) {
	const value = "canary"
	env, err := exec.LookPath("env")
	if err != nil {
		t.Fatal(err)
	}
	keeps := func(name string) bool {
		for _, shell := range shells(t) {
			cmd := exec.CommandContext(t.Context(), shell[0], append(shell[1:len(shell):len(shell)], "-c", commandLine([]string{env}))...)
			cmd.Env = []string{name + "=" + value}
			out, err := cmd.Output()
			if err != nil || !strings.Contains("\n"+string(out), "\n"+name+"="+value+"\n") {
				return false
			}
		}
		return true
	}
	for _, name := range []string{"A", "a_1", "HOME", "PATH", "TERM", "LANG", "ENV", "MAIL", "SHELL", "HOSTNAME", "OPTARG", "CDPATH", "POSIXLY_CORRECT", "_A", "__"} {
		if why := variable(name); why != "" || !keeps(name) {
			t.Errorf("%s is refused (%q) or lost (kept %t)", name, why, keeps(name))
		}
	}
	for _, name := range []string{"A-B", "a.b", "1A", "A B", "é", "IFS", "PWD", "OPTIND", "PPID", "SHLVL", "PS4", "SHELLOPTS", "RANDOM", "BASHOPTS", "BASHPID"} {
		if variable(name) == "" {
			t.Errorf("%s isn't refused", name)
		}
	}
}

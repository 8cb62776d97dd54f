package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/testneed"
)

// TestBashCompletes sources the script into a bash without the package
// bash-completion, and asks it as the Tab key does.
func TestBashCompletes(t *testing.T) {
	t.Parallel()
	bash := testneed.Program(t, "bash")
	p := newProgram(t, "off")
	bin := filepath.Join(p.dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(os.Args[0], filepath.Join(bin, "windlass")); err != nil {
		t.Fatal(err)
	}
	p.env = append(slices.DeleteFunc(p.env, func(v string) bool { return strings.HasPrefix(v, "PATH=") }), "PATH="+bin+":"+os.Getenv("PATH"))
	const script = `source <(windlass completion bash)
compopt() { :; } # it works only inside of a real completion
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9 COMP_KEY=9
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
__start_windlass
printf '%s\n' "${COMPREPLY[@]}"`
	for _, c := range []struct {
		line  string
		words []string // as bash splits them
		want  string
	}{
		{"windlass stat", []string{"windlass", "stat"}, "status"},
		{"windlass ledger ver", []string{"windlass", "ledger", "ver"}, "verify"},
		{"windlass run --on loc", []string{"windlass", "run", "--on", "loc"}, "local"},
		{"windlass run --on=loc", []string{"windlass", "run", "--on", "=", "loc"}, "local"},
		{"windlass run --on=", []string{"windlass", "run", "--on", "="}, "local"},
		{"windlass run -e A=b:c --on loc", []string{"windlass", "run", "-e", "A", "=", "b", ":", "c", "--on", "loc"}, "local"},
		{"windlass run --prof", []string{"windlass", "run", "--prof"}, "--profile"},
		{"windlass completion ", []string{"windlass", "completion", ""}, "fish"},
	} {
		cmd := p.command()
		cmd.Path, cmd.Args = bash, append([]string{"bash", "--norc", "--noprofile", "-c", script, "bash", c.line}, c.words...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil || errs.Len() > 0 {
			t.Errorf("%s: %v %s", c.line, err, &errs)
		}
		if !slices.ContainsFunc(strings.Split(out.String(), "\n"), func(l string) bool { return strings.Fields(l + " x")[0] == c.want }) {
			t.Errorf("%q completes to %q, want %s", c.line, out.String(), c.want)
		}
	}
}

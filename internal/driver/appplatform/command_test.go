package appplatform

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/digitalocean"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// words splits as the plainest splitter of commands does.
func words(line string) (out []string) {
	var word strings.Builder
	open, begun := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'':
			open, begun = !open, true
		case open:
			word.WriteByte(c)
		case c == '\\':
			i++
			word.WriteByte(line[i])
		case c == ' ':
			out = append(out, word.String())
			word.Reset()
			begun = false
		default:
			word.WriteByte(c)
		}
	}
	if begun || word.Len() > 0 {
		out = append(out, word.String())
	}
	return out
}

// FuzzQuote: a command is the same list again for a splitter, and has nothing for
// the platform to put in.
func FuzzQuote(f *testing.F) {
	for _, a := range providertest.ArgvCorpus() {
		f.Add(a, "x")
	}
	f.Add("${A}${", "'$'{")
	f.Fuzz(func(t *testing.T, a, b string) {
		if strings.Contains(a+b, "\x00") {
			return
		}
		line := quoteAll([]string{a, b})
		if got := words(line); !slices.Equal(got, []string{a, b}) {
			t.Errorf("%q, %q became %q", a, b, got)
		}
		if strings.Contains(line, "${") {
			t.Errorf("%q can be bound", line)
		}
	})
}

// TestQuoteForAShell: and so it is for a shell.
func TestQuoteForAShell(t *testing.T) {
	args := providertest.ArgvCorpus()
	line := quoteAll(append([]string{"printf", `%s\0`}, args...))
	out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", line).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, args) {
		t.Errorf("%d arguments came of %d", len(got), len(args))
	}
}

// TestCommands: what runs, by entrypoint, arguments and what the image has.
func TestCommands(t *testing.T) {
	w := newWorld(t, pocket.Options{}, nil)
	p := w.Open()
	for name, c := range map[string]struct {
		spec sdk.JobSpec
		want string
	}{
		"image's own":         {sdk.JobSpec{}, ""},
		"args":                {sdk.JobSpec{Args: sdk.Argv{"a b", "c"}, ImageEntrypoint: sdk.Argv{}}, "'a b' 'c'"},
		"args and entrypoint": {sdk.JobSpec{Args: sdk.Argv{"a"}, Entrypoint: sdk.Argv{"/e", "x"}}, "'/e' 'x' 'a'"},
		"args of an image":    {sdk.JobSpec{Args: sdk.Argv{"a"}, ImageEntrypoint: sdk.Argv{"/i"}}, "'/i' 'a'"},
		"cleared arguments":   {sdk.JobSpec{Args: sdk.Argv{}, ImageEntrypoint: sdk.Argv{"/i"}}, "'/i'"},
		"cleared entrypoint":  {sdk.JobSpec{Args: sdk.Argv{"a"}, Entrypoint: sdk.Argv{}, ImageEntrypoint: sdk.Argv{"/i"}}, "'a'"},
		"read by a shell":     {sdk.JobSpec{Args: sdk.Argv{"a"}, ImageEntrypoint: sdk.Argv{}, Options: []byte(`{"command_read_by":"shell"}`)}, "exec 'a'"},
	} {
		c.spec.Image = "app:1"
		l := launchOf(t, p, c.spec)
		if len(l.Problems) > 0 {
			t.Errorf("%s: refused: %s", name, sdk.JoinProblems(l.Problems))
			continue
		}
		r, err := decodeRequest(l.Request)
		if err != nil || r.App.Spec.Jobs[0].RunCommand != c.want {
			t.Errorf("%s: %q, want %q (%v)", name, r.App.Spec.Jobs[0].RunCommand, c.want, err)
		}
	}
}

// TestExitCodeInLog: the code comes from the log, and the log doesn't show it, also
// behind a last line without a newline; what only looks like it is the job's own.
func TestExitCodeInLog(t *testing.T) {
	t.Parallel()
	for _, by := range []string{byShell, byWords, ""} {
		w := newWorld(t, pocket.Options{}, nil)
		w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.NoShell = by == byWords })
		p := w.Open()
		for script, want := range map[string]struct {
			code int
			text string
		}{
			"exit 7":                              {7, ""},
			"echo one; printf two":                {0, "one\ntwo"},
			"printf x; exit 255":                  {255, "x"},
			`printf '\036windlass-exit none 9\n'`: {0, "\x1ewindlass-exit none 9\n"},
			"kill -9 $$":                          {137, ""},
		} {
			spec := shell(script)
			spec.Options = fmt.Appendf(nil, `{"exit_code_in_log":true,"command_read_by":%q}`, by)
			if by == "" {
				spec.Options = []byte(`{"exit_code_in_log":true}`)
			}
			h := w.Run(p, w.Plan(p, spec))
			st := w.Ended(p, h)
			text, _, v := follow(t, p, h)
			if st.ExitCode == nil || *st.ExitCode != want.code || text != want.text || v != sdk.VerdictComplete {
				t.Errorf("%s, read by %q: %s, code %v, %q, %s", script, by, st.State, st.ExitCode, text, v)
			}
		}
	}
}

// TestExitCodeMissing: a log that isn't there in time gives no code, and the run
// ends all the same.
func TestExitCodeMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pocket.Options{}, map[string]any{"exit_code_in_log": true, "log_max": "400ms"})
	w.cloud.TuneKnobs(func(k *pocket.Knobs) { k.LogDelay = time.Hour })
	p := w.Open()
	if g := p.Info().Guarantees.ExitCode; g != sdk.ExitCodeProcess {
		t.Errorf("the guarantee is %s", g)
	}
	st := w.Ended(p, w.Run(p, w.Plan(p, shell("exit 3"))))
	if st.State != sdk.StateFailed || st.Reason != sdk.ReasonNonzeroExit || st.ExitCode != nil {
		t.Errorf("%s, %s, code %v", st.State, st.Reason, st.ExitCode)
	}
}

// FuzzExitMark: only a whole mark with the nonce is taken off a line.
func FuzzExitMark(f *testing.F) {
	for _, s := range []string{"", "x", exitMark, exitMark + "n 3", "x" + exitMark + "n 255", exitMark + "n 256", exitMark + "n 03", exitMark + "m 1", exitMark + "n 1 ", exitMark + "n +1"} {
		f.Add(s, "n")
	}
	f.Fuzz(func(t *testing.T, line, nonce string) {
		before, code, ok := cutExit(line, nonce)
		if !ok && before != line || ok && (line != fmt.Sprintf("%s%s%s %d", before, exitMark, nonce, code) || nonce == "") {
			t.Errorf("%q became %q, %d, %t", line, before, code, ok)
		}
	})
}

// TestWrapperPassesTermOn: a wrapped job gets TERM, and its own code counts.
func TestWrapperPassesTermOn(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), drivertest.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", wrapper, "nonce", "sh", "-c", `trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.1; done`)
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(out)
	var lines []string
	for in.Scan() {
		if lines = append(lines, in.Text()); in.Text() == "up" {
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 5 {
		t.Errorf("the wrapper ended with %v", err)
	}
	if want := []string{"up", "bye", exitMark + "nonce 5"}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}

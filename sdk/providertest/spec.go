package providertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/windlass-run/windlass/sdk"
)

func spoken(g sdk.Guarantees) string {
	if g.Argv != sdk.ArgvExact {
		return "Argv"
	}
	return ""
}

func specChecks() []Check {
	logs := []string{"JobLogger"}
	return []Check{
		{Name: "argv", Doc: "Arguments arrive byte for byte, or are refused where the guarantee is less.", Needs: logs, Waivable: spoken, run: checkArgv},
		{Name: "argv-bytes", Doc: "Arguments that are not UTF-8 arrive byte for byte, or are refused.", Needs: logs, Waivable: spoken, run: checkArgvBytes},
		{Name: "env", Doc: "Variables arrive byte for byte, the empty one too.", Needs: logs, run: checkEnv},
		{Name: "workdir", Doc: "The working folder is the one that was set.", Needs: logs, run: checkWorkdir},
		{Name: "user", Doc: "The job runs as the user that was set.", Needs: logs, run: checkUser},
		{Name: "files", Doc: "Input files arrive byte for byte.", Needs: logs, run: checkFiles},
		{Name: "stdin-none", Doc: "Without stdin a job reads the end at once.", Needs: logs, run: checkStdinNone},
		{Name: "stdin", Doc: "Stdin arrives byte for byte in the modes that are guaranteed, and is refused in others.", Needs: logs, run: checkStdin},
	}
}

// startOrRefused starts a job, unless the spec is refused for this field.
func (s *suite) startOrRefused(t T, spec sdk.JobSpec, field string) (j job, refused []sdk.Problem) {
	t.Helper()
	l := s.prepareAny(t, s.request(spec))
	if len(l.Problems) == 0 {
		return s.startLaunch(t, l, nil), nil
	}
	for _, p := range l.Problems {
		if !namesField([]sdk.Problem{p}, field) {
			t.Fatalf("refused for something else than %s: %s", field, p)
		}
	}
	return job{}, l.Problems
}

func checkArgv(s *suite, t T) { s.argv(t, ArgvCorpus(), s.g.Argv == sdk.ArgvExact) }

func checkArgvBytes(s *suite, t T) { s.argv(t, ArgvBytes(), false) }

// argv sends arguments in one job, or one by one where some are refused.
func (s *suite) argv(t T, args []string, exact bool) {
	t.Helper()
	show := func(args []string) (j job, refused []sdk.Problem) {
		b := Behaviour{Steps: []Step{{Do: ActShowArgs}}, Args: args}
		return s.startOrRefused(t, s.spec(t, b), "args")
	}
	j, refused := show(args)
	if refused == nil {
		s.compareArgs(t, j, args)
		return
	}
	if exact {
		t.Fatalf("refused, though arguments are exact: %s", sdk.JoinProblems(refused))
	}
	var taken []string
	for _, a := range args {
		b := Behaviour{Steps: []Step{{Do: ActShowArgs}}, Args: []string{a}}
		if ps := s.problems(t, s.spec(t, b)); len(ps) == 0 {
			taken = append(taken, a)
		} else if !namesField(ps, "args") {
			t.Errorf("argument %q is refused for something else: %s", a, sdk.JoinProblems(ps))
		} else if utf8.ValidString(a) {
			t.Logf("argument %q is refused: %s", a, sdk.JoinProblems(ps))
		}
	}
	if j, refused = show(taken); refused != nil {
		t.Fatalf("arguments that are taken one by one are refused together: %s", sdk.JoinProblems(refused))
	}
	s.compareArgs(t, j, taken)
}

func (s *suite) compareArgs(t T, j job, want []string) {
	t.Helper()
	var got []string
	for line := range strings.Lines(s.shown(t, j.handle)) {
		rest, ok := strings.CutPrefix(line, "arg ")
		raw, err := hex.DecodeString(strings.TrimSpace(rest))
		if !ok || err != nil {
			t.Fatalf("the job showed %q", line)
		}
		got = append(got, string(raw))
	}
	if len(got) != len(want) {
		t.Errorf("%d arguments arrived, %d were sent", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("argument %d: %q arrived as %q", i, want[i], got[i])
		}
	}
}

func checkEnv(s *suite, t T) {
	values := EnvCorpus()
	env, steps := sdk.Env{}, []Step{}
	for i, v := range values {
		name := fmt.Sprintf("WL_TEST_%d", i)
		one := s.spec(t, Do())
		one.Env = sdk.Env{name: v}
		if ps := s.problems(t, one); len(ps) > 0 {
			if !namesField(ps, "env") {
				t.Errorf("value %q is refused for something else: %s", v, sdk.JoinProblems(ps))
			}
			t.Logf("value %q is refused: %s", v, sdk.JoinProblems(ps))
			continue
		}
		env[name] = v
		steps = append(steps, Step{Do: ActShowEnv, Name: name})
	}
	steps = append(steps, Step{Do: ActShowEnv, Name: "WL_TEST_UNSET"})
	spec := s.spec(t, Do(steps...))
	spec.Env = env
	out := s.shown(t, s.startSpec(t, spec, nil).handle)
	for name, v := range env {
		if want := fmt.Sprintf("env %s %x\n", name, v); !strings.Contains(out, want) {
			t.Errorf("value %q did not arrive as such: no %q in the output", v, strings.TrimSpace(want))
		}
	}
	if !strings.Contains(out, "env WL_TEST_UNSET unset\n") {
		t.Errorf("a variable that nobody set is set")
	}
}

func checkWorkdir(s *suite, t T) {
	spec := s.spec(t, Do(Step{Do: ActShowDir}))
	spec.Workdir = s.h.Workdir
	j, refused := s.startOrRefused(t, spec, "workdir")
	if refused != nil {
		t.Skipf("refused: %s", sdk.JoinProblems(refused))
	}
	if got, want := s.shown(t, j.handle), "dir "+s.h.Workdir+"\n"; got != want {
		t.Errorf("the job showed %q, want %q", got, want)
	}
}

func checkUser(s *suite, t T) {
	if s.h.User == "" {
		t.Skipf("the harness has no User")
	}
	spec := s.spec(t, Do(Step{Do: ActShowUser}))
	spec.User = s.h.User
	j, refused := s.startOrRefused(t, spec, "user")
	if refused != nil {
		t.Skipf("refused: %s", sdk.JoinProblems(refused))
	}
	if got, want := s.shown(t, j.handle), "user "+s.h.UserID+"\n"; got != want {
		t.Errorf("the job showed %q, want %q", got, want)
	}
}

func checkFiles(s *suite, t T) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	dir := s.h.FileDir + "/windlass-test-" + s.ids.NewID().Short()
	files := []sdk.InputFile{
		{Path: dir + "/empty", Data: []byte{}},
		{Path: dir + "/every", Data: every, Mode: 0o600},
		{Path: dir + "/deep/er/large", Data: bytes.Repeat(every, 256)},
	}
	var steps []Step
	want := ""
	for _, f := range files {
		steps = append(steps, Step{Do: ActShowFile, Name: f.Path})
		want += fmt.Sprintf("file %s %x\n", f.Path, sha256.Sum256(f.Data))
	}
	spec := s.spec(t, Do(steps...))
	spec.Files = files
	j, refused := s.startOrRefused(t, spec, "files")
	if refused != nil {
		t.Skipf("refused: %s", sdk.JoinProblems(refused))
	}
	if got := s.shown(t, j.handle); got != want {
		t.Errorf("the job showed %q, want %q", got, want)
	}
}

func checkStdinNone(s *suite, t T) {
	j := s.start(t, Do(Step{Do: ActCopyStdin}, Print("end\n")))
	if got := s.shown(t, j.handle); got != "end\n" {
		t.Errorf("the job showed %q, want the end at once", got)
	}
}

func checkStdin(s *suite, t T) {
	for _, mode := range []sdk.StdinMode{sdk.StdinAttached, sdk.StdinSpooled} {
		spec := s.spec(t, Do(Step{Do: ActCopyStdin}))
		spec.Stdin = mode
		if !slices.Contains(s.g.Stdin, mode) {
			if !namesField(s.problems(t, spec), "stdin") {
				t.Errorf("stdin %s is not guaranteed and not refused", mode)
			}
			continue
		}
		input := strings.Repeat("a line of input\n", 5000)
		if mode == sdk.StdinSpooled {
			j := s.startSpec(t, spec, strings.NewReader(input))
			s.compareText(t, string(mode), s.shown(t, j.handle), input)
			continue
		}
		// A pipe whose writer is slow: RunJob must not wait for it.
		r, w := io.Pipe()
		j := s.startSpec(t, spec, r)
		ctx, cancel := context.WithTimeout(t.Context(), s.h.Eventually)
		stop := context.AfterFunc(ctx, func() { _ = w.CloseWithError(context.Canceled) })
		for part := range slices.Chunk([]byte(input), 30000) {
			if _, err := w.Write(part); err != nil {
				t.Errorf("stdin %s: the driver stopped reading: %v", mode, err)
				break
			}
		}
		_ = w.Close()
		s.compareText(t, string(mode), s.shown(t, j.handle), input)
		stop()
		cancel()
	}
}

// compareText compares long texts and shows where they part.
func (s *suite) compareText(t T, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	cut := func(x string) string { return x[min(i, len(x)):min(i+60, len(x))] }
	t.Errorf("%s: %d bytes instead of %d; from byte %d on %q instead of %q", what, len(got), len(want), i, cut(got), cut(want))
}

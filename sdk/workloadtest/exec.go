package workloadtest

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

func execChecks() []Check {
	e := []string{sdk.WorkloadExecs().String()}
	return []Check{
		{Name: "exec-code", Doc: "The exit code is the command's own, or there is none and it says why (F91).", Needs: e, run: checkExecCode},
		{Name: "exec-output", Doc: "Output arrives whole, apart where the guarantee says so.", Needs: e, run: checkExecOutput},
		{Name: "exec-argv", Doc: "The command's words arrive as they are.", Needs: e, run: checkExecArgv},
		{Name: "exec-stdin", Doc: "The command gets its input and sees its end.", Needs: e, run: checkExecStdin},
		{Name: "exec-instance", Doc: "The instance that is named is meant; one that isn't there is refused.", Needs: e, run: checkExecInstance},
		{Name: "exec-absent", Doc: "An exec in what isn't there is NotFound, an empty command is refused.", Needs: e, run: checkExecAbsent},
		{Name: "exec-dry-run", Doc: "A dry run of an exec runs nothing.", Needs: e, run: checkExecDryRun},
		{Name: "exec-cut", Doc: "A connection that ends before the command's end was told gives no code, and never 0 (F92).", Needs: e, run: checkExecCut},
		{Name: "exec-left", Doc: "A session that is left ends at once, without a code.", Needs: e, run: checkExecLeft},
	}
}

// exec runs a command, with its output collected.
func (s *suite) exec(t T, r sdk.ExecWorkloadRequest) (stdout, stderr string, res sdk.ExecWorkloadResult, err error) {
	t.Helper()
	ctx, cancel := s.bounded(t)
	defer cancel()
	var out, errs bytes.Buffer
	r.Stdout, r.Stderr = &out, &errs
	res, err = need(t, s.p, sdk.WorkloadExecs()).ExecWorkload(ctx, r)
	return out.String(), errs.String(), res, err
}

// ran fails unless a command ended with a code, where the backend tells codes.
func (s *suite) ran(t T, what string, res sdk.ExecWorkloadResult, err error, code int) {
	t.Helper()
	switch {
	case err != nil:
		t.Fatalf("%s: %v", what, err)
	case res.ExitCode == nil && s.g.Exec.ExitCode:
		t.Errorf("%s: no exit code (%s), and the guarantee says that there is one", what, res.Why)
	case res.ExitCode == nil && res.Why == "":
		t.Errorf("%s: no exit code, and not why", what)
	case res.ExitCode != nil && *res.ExitCode != code:
		t.Errorf("%s: exit code %d, want %d", what, *res.ExitCode, code)
	case res.Instance == "":
		t.Errorf("%s: it isn't told where it ran", what)
	}
}

func checkExecCode(s *suite, t T) {
	if s.h.Commands.Exit == nil {
		t.Skipf("the harness has no command that exits")
	}
	path := s.h.Make(t, 1)
	for _, code := range []int{0, 1, 3, 127, 255} {
		_, _, res, err := s.exec(t, sdk.ExecWorkloadRequest{Op: s.op(path), Command: s.h.Commands.Exit(code)})
		s.ran(t, "exit "+itoa(code), res, err, code)
	}
}

func checkExecOutput(s *suite, t T) {
	if s.h.Commands.Print == nil {
		t.Skipf("the harness has no command that prints")
	}
	path := s.h.Make(t, 1)
	out, errs, res, err := s.exec(t, sdk.ExecWorkloadRequest{Op: s.op(path), Command: s.h.Commands.Print("to stdout", "to stderr")})
	s.ran(t, "print", res, err, 0)
	if s.g.Exec.Apart && (!strings.Contains(out, "to stdout") || strings.Contains(out, "to stderr") || !strings.Contains(errs, "to stderr")) ||
		!strings.Contains(out+errs, "to stdout") || !strings.Contains(out+errs, "to stderr") {
		t.Errorf("stdout %q, stderr %q", out, errs)
	}
}

func checkExecArgv(s *suite, t T) {
	if s.h.Commands.Args == nil {
		t.Skipf("the harness has no command that shows its arguments")
	}
	if s.g.Exec.Argv != sdk.ArgvExact && s.g.Exec.Argv != sdk.ArgvSubstituting {
		t.Skipf("the command's words are %s", s.g.Exec.Argv)
	}
	path := s.h.Make(t, 1)
	args := []string{"a b", "", "$(HOME)", "'\"\\", "*", "--x=1", "ü"}
	var want strings.Builder
	for _, a := range args {
		want.WriteString("arg " + hex.EncodeToString([]byte(a)) + "\n")
	}
	out, _, res, err := s.exec(t, sdk.ExecWorkloadRequest{Op: s.op(path), Command: s.h.Commands.Args(args...)})
	s.ran(t, "arguments", res, err, 0)
	if out != want.String() {
		t.Errorf("got %q, want %q", out, want.String())
	}
}

func checkExecStdin(s *suite, t T) {
	if s.h.Commands.Cat == nil || !s.g.Exec.Stdin {
		t.Skipf("no command reads input here")
	}
	path := s.h.Make(t, 1)
	input := strings.Repeat("0123456789abcde\n", 10_000) + "\x00\xff end without newline"
	out, _, res, err := s.exec(t, sdk.ExecWorkloadRequest{Op: s.op(path), Command: s.h.Commands.Cat(), Stdin: strings.NewReader(input)})
	s.ran(t, "copy", res, err, 0)
	if out != input {
		t.Errorf("%d bytes of %d came back", len(out), len(input))
	}
	out, _, res, err = s.exec(t, sdk.ExecWorkloadRequest{Op: s.op(path), Command: s.h.Commands.Cat()})
	s.ran(t, "copy of nothing", res, err, 0)
	if out != "" {
		t.Errorf("no input came back as %q", out)
	}
}

func checkExecInstance(s *suite, t T) {
	if s.h.Commands.Exit == nil {
		t.Skipf("the harness has no command that exits")
	}
	path := s.h.Make(t, 2)
	for _, in := range s.instances(t, path, 2) {
		_, _, res, err := s.exec(t, sdk.ExecWorkloadRequest{Op: s.op(path), Instance: in, Command: s.h.Commands.Exit(0)})
		s.ran(t, in, res, err, 0)
		if res.Instance != in {
			t.Errorf("asked for %s, ran in %s", in, res.Instance)
		}
	}
	_, _, _, err := s.exec(t, sdk.ExecWorkloadRequest{Op: s.op(path), Instance: "no-such-instance", Command: s.h.Commands.Exit(0)})
	if !sdk.IsClear(err) {
		t.Errorf("in an instance that isn't there: got %v, want a refusal", err)
	}
}

func checkExecAbsent(s *suite, t T) {
	_, _, _, err := s.exec(t, sdk.ExecWorkloadRequest{Op: s.op(s.h.Absent), Command: sdk.Argv{"true"}})
	refused(t, "exec in what isn't there", err, sdk.NotFound)
	path := s.h.Make(t, 1)
	for _, argv := range []sdk.Argv{nil, {}, {""}} {
		_, _, _, err := s.exec(t, sdk.ExecWorkloadRequest{Op: s.op(path), Command: argv})
		refused(t, "exec of nothing", err, sdk.InvalidArgument)
	}
}

func checkExecDryRun(s *suite, t T) {
	if s.h.Commands.Print == nil {
		t.Skipf("the harness has no command that prints")
	}
	path := s.h.Make(t, 1)
	op := s.op(path)
	op.DryRun = true
	out, errs, res, err := s.exec(t, sdk.ExecWorkloadRequest{Op: op, Command: s.h.Commands.Print("out", "err")})
	if err != nil || len(res.Calls) == 0 || res.ExitCode != nil || out+errs != "" {
		t.Errorf("output %q %q, %+v, %v", out, errs, res, err)
	}
}

func checkExecCut(s *suite, t T) {
	if s.h.Commands.Exit == nil || s.h.Faults.LoseReply == nil {
		t.Skipf("the harness can't cut a session")
	}
	path := s.h.Make(t, 1)
	s.h.Faults.LoseReply(t, "ExecWorkload")
	_, _, res, err := s.exec(t, sdk.ExecWorkloadRequest{Op: s.op(path), Command: s.h.Commands.Exit(0)})
	if err != nil || res.ExitCode != nil || res.Why == "" {
		t.Errorf("a session that was cut: %+v, %v; want no exit code, and why", res, err)
	}
}

func checkExecLeft(s *suite, t T) {
	if s.h.Commands.Hang == nil {
		t.Skipf("the harness has no command that hangs")
	}
	path := s.h.Make(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdin, feed := io.Pipe()
	defer func() { _ = feed.Close() }()
	type end struct {
		res sdk.ExecWorkloadResult
		err error
	}
	done := make(chan end, 1)
	e := need(t, s.p, sdk.WorkloadExecs())
	r := sdk.ExecWorkloadRequest{Op: s.op(path), Command: s.h.Commands.Hang()}
	if s.g.Exec.Stdin {
		r.Stdin = stdin
	}
	go func() {
		res, err := e.ExecWorkload(ctx, r)
		done <- end{res, err}
	}()
	s.pause(t)
	cancel()
	limit, stop := s.bounded(t)
	defer stop()
	select {
	case got := <-done:
		if got.res.ExitCode != nil {
			t.Errorf("a session that was left has the exit code %d", *got.res.ExitCode)
		}
	case <-limit.Done():
		t.Fatalf("a session that was left goes on")
	}
}

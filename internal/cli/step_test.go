package cli

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/internal/step"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// steps writes a file of steps with these configs, called s0, s1, ...
func (w *world) steps(configs ...string) string {
	w.t.Helper()
	var b strings.Builder
	b.WriteString("steps:\n")
	for i, c := range configs {
		b.WriteString("  - {name: s" + string(rune('0'+i)) + ", type: step.sandbox_exec, config: {" + c + "}}\n")
	}
	path := filepath.Join(w.dir, "f.yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return "f.yaml"
}

func TestStepRun(t *testing.T) {
	w := newWorld(t)
	w.engine.script = func(s *scripted, id sdk.ID) {
		s.start(id)
		s.say(sdk.StreamSystem, "the platform's own words\n")
		s.say(sdk.StreamStdout, "out\n")
		s.say(sdk.StreamStderr, "err\n")
		s.finish(id, sdk.StateFailed, sdk.ReasonNonzeroExit, ledger.Change{ExitCode: code(3)})
	}
	errs := w.fails(3, "step", "run", w.steps("image: i, memory_limit: 64Mi"))
	if w.out.String() != "out\n" || !strings.HasPrefix(errs, "err\n") || !strings.Contains(errs, "f.yaml:2: step s0 (run ") || !strings.Contains(errs, "failed with exit code 3") || strings.Contains(errs, "own words") {
		t.Errorf("stdout %q, stderr %q", w.out.String(), errs)
	}
	r := w.engine.submitted[0]
	if r.Provider != "docker" || r.Spec.Profile != sdk.ProfileStrict || r.Spec.Memory != 64<<20 || r.Actor != "tester@here" || r.Spec.Name != "s0" {
		t.Errorf("%+v", r)
	}
}

// TestStepLocalInherits: a step on a provider of this machine's programs gets
// what windlass run gives such a job.
func TestStepLocalInherits(t *testing.T) {
	w := newWorld(t)
	w.engine.script = func(s *scripted, id sdk.ID) {
		s.finish(id, sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0)})
	}
	w.ok("step", "run", w.steps("command: [make], exec_env: provider-ephemeral, provider: local"))
	if a := w.engine.submitted[0].Ambient; a == nil || a.Dir != w.dir {
		t.Errorf("ambient %+v", a)
	}
}

// TestStepProblems: nothing is started or written for a file that is wrong or
// refused.
func TestStepProblems(t *testing.T) {
	w := newWorld(t)
	for _, x := range []struct {
		config, want, id string
	}{
		{"imag: i", "f.yaml:2:50: steps[0].config.imag: is not known (did you mean \"image\"?)", step.ErrFile},
		{"image: '{{ .steps.x.stdout }}'", "no step before this one is called", step.ErrTemplate},
		{"image: i, exec_env: near", `f.yaml:2:70: steps[0].config.exec_env: no environment is called "near"`, sandbox.ErrNoEnvironment},
		{"image: i, exec_env: ephemeral", "none is configured", sandbox.ErrNoPlace},
		{"image: i, exec_env: provider-ephemeral, provider: lokal", `did you mean "local"`, sandbox.ErrNoPlace},
		{"image: i, provider: docker", "has no meaning with exec_env local-docker", sandbox.ErrRefused},
	} {
		errs := w.fails(ExitWindlass, "step", "run", w.steps(x.config))
		if !strings.Contains(errs, x.want) || !strings.Contains(errs, "windlass explain "+x.id) {
			t.Errorf("%s: %s", x.config, errs)
		}
		if len(w.engine.submitted) > 0 || w.out.String() != "" {
			t.Errorf("%s: something was started", x.config)
		}
		w.ok("explain", x.id)
	}
	errs := w.fails(ExitWindlass, "step", "run", w.steps("image: 1", "image: i, memory_limit: 64m"))
	if !strings.Contains(errs, "2 problems") || !strings.Contains(errs, "f.yaml:3:") || !strings.Contains(errs, "write 64Mi") {
		t.Errorf("%s", errs)
	}
	w.fails(ExitWindlass, "step", "run", "nowhere.yaml")
	w.fails(ExitUsage, "step", "run")
	w.fails(ExitUsage, "step", "run", "a", "b")
	w.fails(ExitUsage, "step", "schema", "x")
	var schema any
	if err := json.Unmarshal([]byte(w.ok("step", "schema")), &schema); err != nil {
		t.Error(err)
	}
}

// TestStepBackendIsAskedFirst: what only the backend refuses, and secrets that aren't
// here, are told with their lines before the first step starts.
func TestStepBackendIsAskedFirst(t *testing.T) {
	w := newWorld(t)
	w.engine.planErr = &control.ProblemsError{Provider: "docker", Problems: []sdk.Problem{{Field: "memory", Value: "1048576", Message: "below 6 MiB", Code: sdk.OutOfRange}}}
	errs := w.fails(ExitWindlass, "step", "run", w.steps("image: i, memory_limit: 1Mi", "image: i, secrets: {A: secret://env/A, B: secret://env/B}"))
	for _, want := range []string{"check steps: 4 problems", "f.yaml:2:74: steps[0].config.memory_limit: local-docker refuses it: below 6 MiB\n",
		"f.yaml:3:73: steps[1].config.secrets.A: the variable A isn't set; export it", "steps[1].config.secrets.B:"} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q isn't in\n%s", want, errs)
		}
	}
	w.engine.planErr = &sdk.Error{Code: sdk.Unavailable, Op: "prepare job", Provider: "docker", Err: errors.New("nobody is there"), Remedy: "start it"}
	errs = w.fails(ExitWindlass, "step", "run", w.steps("image: i"))
	for _, want := range []string{"f.yaml:2:", "can't be asked whether it takes this step: prepare job: provider docker: nobody is there\n", "to do: start it", "windlass explain " + step.ErrBackend} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q isn't in\n%s", want, errs)
		}
	}
	w.ok("explain", step.ErrBackend)
	w.engine.planErr = nil
	if errs = w.fails(ExitWindlass, "step", "run", w.steps("image: i, secrets: {A: secret://env/A}")); !strings.Contains(errs, "secrets.A: the variable A isn't set\n") || !strings.Contains(errs, "windlass explain secret.not-found") {
		t.Error(errs)
	}
	if len(w.engine.submitted) > 0 {
		t.Errorf("%d steps began", len(w.engine.submitted))
	}
}

// TestStepToken: the token of a remote runner is looked for before anything
// starts.
func TestStepToken(t *testing.T) {
	w := newWorld(t)
	file := "runners: {far: {address: 'localhost:1', token_env: FAR_TOKEN}}\n"
	if err := os.WriteFile(filepath.Join(w.dir, config.FileName), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	if errs := w.fails(ExitWindlass, "step", "run", w.steps("image: i, exec_env: far")); !strings.Contains(errs, "the variable FAR_TOKEN is unset") {
		t.Error(errs)
	}
	// With it the runner is called, which isn't there; no ledger is made for that.
	w.env["FAR_TOKEN"] = "0123456789abcdef-canary"
	errs := w.fails(ExitWindlass, "step", "run", w.steps("image: i, exec_env: far"))
	if !strings.Contains(errs, "f.yaml:2: step s0:") || strings.Contains(errs, "canary") {
		t.Error(errs)
	}
	if _, err := os.Stat(w.state); err == nil {
		t.Error("a state folder was made")
	}
}

// TestStepInterrupts: the first signal cancels and waits for proof, the second
// leaves and says how to find the run.
func TestStepInterrupts(t *testing.T) {
	w := newWorld(t)
	running := make(chan sdk.ID, 1)
	w.engine.script = func(s *scripted, id sdk.ID) {
		s.start(id)
		running <- id
	}
	now := time.Unix(0, 0)
	i := &interrupts{now: func() time.Time { return now }}
	done := make(chan int, 1)
	path := w.steps("image: i", "image: i")
	w.start(func(f *Factory) { f.interrupts = i })
	go func() { done <- run(t.Context(), w.f, []string{"step", "run", path}) }()
	id := testwait.Receive(t, soon, "running step", running)
	i.deliver(syscall.SIGTERM)
	testwait.Until(t, soon, "cancel", func() bool {
		w.engine.mu.Lock()
		defer w.engine.mu.Unlock()
		return len(w.engine.cancels) == 1
	})
	select {
	case got := <-done:
		t.Fatalf("left with %d before there was proof", got)
	default:
	}
	now = now.Add(2 * sameWish)
	i.deliver(os.Interrupt)
	if got := testwait.Receive(t, soon, "exit", done); got != ExitInterrupted {
		t.Errorf("exit %d", got)
	}
	if c := w.engine.cancels[0]; c.Run != id || c.Why != "SIGTERM" || c.Actor != "tester@here" {
		t.Errorf("%+v", c)
	}
	if s := w.err.String(); !strings.Contains(s, "windlass status "+id.Short()) || len(w.engine.submitted) != 1 {
		t.Errorf("%d steps, stderr %s", len(w.engine.submitted), s)
	}
}

// TestStepInterruptsFar: of a step on a remote runner nobody speaks of proof, and a call
// that never reached it is told as one.
func TestStepInterruptsFar(t *testing.T) {
	w := newWorld(t)
	mute, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mute.Close() }()
	file := "runners: {far: {address: '" + mute.Addr().String() + "', token_env: FAR_TOKEN}}\n"
	if err := os.WriteFile(filepath.Join(w.dir, config.FileName), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	w.env["FAR_TOKEN"] = "0123456789abcdef-canary"
	i := &interrupts{now: time.Now}
	done := make(chan int, 1)
	path := w.steps("image: i, exec_env: far")
	w.start(func(f *Factory) { f.interrupts = i })
	go func() { done <- run(t.Context(), w.f, []string{"step", "run", path}) }()
	c, err := mute.Accept() // the step has begun
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	i.deliver(os.Interrupt)
	if got := testwait.Receive(t, soon, "exit", done); got != ExitInterrupted {
		t.Errorf("exit %d", got)
	}
	s := w.err.String()
	for _, want := range []string{"Ctrl-C: ending the call of the step; its runner cancels it and proves that at its own side", "f.yaml:2: step s0: exec on far: cancelled before the runner was reached; nothing was sent"} {
		if !strings.Contains(s, want) {
			t.Errorf("%q isn't in\n%s", want, s)
		}
	}
	if strings.Contains(s, "waiting for proof") {
		t.Error(s)
	}
}

// TestStepCancelledElsewhere: a run that somebody else cancelled ends the file,
// whatever fail_on_error says.
func TestStepCancelledElsewhere(t *testing.T) {
	w := newWorld(t)
	w.engine.script = func(s *scripted, id sdk.ID) {
		s.start(id)
		s.finish(id, sdk.StateCancelled, sdk.ReasonCancelled, ledger.Change{})
	}
	errs := w.fails(ExitInterrupted, "step", "run", w.steps("image: i, fail_on_error: false", "image: i"))
	if !strings.Contains(errs, "was cancelled") || len(w.engine.submitted) != 1 {
		t.Errorf("%d steps, %s", len(w.engine.submitted), errs)
	}
}

// TestStepBrokenPipe: the steps go on when nobody reads any more.
func TestStepBrokenPipe(t *testing.T) {
	w := newWorld(t)
	w.engine.script = func(s *scripted, id sdk.ID) {
		w.out.fail(&os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE})
		s.say(sdk.StreamStdout, "nobody reads this\n")
		s.finish(id, sdk.StateFailed, sdk.ReasonNonzeroExit, ledger.Change{ExitCode: code(7)})
	}
	if errs := w.fails(7, "step", "run", w.steps("image: i")); strings.Count(errs, "nobody reads the output") != 1 {
		t.Error(errs)
	}
}

// TestF58StepOutputOnAFullDisk: what can't be shown is said once, and later steps have
// it whole all the same.
func TestF58StepOutputOnAFullDisk(t *testing.T) {
	for _, flags := range [][]string{nil, {"--json"}} {
		w := newWorld(t)
		w.engine.script = func(s *scripted, id sdk.ID) {
			w.out.fail(&os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC})
			s.say(sdk.StreamStdout, "one\n")
			s.say(sdk.StreamStdout, "two\n")
			s.finish(id, sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0)})
		}
		w.ok(append([]string{"step", "run", w.steps("image: i", "image: i, env: {A: '{{ .steps.s0.stdout }}'}")}, flags...)...)
		if got := w.engine.submitted[1].Spec.Env["A"]; got != "one\ntwo\n" {
			t.Errorf("%v: the second step gets %q", flags, got)
		}
		if errs := w.err.String(); strings.Count(errs, "step s0: its output can't be shown: ") != 1 || !strings.Contains(errs, "no space left") {
			t.Errorf("%v: says %s", flags, errs)
		}
	}
}

// TestStepSilenceIsTold: a step says that its provider doesn't answer, as a run
// does.
func TestStepSilenceIsTold(t *testing.T) {
	w := newWorld(t)
	w.engine.script = func(s *scripted, id sdk.ID) {
		s.becomes(id, ledger.PhaseSubmitting, sdk.StatePending, sdk.ReasonUnknown, "no answer since 2026-05-04T12:00:00Z: cut")
		testwait.Until(t, soon, "word of it", func() bool {
			return strings.Contains(w.err.String(), "docker gives no answer since 2026-05-04T12:00:00Z: cut")
		})
		s.finish(id, sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0)})
	}
	w.ok("step", "run", w.steps("image: i"))
	if w.out.String() != "" {
		t.Errorf("stdout %q", w.out.String())
	}
}

// TestF21StepTellsMemory: a process that was killed for memory is told of a step that
// succeeded, on stderr and in the events.
func TestF21StepTellsMemory(t *testing.T) {
	w := newWorld(t)
	w.engine.script = func(s *scripted, id sdk.ID) {
		s.finish(id, sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0), OOM: true})
	}
	path := w.steps("image: i")
	w.ok("step", "run", path)
	if got := w.err.String(); !strings.Contains(got, "step s0: a process of it was killed for memory") {
		t.Error(got)
	}
	if out := w.ok("step", "run", "--json", path); !strings.Contains(out, `"oom_observed":true`) {
		t.Error(out)
	}
}

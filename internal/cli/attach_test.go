package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

const soon = time.Minute

// endsWith is a script that writes, ends and is done.
func endsWith(state sdk.JobState, why sdk.Reason, c ledger.Change) func(*scripted, sdk.ID) {
	return func(s *scripted, id sdk.ID) {
		s.start(id)
		s.say(sdk.StreamSystem, "the platform's own words\n") // stay in the record
		s.say(sdk.StreamStdout, "to out\n")
		s.say(sdk.StreamStderr, "to err")
		s.finish(id, state, why, c)
	}
}

func TestAttachedStreams(t *testing.T) {
	w := newWorld(t)
	w.engine.script = endsWith(sdk.StateFailed, sdk.ReasonNonzeroExit, ledger.Change{ExitCode: code(3)})
	if got := w.run("run", "--", "sh"); got != 3 {
		t.Errorf("exit %d, want 3", got)
	}
	// The job's bytes and nothing else, in a pipe.
	if w.out.String() != "to out\n" || w.err.String() != "to err" {
		t.Errorf("stdout %q, stderr %q", w.out.String(), w.err.String())
	}
}

func TestAttachedOutcomes(t *testing.T) {
	message := "no such image"
	for _, c := range []struct {
		name  string
		state sdk.JobState
		why   sdk.Reason
		c     ledger.Change
		exit  int
		says  []string
	}{
		{"timed out", sdk.StateFailed, sdk.ReasonTimedOut, ledger.Change{ExitCode: code(143)}, 124, []string{"timed_out", "--timeout"}},
		{"image", sdk.StateFailed, sdk.ReasonImagePull, ledger.Change{Message: &message}, 125, []string{"image_pull", "no such image", "to do:"}},
		{"not found", sdk.StateFailed, sdk.ReasonInvalidSpec, ledger.Change{Raw: map[string]string{"exec": "not_found"}}, 127, []string{"the command wasn't found"}},
		{"lost", sdk.StateLost, sdk.ReasonLost, ledger.Change{}, 125, []string{"lost"}},
		{"killed for memory and well", sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0), OOM: true}, 0, []string{"killed for memory"}},
		{"gap", sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0), Verdict: sdk.VerdictGap}, 0, []string{"a part in between is missing"}},
		{"code that no process can give", sdk.StateFailed, sdk.ReasonNonzeroExit, ledger.Change{ExitCode: code(512)}, 125, []string{"exit 512"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.engine.script = endsWith(c.state, c.why, c.c)
			if got := w.run("run", "--", "sh"); got != c.exit {
				t.Errorf("exit %d, want %d", got, c.exit)
			}
			for _, s := range c.says {
				if !strings.Contains(w.err.String(), s) {
					t.Errorf("stderr lacks %q: %s", s, w.err.String())
				}
			}
			if w.out.String() != "to out\n" {
				t.Errorf("stdout %q", w.out.String())
			}
		})
	}
}

// TestInterruptCancels gives the first signal while the job runs: it cancels
// and waits for proof.
func TestInterruptCancels(t *testing.T) {
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		w := newWorld(t)
		running := make(chan sdk.ID, 1)
		w.engine.script = func(s *scripted, id sdk.ID) { s.start(id); s.say(sdk.StreamStdout, "begun\n"); running <- id }
		proof := make(chan struct{})
		w.engine.onCancel = func(s *scripted, id sdk.ID) {
			s.wg.Go(func() {
				<-proof
				s.finish(id, sdk.StateCancelled, sdk.ReasonCancelled, ledger.Change{ExitCode: code(0)})
			})
		}
		i := &interrupts{}
		done := make(chan int, 1)
		w.start(func(f *Factory) { f.interrupts = i })
		go func() { done <- run(t.Context(), w.f, []string{"run", "--", "sh"}) }()
		id := testwait.Receive(t, soon, "running job", running)
		testwait.Until(t, soon, "output", func() bool { return w.out.String() == "begun\n" })
		i.deliver(sig)
		testwait.Until(t, soon, "line about the cancel", func() bool { return strings.Contains(w.err.String(), "waiting for proof") })
		select {
		case got := <-done:
			t.Fatalf("%v: left with %d before there was proof", sig, got)
		default:
		}
		close(proof)
		if got := testwait.Receive(t, soon, "exit", done); got != ExitInterrupted {
			t.Errorf("%v: exit %d, want 130", sig, got)
		}
		w.engine.wg.Wait()
		if c := w.engine.cancels; len(c) != 1 || c[0].Run != id || c[0].Actor != "tester@here" || c[0].Why == "" {
			t.Errorf("%v: cancels %+v", sig, c)
		}
	}
}

// TestSecondInterruptLeaves gives a second signal while the proof is awaited.
func TestSecondInterruptLeaves(t *testing.T) {
	w := newWorld(t)
	running := make(chan sdk.ID, 1)
	w.engine.script = func(s *scripted, id sdk.ID) { s.start(id); running <- id }
	now := time.Unix(0, 0)
	i := &interrupts{now: func() time.Time { return now }}
	done := make(chan int, 1)
	w.start(func(f *Factory) { f.interrupts = i })
	go func() { done <- run(t.Context(), w.f, []string{"run", "--", "sh"}) }()
	id := testwait.Receive(t, soon, "running job", running)
	testwait.Until(t, soon, "handler", func() bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		return i.handler != nil
	})
	i.deliver(os.Interrupt)
	now = now.Add(sameWish / 2)
	i.deliver(os.Interrupt) // the same wish again, as timeout(1) sends it
	select {
	case got := <-done:
		t.Fatalf("left with %d on a doubled signal", got)
	default:
	}
	now = now.Add(2 * sameWish)
	i.deliver(os.Interrupt)
	if got := testwait.Receive(t, soon, "exit", done); got != ExitInterrupted {
		t.Errorf("exit %d, want 130", got)
	}
	if s := w.err.String(); !strings.Contains(s, "windlass status "+id.Short()) {
		t.Errorf("stderr doesn't say how to find the run: %s", s)
	}
}

// TestBrokenPipe closes the reader of stdout: the job goes on and its exit code
// comes through.
func TestBrokenPipe(t *testing.T) {
	w := newWorld(t)
	w.engine.script = func(s *scripted, id sdk.ID) {
		s.start(id)
		w.out.fail(&os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE})
		s.say(sdk.StreamStdout, "nobody reads this\n")
		s.say(sdk.StreamStdout, "nor this\n")
		s.say(sdk.StreamStderr, "but this\n")
		s.finish(id, sdk.StateFailed, sdk.ReasonNonzeroExit, ledger.Change{ExitCode: code(7)})
	}
	if got := w.run("run", "--", "yes"); got != 7 {
		t.Errorf("exit %d, want 7", got)
	}
	if len(w.engine.cancels) > 0 {
		t.Error("the job was cancelled")
	}
	s := w.err.String()
	if !strings.Contains(s, "but this\n") || strings.Count(s, "nobody reads the output") != 1 {
		t.Errorf("stderr %q", s)
	}
}

// TestLogFailure breaks the reading of the log: a warning, and the outcome as it
// is.
func TestLogFailure(t *testing.T) {
	w := newWorld(t)
	w.engine.logErr = sdk.Errorf(sdk.Unavailable, "read log", "the disk failed")
	w.engine.script = func(s *scripted, id sdk.ID) {
		s.finish(id, sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0)})
	}
	if got := w.run("run", "--", "true"); got != 0 {
		t.Errorf("exit %d, want 0", got)
	}
	if !strings.Contains(w.err.String(), "the disk failed") || w.out.String() != "" {
		t.Errorf("stdout %q, stderr %q", w.out.String(), w.err.String())
	}
}

func TestRunJSON(t *testing.T) {
	w := newWorld(t)
	w.engine.script = func(s *scripted, id sdk.ID) {
		s.start(id)
		s.say(sdk.StreamStdout, "\xff\x00\n")
		var gap control.FollowItem
		gap.Attempt, gap.Gap = 1, &sdk.LogGap{Bytes: -1, Why: "the disk was full"}
		s.addItem(gap)
		s.finish(id, sdk.StateFailed, sdk.ReasonTimedOut, ledger.Change{ExitCode: code(143)})
	}
	if got := w.run("run", "--json", "--", "sh"); got != 124 {
		t.Errorf("exit %d", got)
	}
	var kinds []string
	for _, line := range strings.Split(strings.TrimSpace(w.out.String()), "\n") {
		var e Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, string(e.Event))
		if e.Event == eventOutput && string(e.Data) != "\xff\x00\n" {
			t.Errorf("data %q", e.Data)
		}
		if e.Event == eventEnd && (e.State.ExitCode == nil || *e.State.ExitCode != 143 || *e.State.Exit != 124) {
			t.Errorf("end %+v", e.State)
		}
		validate(t, line)
	}
	if got := strings.Join(kinds, " "); got != "submitted output gap end" {
		t.Errorf("events %s", got)
	}
	if w.err.String() != "" {
		t.Errorf("stderr %q", w.err.String())
	}
}

func TestRunRefused(t *testing.T) {
	w := newWorld(t)
	w.engine.onSubmit = func(control.SubmitRequest) error {
		return &control.ProblemsError{Provider: "local", Problems: []sdk.Problem{
			{Field: "gpu", Value: "1", Message: "is not supported here", Code: sdk.Unimplemented},
			{Field: "cpu", Value: "9000", Message: "is more than there is", Code: sdk.FailedPrecondition}}}
	}
	text := w.fails(ExitWindlass, "run", "--gpus", "1", "--", "true")
	for _, want := range []string{"refused before launch", "\nwindlass:   gpu \"1\": is not supported here\n", "\nwindlass:   cpu \"9\": is more", "windlass explain run.refused"} {
		if !strings.Contains(text, want) {
			t.Errorf("stderr lacks %q:\n%s", want, text)
		}
	}
	w.fails(ExitWindlass, "run", "--json", "--", "true")
	validate(t, w.out.String())
	if !strings.Contains(w.out.String(), `"event":"error"`) {
		t.Errorf("stdout %s", w.out.String())
	}
}

// quickKeeper takes every run at once.
type quickKeeper struct {
	taken []sdk.ID
	err   error
	// asked, when not nil, is closed by the first Take.
	asked chan struct{}
}

func (k *quickKeeper) Take(_ context.Context, id sdk.ID) error {
	k.taken = append(k.taken, id)
	if k.asked != nil && len(k.taken) == 1 {
		close(k.asked)
	}
	return k.err
}

func (k *quickKeeper) Wake(context.Context) error { return k.err }

func (k *quickKeeper) State(context.Context) (string, bool) { return "runs", true }

func TestDetached(t *testing.T) {
	w := newWorld(t)
	text := w.fails(ExitWindlass, "run", "-d", "--", "true")
	if !strings.Contains(text, "WINDLASS_KEEPER=off") || len(w.engine.submitted) > 0 {
		t.Errorf("stderr %q, submitted %v", text, w.engine.submitted)
	}
	k := &quickKeeper{}
	w.keeper, w.env["WINDLASS_KEEPER"] = k, "on"
	id := strings.TrimSpace(w.ok("run", "-d", "-i", "--", "cat"))
	if len(k.taken) != 1 || k.taken[0].String() != id || len(id) != sdk.IDLen {
		t.Errorf("printed %q, taken %v", id, k.taken)
	}
	if got := w.engine.submitted[0].Spec.Stdin; got != sdk.StdinSpooled {
		t.Errorf("stdin %q, want spooled", got)
	}
	w.ok("run", "-d", "--json", "--", "true")
	validate(t, w.out.String())
	k.err = errors.New("no keeper")
	if text := w.fails(ExitWindlass, "run", "-d", "--", "true"); !strings.Contains(text, "hand run") {
		t.Errorf("stderr %q", text)
	}
}

// TestKeeperTakes checks that a run that lasts goes to the keeper, that it
// doesn't matter when it can't, and that a short run starts none.
func TestKeeperTakes(t *testing.T) {
	for _, err := range []error{nil, errors.New("no keeper")} {
		w := newWorld(t)
		k := &quickKeeper{err: err, asked: make(chan struct{})}
		w.keeper, w.env["WINDLASS_KEEPER"] = k, "on"
		w.engine.script = func(s *scripted, id sdk.ID) {
			<-k.asked
			s.finish(id, sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0)})
		}
		if got := w.run("run", "--", "true"); got != 0 {
			t.Errorf("exit %d", got)
		}
		if len(k.taken) != 1 {
			t.Errorf("taken %v", k.taken)
		}
		w.engine.script = endsWith(sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0)})
		if got := w.run("run", "--", "true"); got != 0 || len(k.taken) != 1 {
			t.Errorf("exit %d, a short run went to the keeper: %v", got, k.taken)
		}
	}
}

package cli

import (
	"context"
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

// becomes writes a state that isn't final.
func (s *scripted) becomes(id sdk.ID, phase ledger.Phase, state sdk.JobState, why sdk.Reason, message string) {
	s.w.t.Helper()
	s.write(id, ledger.NewEvent{Attempt: 1, Kind: ledger.KindObserved, Actor: "engine",
		Change: ledger.Change{V: 1, Phase: phase, State: state, Reason: &why, Message: &message}})
}

// TestSilenceIsTold: that a provider doesn't answer is said once on stderr, what
// changes of it once, and that it answers again once; of a run that ends there is
// nothing more to say.
func TestSilenceIsTold(t *testing.T) {
	w := newWorld(t)
	said := func(what string) {
		testwait.Until(t, soon, what, func() bool { return strings.Contains(w.err.String(), what) })
	}
	w.engine.script = func(s *scripted, id sdk.ID) {
		s.becomes(id, ledger.PhaseSubmitting, sdk.StatePending, sdk.ReasonUnknown, "no answer since 2026-05-04T12:00:00Z: run job: provider local: HTTP 503")
		said("local gives no answer since 2026-05-04T12:00:00Z: run job: provider local: HTTP 503; it is asked until it does")
		s.move() // nothing new
		s.becomes(id, ledger.PhaseSubmitting, sdk.StatePending, sdk.ReasonUnknown, "no answer since 2026-05-04T12:00:00Z; the start time-out has passed: HTTP 503")
		said("the start time-out has passed")
		s.becomes(id, ledger.PhaseSubmitted, sdk.StatePending, "", "")
		said("local answers again")
		s.becomes(id, ledger.PhaseRunning, sdk.StateRunning, sdk.ReasonUnknown, "no answer since 2026-05-04T13:00:00Z: cut")
		said("2026-05-04T13:00:00Z: cut")
		s.finish(id, sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0)})
	}
	if got := w.run("run", "--", "true"); got != 0 {
		t.Errorf("exit %d", got)
	}
	w.engine.wg.Wait()
	text := w.err.String()
	for part, n := range map[string]int{"gives no answer": 3, "answers again": 1, "13:00:00Z": 1} {
		if got := strings.Count(text, part); got != n {
			t.Errorf("%q stands there %d times, want %d:\n%s", part, got, n, text)
		}
	}
	if w.out.String() != "" {
		t.Errorf("stdout %q", w.out.String())
	}
}

// TestWaitIsTold: why a run hasn't started is said once for each reason on stderr, with
// the provider's words and what bounds the wait; a queue only when it takes long.
func TestWaitIsTold(t *testing.T) {
	const pull, tight = "ErrImagePull: nope: not found", "0/1 nodes are available: 1 Insufficient memory."
	play := func(w *world) {
		said := func(what string) {
			testwait.Until(t, soon, what, func() bool { return strings.Contains(w.err.String(), what) })
		}
		w.engine.script = func(s *scripted, id sdk.ID) {
			s.becomes(id, ledger.PhaseSubmitted, sdk.StatePending, "", "the pod's container is made")
			s.becomes(id, ledger.PhaseSubmitted, sdk.StatePending, sdk.ReasonQueued, "by a lock")
			s.becomes(id, ledger.PhaseSubmitted, sdk.StatePending, sdk.ReasonUnschedulable, tight+".")
			said("yet: unschedulable: " + tight + "; it ")
			s.becomes(id, ledger.PhaseSubmitted, sdk.StatePending, sdk.ReasonUnschedulable, "0/2 nodes")
			s.becomes(id, ledger.PhaseSubmitted, sdk.StatePending, sdk.ReasonImagePull, pull)
			said("yet: image_pull: " + pull + "; it ")
			s.becomes(id, ledger.PhaseSubmitted, sdk.StatePending, "", "")
			s.becomes(id, ledger.PhaseSubmitted, sdk.StatePending, sdk.ReasonImagePull, "ImagePullBackOff: "+pull)
			s.start(id)
			s.finish(id, sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0)})
		}
	}
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "--", "true"}, " hasn't started on local yet: image_pull: " + pull + "; it has no start time-out, so it waits until that changes\n"},
		{[]string{"run", "--start-timeout", "5m", "--", "true"}, "; it waits up to its start time-out of 5m0s\n"},
		{[]string{"run", "--json", "--", "true"}, ""},
		{[]string{"step", "run", "f.yaml"}, "step s0: run "},
	} {
		w := newWorld(t)
		w.steps("image: i, start_timeout: 5m")
		play(w)
		if x.args[1] == "--json" {
			// Its events are on stdout.
			w.engine.script = func(s *scripted, id sdk.ID) {
				s.becomes(id, ledger.PhaseSubmitted, sdk.StatePending, sdk.ReasonImagePull, pull)
				testwait.Until(t, soon, "event", func() bool { return strings.Contains(w.out.String(), "image_pull: "+pull) })
				s.finish(id, sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0)})
			}
		}
		w.ok(x.args...)
		w.engine.wg.Wait()
		text := w.err.String()
		if !strings.Contains(text, x.want) {
			t.Errorf("%q: %q isn't in\n%s", x.args, x.want, text)
		}
		if x.want != "" && (strings.Count(text, "hasn't started") != 2 || strings.Contains(text, "queued")) {
			t.Errorf("%q:\n%s", x.args, text)
		}
	}
	w := newWorld(t)
	w.engine.script = func(s *scripted, id sdk.ID) {
		s.becomes(id, ledger.PhaseSubmitted, sdk.StatePending, "", "CreateContainerConfigError: no such Secret")
		testwait.Until(t, soon, "words without a reason", func() bool {
			return strings.Contains(w.err.String(), "yet: CreateContainerConfigError: no such Secret; it ")
		})
		s.becomes(id, ledger.PhaseSubmitted, sdk.StatePending, sdk.ReasonQueued, "by a lock")
		testwait.Until(t, soon, "word of the queue", func() bool { return strings.Contains(w.err.String(), "yet: queued: by a lock; it ") })
		s.finish(id, sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0)})
	}
	if got := w.runIn(t.Context(), func(f *Factory) { f.quietTime = 20 * time.Millisecond }, "run", "--", "true"); got != 0 {
		t.Errorf("exit %d", got)
	}
}

// TestSilenceIsToldToFollowers: logs -f says so, too, rather than stand still.
func TestSilenceIsToldToFollowers(t *testing.T) {
	w, ids := seeded(t)
	w.engine.logEnd = false
	w.start(nil)
	done := make(chan int, 1)
	go func() { done <- run(t.Context(), w.f, []string{"logs", "-f", "running"}) }()
	testwait.Until(t, soon, "follower", func() bool { w.engine.mu.Lock(); defer w.engine.mu.Unlock(); return w.engine.recovered > 0 })
	w.engine.becomes(ids["running"], ledger.PhaseRunning, sdk.StateRunning, sdk.ReasonUnknown, "no answer since 2026-05-04T13:00:00Z: cut")
	testwait.Until(t, soon, "line about the silence", func() bool {
		return strings.Contains(w.err.String(), "gives no answer since 2026-05-04T13:00:00Z: cut; it is asked until it does")
	})
	w.engine.finish(ids["running"], sdk.StateFailed, sdk.ReasonNonzeroExit, ledger.Change{ExitCode: code(1)})
	if got := testwait.Receive(t, soon, "exit", done); got != 0 {
		t.Errorf("exit %d", got)
	}
}

// TestPlanWithoutAnswer: a provider that is asked something before the launch and
// leaves it without an answer is told of, attached and detached.
func TestPlanWithoutAnswer(t *testing.T) {
	for _, args := range [][]string{{"run", "--start-timeout", "5s", "--", "true"}, {"run", "-d", "--start-timeout", "5s", "--", "true"}} {
		w := newWorld(t)
		w.engine.onSubmit = func(control.SubmitRequest) error {
			testwait.Until(t, soon, "line about the provider", func() bool {
				return strings.Contains(w.err.String(), "local hasn't answered yet: nothing was started, so that --start-timeout doesn't count yet, and Ctrl-C leaves; each question to it has 30s (its call_timeout)")
			})
			return sdk.Errorf(sdk.Unavailable, "open provider", "no answer")
		}
		if got := w.runIn(t.Context(), func(f *Factory) { f.quietTime = 20 * time.Millisecond }, args...); got != ExitWindlass {
			t.Errorf("%q: exit %d, %s", args, got, w.err.String())
		}
	}
}

// TestLaunchWithoutAnswer: a launch whose call takes long is told of, unless the
// driver tells of its progress; so is one that is tried again.
func TestLaunchWithoutAnswer(t *testing.T) {
	w := newWorld(t)
	w.engine.script = func(s *scripted, id sdk.ID) {
		s.becomes(id, ledger.PhaseSubmitting, sdk.StatePending, "", "")
		testwait.Until(t, soon, "line about the launch", func() bool {
			return strings.Contains(w.err.String(), "local hasn't answered the launch yet")
		})
		s.becomes(id, ledger.PhaseSubmitting, sdk.StatePending, sdk.ReasonInfrastructure, "HTTP 503")
		testwait.Until(t, soon, "line about the refusal", func() bool {
			return strings.Contains(w.err.String(), "local can't be sent the launch at present: HTTP 503; it is tried again")
		})
		s.becomes(id, ledger.PhaseSubmitted, sdk.StatePending, "", "")
		testwait.Until(t, soon, "line about the answer", func() bool { return strings.Contains(w.err.String(), "answers again") })
		s.finish(id, sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0)})
	}
	if got := w.runIn(t.Context(), func(f *Factory) { f.quietTime = 20 * time.Millisecond }, "run", "--", "true"); got != 0 {
		t.Errorf("exit %d", got)
	}
	if got := strings.Count(w.err.String(), "hasn't answered the launch"); got != 1 {
		t.Errorf("told %d times:\n%s", got, w.err.String())
	}
}

// TestCancelWithoutProof: the first signal says what stands in the way, and later
// why there is no proof yet; the second leaves.
func TestCancelWithoutProof(t *testing.T) {
	w := newWorld(t)
	w.engine.script = func(s *scripted, id sdk.ID) {
		s.becomes(id, ledger.PhaseSubmitting, sdk.StatePending, sdk.ReasonUnknown, "no answer since 2026-05-04T12:00:00Z: HTTP 503")
	}
	i := &interrupts{}
	done := make(chan int, 1)
	w.start(func(f *Factory) { f.interrupts, f.quietTime = i, 20*time.Millisecond })
	go func() { done <- run(t.Context(), w.f, []string{"run", "--", "sh"}) }()
	said := func(what string) {
		t.Helper()
		testwait.Until(t, soon, what, func() bool { return strings.Contains(w.err.String(), what) })
	}
	said("gives no answer")
	i.deliver(os.Interrupt)
	said("waiting for proof that it is gone, which can't come before local answers; once more leaves at once")
	said("nothing proves yet that it is gone (pending")
	i.mu.Lock()
	i.last = i.last.Add(-2 * sameWish)
	i.mu.Unlock()
	i.deliver(os.Interrupt)
	if got := testwait.Receive(t, soon, "exit", done); got != ExitInterrupted {
		t.Errorf("exit %d", got)
	}
	w.engine.wg.Wait()
}

// bare is a provider that can do nothing but be there: its runs have no cancel and are
// never found.
type bare struct{ sdk.Provider }

func (bare) Info() sdk.Info { return sdk.Info{Name: "local"} }

// TestDoubtIsTold: that a run has become unknown is said once on stderr, with its reason
// and what to do; so is that it is known again.
func TestDoubtIsTold(t *testing.T) {
	for _, c := range []struct {
		why        sdk.Reason
		said, want string
	}{
		{sdk.ReasonSubmitUnconfirmed, "the reply to the launch was lost and the job can't be found; it may run",
			" is unknown: submit_unconfirmed: the reply to the launch was lost and the job can't be found; it may run; windlass status RUN tells more; look on local whether the job is there, and windlass abandon RUN --reason WHY ends the record\n"},
		{sdk.ReasonCredentials, "the token has expired.", " is unknown: credentials: the token has expired; renew the credentials: windlass status RUN hands them over"},
		{sdk.ReasonPermissionDenied, "no right", " is unknown: permission_denied: no right; grant the right"},
	} {
		w := newWorld(t)
		w.engine.script = func(s *scripted, id sdk.ID) {
			want := forRun(c.want, id)
			s.becomes(id, ledger.PhaseSubmitting, sdk.StateUnknown, c.why, c.said)
			testwait.Until(t, soon, "line about the doubt", func() bool { return strings.Contains(w.err.String(), want) })
			s.move()
			s.becomes(id, ledger.PhaseSubmitted, sdk.StatePending, "", "")
			testwait.Until(t, soon, "line about its end", func() bool { return strings.Contains(w.err.String(), "is known again: pending\n") })
			s.finish(id, sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0)})
		}
		w.ok("run", "--", "true")
		w.engine.wg.Wait()
		if text := w.err.String(); strings.Count(text, "is unknown") != 1 || strings.Count(text, "known again") != 1 {
			t.Errorf("%s: %s", c.why, text)
		}
	}
}

// TestFirstSignalLeavesWhatNothingCancels: where no proof can ever come, the request goes
// on record and the first signal leaves; a run that was never sent ends by the request.
func TestFirstSignalLeavesWhatNothingCancels(t *testing.T) {
	for name, c := range map[string]struct {
		phase    ledger.Phase
		state    sdk.JobState
		why      sdk.Reason
		provider sdk.Provider
		ends     bool
		want     []string
	}{
		"running": {ledger.PhaseRunning, sdk.StateRunning, "", bare{}, false, []string{"SIGTERM: local can't end jobs, so that nothing here can cancel run RUN", "left run RUN", "windlass status RUN tells"}},
		"unknown": {ledger.PhaseSubmitting, sdk.StateUnknown, sdk.ReasonSubmitUnconfirmed, bare{}, false,
			[]string{"SIGTERM: local can't end jobs", "windlass abandon RUN --reason WHY ends the record\n"}},
		"unknown, with a cancel": {ledger.PhaseSubmitting, sdk.StateUnknown, sdk.ReasonSubmitUnconfirmed, ending{}, false,
			[]string{"SIGTERM: local can't tell whether the launch was taken, so that nothing here can cancel run RUN", "windlass abandon RUN"}},
		"unsent":         {ledger.PhaseIntent, sdk.StatePending, sdk.ReasonQueued, bare{}, true, []string{"SIGTERM: cancelling run RUN", `"state":"cancelled"`}},
		"sent after all": {ledger.PhaseIntent, sdk.StatePending, sdk.ReasonQueued, bare{}, false, []string{"SIGTERM: cancelling run RUN", "left run RUN"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.engine.backend = c.provider
			there := make(chan sdk.ID, 1)
			w.engine.script = func(s *scripted, id sdk.ID) {
				said := func(what string) {
					testwait.Until(t, soon, what, func() bool { return strings.Contains(w.out.String(), what) })
				}
				if c.phase != ledger.PhaseIntent { // its words show that the command has seen it
					s.becomes(id, ledger.PhaseSubmitting, sdk.StateUnknown, sdk.ReasonSubmitUnconfirmed, "words")
					said("is unknown")
				}
				if s.becomes(id, c.phase, c.state, c.why, "words"); c.state == sdk.StateRunning {
					said("known again")
				}
				there <- id
			}
			w.engine.onCancel = func(s *scripted, id sdk.ID) {
				switch {
				case c.ends:
					s.finish(id, sdk.StateCancelled, sdk.ReasonCancelled, ledger.Change{})
				case c.phase == ledger.PhaseIntent:
					s.start(id)
				}
			}
			i := &interrupts{}
			done := make(chan int, 1)
			w.start(func(f *Factory) { f.interrupts = i })
			go func() { done <- run(t.Context(), w.f, []string{"run", "--allow-no-cancel", "--json", "--", "sh"}) }()
			id := testwait.Receive(t, soon, "row", there)
			testwait.Until(t, soon, "handler", func() bool {
				i.mu.Lock()
				defer i.mu.Unlock()
				return i.handler != nil
			})
			i.deliver(syscall.SIGTERM)
			if got := testwait.Receive(t, soon, "exit", done); got != ExitInterrupted {
				t.Errorf("exit %d", got)
			}
			w.engine.wg.Wait()
			for _, s := range c.want {
				if want := forRun(s, id); !strings.Contains(w.err.String()+w.out.String(), want) {
					t.Errorf("%q isn't in\n%s%s", want, w.err.String(), w.out.String())
				}
			}
			if n := len(w.engine.cancels); n != 1 {
				t.Errorf("%d requests to cancel are on record", n)
			}
		})
	}
}

// TestCancelSaysThatNothingCancels: windlass cancel says what it waits for where the
// provider can't end jobs, unless the run was never sent.
func TestCancelSaysThatNothingCancels(t *testing.T) {
	for _, sent := range []bool{true, false} {
		w := newWorld(t)
		var id sdk.ID
		w.seed(func(s *scripted) {
			if id = s.add("prod", sdk.JobSpec{V: 1, Args: sdk.Argv{"true"}}, ""); sent {
				s.start(id)
			}
		})
		w.engine.backend = bare{}
		w.engine.onCancel = func(s *scripted, id sdk.ID) {
			s.finish(id, sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0)})
		}
		w.ok("cancel", id.String())
		want := "prod can't end jobs: that run " + id.Short() + " should end is on record, and it is waited for to end by itself; Ctrl-C leaves\n"
		if strings.Contains(w.err.String(), want) != sent {
			t.Errorf("sent %t: %q", sent, w.err.String())
		}
	}
}

// ending is a provider whose jobs can be ended, and not found.
type ending struct{ bare }

func (ending) CancelJob(context.Context, sdk.CancelJobRequest) (sdk.CancelJobResult, error) {
	return sdk.CancelJobResult{}, nil
}

// lateKeeper takes a run once the test has written what it wants of it.
type lateKeeper struct {
	quickKeeper
	written chan struct{}
}

func (k *lateKeeper) Take(context.Context, sdk.ID) error {
	<-k.written
	return nil
}

// TestPartOfTheOutput: a run whose output is still being fetched has it said that
// more may come; one that is drained, or follows, hasn't.
func TestPartOfTheOutput(t *testing.T) {
	w := newWorld(t)
	var id sdk.ID
	w.engine.script = func(s *scripted, run sdk.ID) {
		id = run
		s.finish(run, sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0)})
	}
	w.ok("run", "--", "true")
	if w.ok("logs", id.String()); w.err.String() != "" {
		t.Errorf("of a drained run: %s", w.err.String())
	}
	var open sdk.ID
	k := lateKeeper{written: make(chan struct{})}
	w.engine.script = func(s *scripted, run sdk.ID) {
		open = run
		cancelled := sdk.ReasonCancelled
		s.write(run, ledger.NewEvent{Attempt: 1, Kind: ledger.KindEnded, Actor: "engine",
			Change: ledger.Change{V: 1, Phase: ledger.PhaseEnded, State: sdk.StateCancelled, Reason: &cancelled, EndedAt: w.now}})
		close(k.written)
	}
	w.keeper, w.env["WINDLASS_KEEPER"] = &k, "on"
	w.ok("run", "-d", "--", "true")
	w.engine.wg.Wait()
	if w.ok("logs", open.String()); !strings.Contains(w.err.String(), "more may come; windlass logs -f "+open.Short()) {
		t.Errorf("of one that is being fetched: %q", w.err.String())
	}
}

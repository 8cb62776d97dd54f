package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// attach submits a request and stays: output as it comes, the job's exit code,
// cancel at the first signal and leave at the second.
func attach(ctx context.Context, f *Factory, s *Session, req control.SubmitRequest, asJSON bool) error {
	defer surviveBrokenPipe()()
	out := newSink(f.Streams, sdk.ID{}, asJSON)
	var told atomic.Pointer[herald]
	req.Progress = func(line string) {
		if h := told.Load(); h != nil {
			h.heard()
		}
		if asJSON {
			_ = out.event(Event{Event: eventProgress, Message: line})
			return
		}
		f.Streams.hint("%s", line)
	}
	// From here to the row a signal ends the call. What may have been made
	// stands in the ledger, and is taken up by the next command.
	answered := f.planning(req)
	sub, err := s.Engine.Submit(ctx, req)
	answered()
	if err != nil {
		return err
	}
	id := sub.Run.ID
	out.setRun(id)
	a := &attachment{f: f, s: s, run: id, sent: sub.Run, out: out, actor: req.Actor,
		cancelled: make(chan struct{}), quit: make(chan os.Signal, 1), over: make(chan struct{})}
	defer close(a.over)
	if back, err := s.Providers.Backend(context.WithoutCancel(ctx), sub.Run.Provider); err == nil { // open since it was submitted
		a.noCancel, a.noFind = !sdk.Has(back.Provider, sdk.Canceler().String()), !sdk.Has(back.Provider, sdk.Finder().String())
	}
	a.herald = f.newHerald(sub.Run, f.graceOf(sub.Run), func(format string, args ...any) {
		if asJSON {
			_ = out.event(Event{Event: eventProgress, Message: fmt.Sprintf(format, args...)})
			return
		}
		f.Streams.note(format, args...)
	})
	told.Store(a.herald)
	f.interrupts.handle(a.signal)
	defer f.interrupts.handle(nil)
	if ctx.Err() != nil {
		// The signal came just before we took over.
		a.signal(1, os.Interrupt)
	}
	a.begun(sub, asJSON)
	run, err := a.see(context.WithoutCancel(ctx))
	if err != nil {
		return &runError{id, err}
	}
	a.settle(context.WithoutCancel(ctx))
	return a.end(ctx, run)
}

// graceOf is how long a run's job may take to end before it is killed: by its own
// grace, else its provider's default, or its platform's own; 0 is none, or not known.
func (f *Factory) graceOf(run ledger.Run) time.Duration {
	var g sdk.GraceGuarantee
	if d := f.driverOf(run.Provider); d != nil {
		g = d.Guarantees.Grace
	}
	grace := g.Default
	if spec, err := sdk.DecodeSpec(run.Spec); err == nil && spec.Grace != nil {
		grace = *spec.Grace
	}
	return g.UntilKilled(grace)
}

// attachment is an attached run.
type attachment struct {
	f     *Factory
	s     *Session
	run   sdk.ID
	out   *sink
	actor string
	// sent is the run as it was submitted.
	sent   ledger.Run
	herald *herald
	// noCancel: the provider can't end jobs. noFind: nor find one whose launch lost
	// its reply.
	noCancel, noFind bool

	// over is closed when the command is done with the run.
	over chan struct{}
	// cancelled is closed once the request to cancel is on record, or failed.
	cancelled chan struct{}
	quit      chan os.Signal
}

// begun tells of the run, on a terminal or in JSON.
func (a *attachment) begun(sub control.Submitted, asJSON bool) {
	a.out.onGone = func() {
		a.f.Streams.note("run %s: nobody reads the output any more; the job goes on, windlass logs %s has the rest", a.run.Short(), a.run.Short())
	}
	if asJSON {
		v := viewRun(sub.Run, nil)
		_ = a.out.event(Event{Event: eventSubmitted, State: &v})
	}
	if sub.Existing {
		a.f.Streams.note("run %s has this idempotency key already; attached to it", a.run.Short())
	}
	for _, w := range sub.Launch.Warnings {
		a.f.Streams.note("run %s: %s", a.run.Short(), w)
	}
	a.f.Streams.hint("run %s on %s; %s", a.run.Short(), sub.Run.Provider, nextWords(a.run))
}

// signal is called for each signal that asks to end: the first cancels, the
// second leaves.
func (a *attachment) signal(n int, sig os.Signal) {
	if sig == os.Interrupt && a.f.Streams.ErrTerminal {
		a.f.Streams.midLine.Store(true) // the terminal has shown ^C
	}
	if n > 1 {
		select {
		case a.quit <- sig:
		default:
		}
		return
	}
	why := a.beyondCancel()
	if why != "" {
		a.f.Streams.note("%s: %s, so that nothing here can cancel run %s; it stays on record, and this command leaves it", signalName(sig), why, a.run.Short())
	} else {
		wait := a.herald.outage()
		if wait == "" {
			wait = a.f.graceWords(a.sent)
		}
		a.f.Streams.note("%s: cancelling run %s and waiting for proof that it is gone%s; once more leaves at once", signalName(sig), a.run.Short(), wait)
	}
	go func() {
		err := a.s.Engine.Cancel(context.Background(), control.CancelRequest{Run: a.run, Actor: a.actor, Why: signalName(sig)})
		if err != nil {
			a.f.Streams.note("run %s could not be cancelled: %v; windlass cancel %s tries again", a.run.Short(), err, a.run.Short())
		}
		close(a.cancelled)
		if why == "" {
			if !a.noCancel {
				return
			}
			// It hasn't been sent yet, and the request alone ends it, unless that came
			// too late.
			t := time.NewTimer(unsentTime)
			defer t.Stop()
			select {
			case <-a.over:
				return
			case <-t.C:
			}
			if a.beyondCancel() == "" {
				return
			}
		}
		select {
		case a.quit <- sig:
		default:
		}
	}()
}

// beyondCancel says why a cancel could never be proven, so that waiting for it would
// have no end; empty where it may be.
func (a *attachment) beyondCancel() string {
	row := a.herald.row()
	switch {
	case row.State.Terminal() || unsent(row):
	case a.noCancel:
		return a.sent.Provider + " can't end jobs"
	case a.noFind && unconfirmed(row):
		return a.sent.Provider + " can't tell whether the launch was taken"
	}
	return ""
}

// unsent reports whether a run's provider has heard nothing of it yet.
func unsent(run ledger.Run) bool { return run.Phase == "" || run.Phase == ledger.PhaseIntent }

// unsentTime is how long a run that wasn't sent may take to end by the request alone.
const unsentTime = time.Second

// graceWords say how long a run's job may take to end before it is killed, or that
// its provider keeps that to itself.
func (f *Factory) graceWords(run ledger.Run) string {
	if grace := f.graceOf(run); grace > 0 {
		return ", which takes up to " + span(grace) + " if it doesn't end when asked"
	}
	if d := f.driverOf(run.Provider); d != nil && !d.Guarantees.Grace.Supported {
		return ", which takes as long as " + run.Provider + " gives a job that doesn't end when asked"
	}
	return ""
}

// errLeft says that the second signal came.
var errLeft = errors.New("left")

// see shows the output until the run is drained, and returns its row then.
func (a *attachment) see(ctx context.Context) (ledger.Run, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	minded := a.s.mind(ctx, a.run)
	defer func() {
		stop(nil)
		over := func() {
			minded()
			wg.Wait()
		}
		if !a.f.left.Load() {
			over()
			return
		}
		within(leaveTime, over)
	}()

	shown := make(chan error, 1)
	wg.Add(1)
	go func() {
		defer wg.Done()
		shown <- a.show(ctx)
	}()
	type result struct {
		run ledger.Run
		err error
	}
	over := make(chan result, 1)
	wg.Add(1)
	go func() {
		defer wg.Done()
		run, err := a.herald.wait(ctx, a.s.Engine, a.milestone())
		over <- result{run, err}
	}()
	if k := a.s.Keeper; k != nil {
		// Off the critical path: a short run is over before the keeper is up.
		wg.Add(1)
		go func() {
			defer wg.Done()
			if !a.longEnough(ctx) {
				return
			}
			if err := k.Take(ctx, a.run); err != nil && ctx.Err() == nil {
				a.f.Streams.hint("run %s stays with this command: %v", a.run.Short(), err)
			}
		}()
	}
	var res result
	var haveOutput, haveEnd bool
	for !haveOutput || !haveEnd {
		select {
		case res = <-over:
			haveEnd = true
			if res.err != nil {
				return res.run, res.err
			}
		case err := <-shown:
			haveOutput = true
			if err != nil {
				a.f.Streams.note("run %s: its output can't be shown: %v", a.run.Short(), err)
			}
		case <-a.quit:
			stop(errLeft)
			return res.run, a.leave()
		}
	}
	return res.run, nil
}

// keeperAfter is how long a run goes on before a keeper is asked to take it: a
// run that ends sooner is finished by its own command, and starts none.
const keeperAfter = 400 * time.Millisecond

// longEnough waits that time; false when the run was over before.
func (a *attachment) longEnough(ctx context.Context) bool {
	t := time.NewTimer(keeperAfter)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// settle gives a run that this command still drives the time to be cleaned up,
// and hands it to the keeper when that takes long.
func (a *attachment) settle(ctx context.Context) {
	if a.s.Keeper == nil || !slices.Contains(a.s.Engine.Held(), a.run) {
		return
	}
	wait, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if _, err := a.s.Engine.Wait(wait, a.run, control.MilestoneFinished); err == nil {
		return
	}
	if err := a.s.Keeper.Take(ctx, a.run); err != nil {
		a.f.Streams.note("run %s is over but not cleaned up yet, and no keeper takes it: %v; the next windlass command goes on", a.run.Short(), err)
	}
}

// settleTime bounds the wait for clean-up.
const settleTime = 5 * time.Second

// recordTime bounds how long leaving waits for the cancel to be on record.
const recordTime = time.Second

// milestone is where an attached run is over: with a keeper when its output is
// complete, without one when nothing is left to do.
func (a *attachment) milestone() control.Milestone {
	if a.s.Keeper == nil {
		return control.MilestoneFinished
	}
	return control.MilestoneDrained
}

// show passes the output on.
func (a *attachment) show(ctx context.Context) error {
	for it, err := range a.s.Engine.Follow(ctx, a.run, control.FollowOptions{Follow: true}) {
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if err := a.out.item(it); err != nil {
			return err
		}
	}
	return nil
}

// leave says how to find the run that is left behind.
func (a *attachment) leave() error {
	// The request is under way since the first signal; a moment puts it on
	// record.
	t := time.NewTimer(recordTime)
	defer t.Stop()
	select {
	case <-a.cancelled:
	case <-t.C:
	}
	a.f.left.Store(true)
	next := forRun("windlass status RUN tells what becomes of it", a.run)
	if a.herald.row().State == sdk.StateUnknown {
		next += forRun(", windlass abandon RUN --reason WHY ends the record", a.run)
	}
	a.f.Streams.note("left run %s before it was proven to be gone; %s", a.run.Short(), next)
	return exitError{ExitInterrupted}
}

// end says what people should know of the outcome, and returns the exit code.
func (a *attachment) end(ctx context.Context, run ledger.Run) error {
	last := lastAttempt(context.WithoutCancel(ctx), a.s.Store, run.ID)
	if a.out.lines {
		v := viewRun(run, last)
		_ = a.out.event(Event{Event: eventEnd, State: &v})
	} else {
		tellOutcome(a.f.Streams, run, last)
	}
	if err := a.f.sweep(context.WithoutCancel(ctx), a.s); err != nil {
		a.f.Streams.hint("expired output is left for the next time: %v", err)
	}
	return withExit(outcomeOf(run, last).exit())
}

// lastAttempt reads a run's last attempt; nil when there is none to be read.
func lastAttempt(ctx context.Context, s ledger.Store, id sdk.ID) *ledger.Attempt {
	if s == nil {
		return nil
	}
	list, err := s.Attempts(ctx, id)
	if err != nil || len(list) == 0 {
		return nil
	}
	return &list[len(list)-1]
}

// tellOutcome says on stderr what the exit code and the output don't tell: a
// plain end, with 0 or with the job's own code, says nothing.
func tellOutcome(s *Streams, run ledger.Run, last *ledger.Attempt) {
	if !isRun(run) {
		tellChange(s, run)
		return
	}
	short := run.ID.Short()
	switch {
	case run.State == sdk.StateSucceeded, run.Reason == sdk.ReasonNonzeroExit && exitShown(run, last):
	case run.State == sdk.StateCancelled:
		by := ""
		if run.CancelBy != "" {
			by = " (asked for by " + run.CancelBy + ")"
		}
		s.note("run %s was cancelled%s", short, by)
	case last != nil && last.Raw[sdk.RawExec] == sdk.ExecNotFound:
		s.fail("run %s: the command wasn't found%s", short, messageWords(run))
	case last != nil && last.Raw[sdk.RawExec] == sdk.ExecNotExecutable:
		s.fail("run %s: the command can't be executed%s", short, messageWords(run))
	default:
		s.fail("run %s: %s%s", short, stateWords(run), outcomeWords(run))
		if remedy := runRemedy(run); remedy != "" {
			s.fail("  to do: %s", forRun(remedy, run.ID))
		}
	}
	if run.OOM && run.Reason != sdk.ReasonOOMKilled {
		s.note("run %s: a process of it was killed for memory", short)
	}
	switch run.Verdict {
	case "", sdk.VerdictComplete, sdk.VerdictQuiet:
	default:
		s.note("run %s: its output isn't whole: %s", short, verdictWords(run.Verdict))
	}
}

// exitShown reports whether the exit code alone tells of the outcome.
func exitShown(run ledger.Run, last *ledger.Attempt) bool {
	return run.ExitCode != nil && outcomeOf(run, last).exit() == *run.ExitCode
}

// outcomeWords say why a run ended so. Where the provider's own words name the
// cause, those of the reason would only stand in front of them: the reason's name
// is there, and windlass explain knows it.
func outcomeWords(run ledger.Run) string {
	switch run.Reason {
	case sdk.ReasonImagePull, sdk.ReasonInvalidSpec, sdk.ReasonFailedToStart, sdk.ReasonInfrastructure, sdk.ReasonPermissionDenied,
		sdk.ReasonCredentials, sdk.ReasonQuota, sdk.ReasonSupervisorLost, sdk.ReasonUnschedulable, sdk.ReasonCapacity:
		if run.Message != "" {
			return messageWords(run)
		}
	}
	return ": " + midSentence(strings.TrimSuffix(whyWords(run.State, run.Reason), ".")) + messageWords(run)
}

// midSentence is a sentence as it goes on behind other words.
func midSentence(text string) string {
	first, n := utf8.DecodeRuneInString(text)
	second, _ := utf8.DecodeRuneInString(text[n:])
	if unicode.IsUpper(first) && (unicode.IsLower(second) || second == ' ') {
		return string(unicode.ToLower(first)) + text[n:]
	}
	return text
}

// messageWords is a run's message without the words that say where it comes
// from: the line has said which run, and the run knows its provider.
func messageWords(run ledger.Run) string {
	m := run.Message
	for _, p := range []string{"run job: ", "provider " + run.Provider + ": ", "Error response from daemon: ", "fetch the image: ", "Error response from daemon: "} {
		m = strings.TrimPrefix(m, p)
	}
	// What a container runtime says around its reason.
	if _, cause, ok := strings.Cut(m, "unable to start container process: "); ok {
		m = strings.TrimSuffix(cause, ": unknown")
	}
	if m == "" {
		return ""
	}
	return ": " + m
}

func verdictWords(v sdk.Verdict) string {
	switch v {
	case sdk.VerdictComplete:
		return "complete, its end is proven"
	case sdk.VerdictQuiet:
		return "complete as far as can be told: nothing more came for the provider's settling time"
	case sdk.VerdictTruncatedByProvider:
		return "the provider dropped a part"
	case sdk.VerdictTruncatedByUs:
		return "it was longer than is kept, so only its head and its tail are"
	case sdk.VerdictGap:
		return "a part in between is missing"
	case sdk.VerdictUnavailable:
		return "it could not be read from the provider"
	}
	return string(v)
}

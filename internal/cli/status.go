package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

type statusOptions struct {
	f    *Factory
	ref  string
	on   string
	json bool
}

func newStatus(f *Factory, runF func(context.Context, *statusOptions) error) *cobra.Command {
	o := &statusOptions{f: f}
	cmd := &cobra.Command{
		Use:   "status RUN",
		Short: "Say how a run stands, and why",
		Long: `Say how a run stands and why: its state, the reason in words, the provider's own
words, every attempt, how much of its output was captured, and what to do next.

RUN is an ID, a unique end of one of at least six characters, or a name, which
means the newest run that had it. With --on the run is found on the provider by
its labels, also one that another machine submitted; RUN is its full ID then.`,
		Example: `  windlass status nightly
  windlass status --on prod 01k7zq3m5e8v9r2t4w6y8a0c1d`,
		Args: exactly(1, "RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run(cmd.Context())
		},
		ValidArgsFunction: f.completeRuns(false, nil),
	}
	fs := cmd.Flags()
	fs.StringVar(&o.on, "on", "", "find the run on this `provider` by its labels")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	complete(cmd, "on", f.completeProviders)
	return cmd
}

func (o *statusOptions) run(ctx context.Context) error {
	if o.on != "" {
		return remoteStatus(ctx, o.f, o.on, o.ref, o.json)
	}
	session, run, err := o.f.look(ctx, o.ref)
	if err != nil {
		return err
	}
	if run.Reason == sdk.ReasonCredentials && !run.State.Terminal() {
		// This command's may be the ones that it waits for.
		if err := o.f.attend(ctx, session, run); err != nil {
			o.f.Streams.note("run %s: credentials not handed over: %v", run.ID.Short(), err)
		}
	}
	if !isRun(run) {
		if run, err = o.settled(ctx, session, run); err != nil {
			return &runError{run.ID, fmt.Errorf("status: %w", err)}
		}
	}
	attempts, err := session.Store.Attempts(ctx, run.ID)
	if err != nil {
		return &runError{run.ID, fmt.Errorf("status: %w", err)}
	}
	var last *ledger.Attempt
	if len(attempts) > 0 {
		last = &attempts[len(attempts)-1]
	}
	removed := run.State.Terminal() && outputRemoved(ctx, session, run.ID)
	held := isHeld(ctx, session, run)
	var came map[string]any
	if !isRun(run) {
		if came, err = viewOutcome(ctx, session.Store, run.ID); err != nil {
			return &runError{run.ID, fmt.Errorf("status: %w", err)}
		}
	}
	if o.json {
		v := viewRun(run, last)
		v.Spec, v.Next, v.Removed = viewSpec(run), nextFor(run, removed), removed
		v.Held = &held
		if came != nil {
			v.Outcome = came
		}
		for _, a := range attempts {
			v.Attempts = append(v.Attempts, viewAttempt(a))
		}
		return writeJSON(o.f.Streams.Out, v)
	}
	return o.print(run, attempts, came, removed, held)
}

// settled returns the row of a change, after a look at what became of one that a killed
// command left.
func (o *statusOptions) settled(ctx context.Context, s *Session, r ledger.Run) (ledger.Run, error) {
	left, err := s.Engine.Orphaned(ctx, r.ID)
	if err != nil || !left || s.ReadOnly {
		return r, err
	}
	if _, err := s.Engine.SettleActions(ctx); err != nil {
		return r, err
	}
	return s.Store.Run(ctx, r.ID)
}

// isHeld reports whether a process that lives looks after a run. The row of one
// whose holder was killed still names it.
func isHeld(ctx context.Context, s *Session, r ledger.Run) bool {
	if r.Holder.IsZero() {
		return false
	}
	free, err := s.Engine.Orphaned(ctx, r.ID)
	return err != nil || !free
}

// outputRemoved reports whether windlass rm or retention took a run's output.
func outputRemoved(ctx context.Context, s *Session, run sdk.ID) bool {
	for _, err := range s.Engine.Follow(ctx, run, control.FollowOptions{}) {
		var e *sdk.Error
		return errors.As(err, &e) && e.ID == joblog.ErrIDExpired
	}
	return false
}

func (o *statusOptions) print(r ledger.Run, attempts []ledger.Attempt, came map[string]any, removed, held bool) error {
	s, now := o.f.Streams, o.f.Now()
	t := &fields{s: s}
	t.add("Run", r.ID.String())
	t.add("Name", r.Name)
	t.styled("State", stateWords(r), stateStyle(r.State))
	t.add("Why", whyOf(r))
	t.add("Message", r.Message)
	if r.CancelBy != "" {
		t.add("Cancel", "asked for by "+r.CancelBy+" "+ago(now, r.CancelAt)+because(r.CancelWhy))
	}
	if r.ExitCode != nil {
		t.add("Exit code", strconv.Itoa(*r.ExitCode))
	}
	t.add("Signal", r.Signal)
	if r.OOM {
		t.add("Memory", "a process of the job was killed for memory")
	}
	t.add("Provider", r.Provider+" ("+r.Identity.String()+")")
	if isRun(r) {
		t.add("Command", commandLine(r))
	} else {
		addAsked(t, r)
		for _, k := range sortedKeys(came) {
			addMember(t, "Outcome", k, came[k])
		}
	}
	t.add("Requested", stamp(r.RequestedAt)+" by "+r.Actor+", "+ago(now, r.RequestedAt))
	if !r.StartedAt.IsZero() {
		t.add("Started", stamp(r.StartedAt))
	}
	if !r.EndedAt.IsZero() {
		text := stamp(r.EndedAt)
		if !r.StartedAt.IsZero() {
			text += ", after " + span(r.EndedAt.Sub(r.StartedAt))
		}
		t.add("Ended", text)
	}
	if !r.NotBefore.IsZero() && r.NotBefore.After(now) {
		t.add("Next attempt", "in "+span(r.NotBefore.Sub(now)))
	}
	switch {
	case removed:
		t.add("Output", "removed, by windlass rm or as retention.logs says")
	case r.Verdict != "":
		t.add("Output", verdictWords(r.Verdict))
	}
	t.add("Record", recordWords(r, held))
	if len(attempts) > 0 {
		a := attempts[len(attempts)-1]
		if a.Launches > 1 {
			t.add("Launches", fmt.Sprintf("the provider itself started the container %d times", a.Launches))
		}
		t.add("Clean-up", cleanupWords(a))
		t.wordsOf(a.Raw, r.Message)
	}
	for _, n := range nextFor(r, removed) {
		t.add("Next", n)
	}
	if err := t.print(); err != nil {
		return err
	}
	if len(attempts) < 2 {
		return nil
	}
	return o.attempts(attempts, now)
}

func (o *statusOptions) attempts(attempts []ledger.Attempt, now time.Time) error {
	s := o.f.Streams
	if _, err := fmt.Fprintln(s.Out); err != nil {
		return err
	}
	t := &table{head: []string{"ATTEMPT", "STATE", "PHASE", "EXIT", "TOOK", "OUTPUT", "MESSAGE"}, flex: 6, wrap: true}
	for _, a := range attempts {
		code := ""
		if a.ExitCode != nil {
			code = strconv.Itoa(*a.ExitCode)
		}
		state := string(a.State)
		if a.Reason != "" && string(a.Reason) != state {
			state += " (" + string(a.Reason) + ")"
		}
		t.add(plain(strconv.Itoa(a.Number)), cell{state, stateStyle(a.State)}, plain(string(a.Phase)), plain(code),
			plain(took(firstTime(a.StartedAt, a.SeenRunning), a.EndedAt, now, a.State.Terminal())), plain(string(a.Verdict)), plain(a.Message))
	}
	return t.print(s)
}

// recordWords says what is left to do for a run.
func recordWords(r ledger.Run, held bool) string {
	switch {
	case !r.Open():
		return "finished: nothing is left to do"
	case !held:
		return "open: no process looks after it at the moment; windlass wait " + r.ID.Short() + " takes it up"
	}
	return "open: a process looks after it, phase " + string(r.Phase)
}

func cleanupWords(a ledger.Attempt) string {
	switch {
	case a.CleanupErr != "":
		return "failed and is tried again: " + a.CleanupErr
	case a.Phase == ledger.PhaseKept:
		return "what the run made is kept, as --cleanup asks"
	}
	return ""
}

// nextFor are the commands that make sense for a run.
func nextFor(r ledger.Run, removed bool) []string {
	if !isRun(r) {
		return nextForAction(r)
	}
	id := r.ID.Short()
	var out []string
	if r.State.Terminal() {
		if r.State != sdk.StateSucceeded {
			if remedy := runRemedy(r); remedy != "" && !strings.Contains(remedy, "windlass logs") {
				out = append(out, forRun(remedy, r.ID))
			}
		}
		if r.Attempt > 0 && !r.StartedAt.IsZero() && !removed {
			out = append(out, "windlass logs "+id)
		}
		return append(out, "windlass rerun "+id)
	}
	switch {
	case control.Missing(r): // it is found again, or lost, by itself
	case control.Silent(r) && r.State != sdk.StateUnknown:
		out = append(out, "windlass provider check tells whether the provider answers")
	case r.Reason != sdk.ReasonQueued:
		if remedy := runRemedy(r); remedy != "" {
			out = append(out, forRun(remedy, r.ID))
		}
	}
	return append(out, "windlass logs -f "+id, "windlass wait "+id, "windlass cancel "+id)
}

func stamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 -07:00") }

func ago(now, t time.Time) string { return age(now.Sub(t)) + " ago" }

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// quietTime is how long a provider may leave a launch, or a cancel past the job's
// grace, without an answer before people are told what is waited for.
const quietTime = 10 * time.Second

// herald tells on stderr why a run stands still: once when its provider stops
// answering or doesn't find the job, once when that is over, once for each reason that
// keeps it from starting or makes it unknown, and why a cancel isn't proven yet.
type herald struct {
	f   *Factory
	say func(format string, args ...any)
	// grace is the job's own time to end.
	grace time.Duration

	mu  sync.Mutex
	run ledger.Run
	// told is the outage that was told of, empty for none.
	told string
	// missed: it was told that the job isn't found.
	missed bool
	// doubt is the reason that was told last why the run is unknown.
	doubt sdk.Reason
	// waits is the reason that was told last why this attempt hasn't started.
	waits   sdk.Reason
	waitsOf int
	// moved is when something was last heard of the launch, asked when the cancel
	// was seen.
	moved, asked time.Time
	explained    bool
}

// newHerald makes one for a run. say is where its words go.
func (f *Factory) newHerald(run ledger.Run, grace time.Duration, say func(string, ...any)) *herald {
	return &herald{f: f, say: say, grace: grace, run: run, moved: time.Now()}
}

// wait is Engine.Wait in which people are told why it takes so long.
func (h *herald) wait(ctx context.Context, e Engine, until control.Milestone) (ledger.Run, error) {
	h.see(h.run)
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { h.tick(ctx) })
	return e.Watch(ctx, h.run.ID, until, h.see)
}

// heed tells why a run stands still whose output is followed, until it is stopped.
func (f *Factory) heed(ctx context.Context, s *Session, run ledger.Run) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		// Of what goes wrong here the output's own reader tells.
		_, _ = f.newHerald(run, f.graceOf(run), f.Streams.note).wait(ctx, s.Engine, control.MilestoneFinished)
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

func (h *herald) limit() time.Duration { return h.f.quiet() }

func (f *Factory) quiet() time.Duration {
	if f.quietTime > 0 {
		return f.quietTime
	}
	return quietTime
}

// planning says on stderr when a provider leaves what is asked before the launch
// without an answer, until it is stopped. The time that input takes to come isn't
// the provider's.
func (f *Factory) planning(req control.SubmitRequest) (stop func()) {
	if req.Stdin != nil {
		return func() {}
	}
	return f.unanswered(func() {
		counts := ""
		if req.Spec.StartTimeout > 0 {
			counts = ", so that --start-timeout doesn't count yet"
		}
		f.Streams.note("%s hasn't answered yet: nothing was started%s, and Ctrl-C leaves%s", req.Provider, counts, f.boundOf(req.Provider))
	})
}

// unanswered says something once nothing has come for a while, until it is stopped.
func (f *Factory) unanswered(say func()) (stop func()) {
	var wg sync.WaitGroup
	wg.Add(1)
	t := time.AfterFunc(f.quiet(), func() {
		defer wg.Done()
		say()
	})
	return func() {
		if t.Stop() {
			wg.Done()
		}
		wg.Wait()
	}
}

// boundOf says how long one question to a provider may take.
func (f *Factory) boundOf(provider string) string {
	c, err := f.cfg()
	if err != nil {
		return ""
	}
	p, err := c.Provider(provider)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("; each question to it has %s (its call_timeout)", p.CallTimeout)
}

// tick looks at the clock until ctx ends.
func (h *herald) tick(ctx context.Context) {
	t := time.NewTicker(h.limit() / 10)
	defer t.Stop()
	for {
		select {
		case now := <-t.C:
			h.late(now)
		case <-ctx.Done():
			return
		}
	}
}

// heard notes a sign of life from a provider that is at the launch.
func (h *herald) heard() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moved = time.Now()
}

// see takes the run's row.
func (h *herald) see(run ledger.Run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if run.Phase != h.run.Phase || run.Attempt != h.run.Attempt {
		h.moved = time.Now()
	}
	h.run = run
	if !run.CancelAt.IsZero() && h.asked.IsZero() {
		h.asked = time.Now()
	}
	switch now := outageWords(run); {
	case run.State.Terminal():
	case now != "" && now != h.told:
		h.say("run %s: %s", run.ID.Short(), now)
		h.told = now
	case now == "" && h.told != "" && !h.unanswered():
		h.say("run %s: %s answers again", run.ID.Short(), run.Provider)
		h.told = ""
	}
	switch missing := control.Missing(run); {
	case run.State.Terminal() || missing == h.missed || control.Silent(run): // silence tells nothing of the job
	case missing:
		h.say("run %s: %s doesn't find its job: %s", run.ID.Short(), run.Provider, run.Message)
		h.missed = true
	default:
		h.say("run %s: %s finds its job again", run.ID.Short(), run.Provider)
		h.missed = false
	}
	h.tellDoubt()
	if run.Reason != "" && run.Reason != sdk.ReasonQueued { // a start or a queue that moves on is nothing to tell of
		h.tellWait()
	}
}

// tellDoubt tells that the run has become unknown to a provider that does answer, once
// for each reason, and that it is known again.
func (h *herald) tellDoubt() {
	short := h.run.ID.Short()
	switch words := doubtWords(h.run); {
	case words != "" && h.doubt != h.run.Reason:
		h.doubt = h.run.Reason
		h.say("run %s %s", short, words)
	case h.doubt != "" && h.run.State != sdk.StateUnknown && !h.run.State.Terminal():
		h.doubt = ""
		h.say("run %s is known again: %s", short, stateWords(h.run))
	}
}

// row is the run's row as it was seen last.
func (h *herald) row() ledger.Run {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.run
}

// tellWait tells why the run hasn't started, once for each reason. Words without a
// reason tell no more than one before them.
func (h *herald) tellWait() {
	words := waitWords(h.run)
	if words == "" || h.waitsOf == h.run.Attempt && (h.run.Reason == "" || h.waits == h.run.Reason) {
		return
	}
	h.waits, h.waitsOf = h.run.Reason, h.run.Attempt
	h.say("run %s %s", h.run.ID.Short(), words)
}

// late tells what the row doesn't: that a call has been without an answer for
// long, and that a cancel has no proof yet.
func (h *herald) late(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	short := h.run.ID.Short()
	if h.told == "" && h.unanswered() && now.Sub(h.moved) >= h.limit() {
		h.told = fmt.Sprintf("%s hasn't answered the launch yet; the run is on record, and goes on as soon as there is an answer", h.run.Provider)
		h.say("run %s: %s", short, h.told)
	}
	if now.Sub(h.moved) >= h.limit() {
		h.tellWait()
	}
	if !h.asked.IsZero() && !h.explained && !h.run.State.Terminal() && now.Sub(h.asked) >= h.limit()+h.grace {
		h.explained = true
		h.say("run %s: nothing proves yet that it is gone (%s%s): still waiting, and Ctrl-C leaves at once; the cancel stays on record, and windlass status %s tells how it stands", short, stateWords(h.run), messageWords(h.run), short)
	}
}

// outage says what stands in a cancel's way, empty for nothing.
func (h *herald) outage() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told == "" {
		return ""
	}
	return ", which can't come before " + h.run.Provider + " answers"
}

// unanswered reports whether the launch was sent and has no answer.
func (h *herald) unanswered() bool {
	return h.run.Phase == ledger.PhaseSubmitting && h.run.Reason == "" && !h.run.State.Terminal()
}

// unconfirmed reports whether a run's launch lost its reply and nothing was found of it.
func unconfirmed(run ledger.Run) bool {
	return run.State == sdk.StateUnknown && run.Reason == sdk.ReasonSubmitUnconfirmed
}

// doubtWords say why a run is unknown though its provider answers, and what to do;
// empty where it isn't. Silence has words of its own, and what a lost supervisor left
// is ended at once.
func doubtWords(run ledger.Run) string {
	if run.State != sdk.StateUnknown {
		return ""
	}
	switch run.Reason {
	case sdk.ReasonSubmitUnconfirmed, sdk.ReasonCredentials, sdk.ReasonPermissionDenied:
	default:
		return ""
	}
	remedy := reasonRemedy(run.Reason)
	if unconfirmed(run) {
		remedy = "windlass status RUN tells more; look on " + run.Provider + " whether the job is there, and windlass abandon RUN --reason WHY ends the record"
	}
	return fmt.Sprintf("is unknown: %s%s; %s", run.Reason, strings.TrimSuffix(messageWords(run), "."), forRun(remedy, run.ID))
}

// waitWords say why a run hasn't started whose provider answers, and what bounds the
// wait; empty where nothing keeps it.
func waitWords(run ledger.Run) string {
	if run.State != sdk.StatePending || run.Reason == "" && run.Message == "" || run.Reason == sdk.ReasonUnknown || !run.CancelAt.IsZero() || outageWords(run) != "" {
		return ""
	}
	bound := "it has no start time-out, so it waits until that changes"
	if spec, err := sdk.DecodeSpec(run.Spec); err == nil && spec.StartTimeout > 0 {
		bound = "it waits up to its start time-out of " + span(spec.StartTimeout)
	}
	why := messageWords(run)
	if run.Reason != "" {
		why = ": " + string(run.Reason) + why
	}
	return fmt.Sprintf("hasn't started on %s yet%s; %s", run.Provider, strings.TrimSuffix(why, "."), bound)
}

// outageWords say that a run's provider gives no answer, or nothing of use, and
// since when; empty where it does.
func outageWords(run ledger.Run) string {
	switch {
	case control.Silent(run):
		return fmt.Sprintf("%s gives %s; it is asked until it does", run.Provider, run.Message)
	case run.Phase == ledger.PhaseSubmitting && run.State == sdk.StatePending && run.Reason == sdk.ReasonInfrastructure:
		return fmt.Sprintf("%s can't be sent the launch at present%s; it is tried again", run.Provider, messageWords(run))
	}
	return ""
}

package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// ChangeVersion is the newest version of Change that this program folds.
const ChangeVersion = 1

// Fold applies one event to a run and its attempts, and returns them. It is a
// pure function: verification folds the whole chain and compares. run is the
// zero Run before the first event. A change of a terminal state, a phase that
// goes back, or a reason that may not stand beside its state is
// FailedPrecondition.
func Fold(run Run, attempts []Attempt, ev Event) (Run, []Attempt, error) {
	var c Change
	if err := json.Unmarshal(ev.Change, &c); err != nil {
		return run, attempts, &sdk.Error{Code: sdk.DataLoss, Op: "fold event", Err: fmt.Errorf("event %d: %w", ev.Seq, err)}
	}
	if c.V > ChangeVersion {
		return run, attempts, &sdk.Error{Code: sdk.FailedPrecondition, Op: "fold event", Remedy: "use a newer windlass",
			Err: fmt.Errorf("event %d has version %d, this program reads up to %d", ev.Seq, c.V, ChangeVersion)}
	}
	return Apply(run, attempts, ev, c)
}

// Apply is Fold with the change decoded. It leaves its arguments as they are.
func Apply(run Run, attempts []Attempt, ev Event, c Change) (Run, []Attempt, error) {
	before, attemptsBefore := run, attempts
	refuse := func(format string, args ...any) (Run, []Attempt, error) {
		return before, attemptsBefore, &sdk.Error{Code: sdk.FailedPrecondition, Op: "apply " + string(ev.Kind),
			Err: fmt.Errorf("run %s: %w", ev.Run.Short(), fmt.Errorf(format, args...))}
	}
	if q := c.Requested; q != nil {
		if !run.ID.IsZero() {
			return refuse("it was requested already")
		}
		if q.Actor == "" || q.Action == "" {
			return refuse("a row needs an actor and an action")
		}
		run = Run{ID: ev.Run, Actor: q.Actor, Action: q.Action, Target: q.Target, Provider: q.Provider, Identity: q.Identity,
			RequestID: q.RequestID, SpecHash: q.SpecHash, Spec: q.Spec, Name: q.Name, Settings: q.Settings,
			RequestedAt: ev.At, State: sdk.StatePending}
	}
	if run.ID.IsZero() {
		return refuse("there is no such run")
	}
	run.Events++
	attempts = slices.Clone(attempts)
	att := attemptAt(attempts, ev.Attempt)
	if l := c.Launched; l != nil {
		if ev.Attempt != run.Attempt+1 || att != nil {
			return refuse("attempt %d doesn't follow attempt %d", ev.Attempt, run.Attempt)
		}
		attempts = append(attempts, Attempt{Run: ev.Run, Number: ev.Attempt, ID: l.ID, Launch: l.Launch, State: sdk.StatePending, Phase: PhaseIntent})
		att = &attempts[len(attempts)-1]
		run.Attempt = ev.Attempt
		run.Phase = PhaseIntent
	}
	if c.State != "" {
		reason := sdk.Reason("")
		if c.Reason != nil {
			reason = *c.Reason
		}
		if !legalReason(c.State, reason) {
			return refuse("reason %q can't stand beside state %q", reason, c.State)
		}
	}
	if att != nil {
		if err := applyAttempt(att, c); err != nil {
			return refuse("attempt %d: %w", att.Number, err)
		}
	}
	if err := applyRun(&run, c, ev, att); err != nil {
		return refuse("%w", err)
	}
	return run, attempts, nil
}

func attemptAt(attempts []Attempt, n int) *Attempt {
	for i := range attempts {
		if attempts[i].Number == n {
			return &attempts[i]
		}
	}
	return nil
}

func applyAttempt(a *Attempt, c Change) error {
	if c.Phase != "" {
		if phaseRank(c.Phase) < phaseRank(a.Phase) {
			return fmt.Errorf("phase %s can't follow %s", c.Phase, a.Phase)
		}
		a.Phase = c.Phase
	}
	if err := checkFinal(a.State, a.Reason, a.ExitCode, c); err != nil {
		return err
	}
	if c.State != "" {
		a.State = c.State
		a.Reason = ""
	}
	if c.Reason != nil {
		a.Reason = *c.Reason
	}
	setCode(&a.ExitCode, c.ExitCode)
	setString(&a.Signal, c.Signal)
	a.OOM = a.OOM || c.OOM
	if c.Launches > 0 {
		a.Launches = c.Launches
	}
	if c.Message != nil {
		a.Message = *c.Message
	}
	if c.Raw != nil {
		a.Raw = maps.Clone(c.Raw)
	}
	if c.Handle != nil {
		a.Handle = c.Handle
	}
	setTime(&a.SentAt, c.SentAt)
	setTime(&a.CreatedAt, c.CreatedAt)
	setTime(&a.StartedAt, c.StartedAt)
	setTime(&a.SeenRunning, c.SeenRunning)
	setTime(&a.EndedAt, c.EndedAt)
	if c.Verdict != "" {
		a.Verdict = c.Verdict
	}
	if c.CleanupErr != nil {
		a.CleanupErr = *c.CleanupErr
	}
	return nil
}

func applyRun(r *Run, c Change, ev Event, att *Attempt) error {
	if c.Phase != "" && (att == nil || att.Number == r.Attempt) {
		r.Phase = c.Phase
	}
	if !c.AttemptOnly {
		if err := checkFinal(r.State, r.Reason, r.ExitCode, c); err != nil {
			return err
		}
	}
	if c.State != "" && !c.AttemptOnly {
		r.State = c.State
		r.Reason = ""
		if c.State.Terminal() && r.EndedAt.IsZero() {
			r.EndedAt = ev.At
		}
	}
	if !c.AttemptOnly {
		if c.Reason != nil {
			r.Reason = *c.Reason
		}
		setCode(&r.ExitCode, c.ExitCode)
		setString(&r.Signal, c.Signal)
		if c.Message != nil {
			r.Message = *c.Message
		}
		if !c.EndedAt.IsZero() {
			r.EndedAt = c.EndedAt
		}
	}
	r.OOM = r.OOM || c.OOM
	if r.StartedAt.IsZero() {
		if setTime(&r.StartedAt, c.StartedAt); r.StartedAt.IsZero() {
			setTime(&r.StartedAt, c.SeenRunning)
		}
	}
	if c.Verdict != "" {
		r.Verdict = r.Verdict.Worse(c.Verdict)
	}
	if c.CancelBy != "" && r.CancelAt.IsZero() {
		r.CancelAt, r.CancelBy, r.CancelWhy = ev.At, c.CancelBy, c.CancelWhy
	}
	setTime(&r.NotBefore, c.NotBefore)
	if c.Finished && r.FinishedAt.IsZero() {
		if !r.State.Terminal() {
			return fmt.Errorf("it can't finish in state %s", r.State)
		}
		r.FinishedAt = ev.At
	}
	return nil
}

// checkFinal refuses what would change an outcome: the state, reason and exit
// code of a terminal state stay, but for a code that was not known. It also
// refuses a reason that may not stand beside the state.
func checkFinal(state sdk.JobState, reason sdk.Reason, code *int, c Change) error {
	next := c.State
	if next == "" {
		next = state
	}
	switch {
	case c.Reason != nil && !legalReason(next, *c.Reason):
		return fmt.Errorf("reason %q can't stand beside state %q", *c.Reason, next)
	case !state.Terminal():
	case next != state:
		return fmt.Errorf("state %s is final, %s can't follow", state, next)
	case c.Reason != nil && *c.Reason != reason:
		return fmt.Errorf("reason %s of the final state %s can't become %s", reason, state, *c.Reason)
	case c.ExitCode != nil && code != nil && *c.ExitCode != *code:
		return fmt.Errorf("exit code %d of the final state %s can't become %d", *code, state, *c.ExitCode)
	}
	return nil
}

// legalPairs is sdk's table of reasons, made into a set once: every event is
// looked up in it.
var legalPairs = sync.OnceValue(func() map[legalPair]bool {
	set := map[legalPair]bool{}
	for _, state := range sdk.JobStates() {
		set[legalPair{state, ""}] = sdk.LegalReason(state, "")
		for _, rule := range sdk.ReasonRules() {
			set[legalPair{state, rule.Reason}] = sdk.LegalReason(state, rule.Reason)
		}
	}
	return set
})

type legalPair struct {
	state  sdk.JobState
	reason sdk.Reason
}

func legalReason(state sdk.JobState, reason sdk.Reason) bool {
	return legalPairs()[legalPair{state, reason}]
}

func phaseRank(p Phase) int {
	switch p {
	case PhaseIntent:
		return 1
	case PhaseSubmitting:
		return 2
	case PhaseSubmitted:
		return 3
	case PhaseRunning:
		return 4
	case PhaseEnded:
		return 5
	case PhaseDrained:
		return 6
	case PhaseCleaned, PhaseKept:
		return 7
	}
	return 0
}

func setString(dst *string, v string) {
	if v != "" {
		*dst = v
	}
}

func setCode(dst **int, v *int) {
	if v != nil {
		n := *v
		*dst = &n
	}
}

func setTime(dst *time.Time, v time.Time) {
	if !v.IsZero() {
		*dst = v
	}
}

// GenesisHash is the Prev of the first event of a ledger.
func GenesisHash(ledgerID string) string {
	sum := sha256.Sum256([]byte("windlass ledger " + ledgerID))
	return hex.EncodeToString(sum[:])
}

// HashEvent returns the hash of an event: SHA-256 over its fields, each with
// its length in front, the previous hash first.
func HashEvent(ev Event) string {
	b := make([]byte, 0, 512)
	b = appendField(b, ev.Prev)
	b = appendNumber(b, ev.Seq)
	b = appendNumber(b, ev.At.UnixNano())
	b = appendField(b, ev.Run[:])
	b = appendNumber(b, int64(ev.Attempt))
	b = appendField(b, ev.Kind)
	b = appendField(b, ev.Actor)
	b = appendField(b, ev.Change)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func appendField[T ~string | ~[]byte](b []byte, field T) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(field))), field...)
}

func appendNumber(b []byte, n int64) []byte {
	var text [20]byte
	return appendField(b, strconv.AppendInt(text[:0], n, 10))
}

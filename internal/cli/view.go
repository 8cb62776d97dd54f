package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// RunView is a run in JSON.
type RunView struct {
	ID          string        `json:"id" doc:"The run's ID, 26 characters."`
	Name        string        `json:"name,omitzero" doc:"Name that was given with --name."`
	Action      string        `json:"action" doc:"The verb: run, svc.scale and so on."`
	Target      string        `json:"target,omitzero" doc:"Image or program, or what another verb acts on."`
	Provider    string        `json:"provider" doc:"Configured name of the provider."`
	Identity    string        `json:"identity" doc:"Kind, account, region and endpoint of the provider."`
	Actor       string        `json:"actor" doc:"Who asked."`
	State       sdk.JobState  `json:"state" doc:"pending, running, succeeded, failed, cancelled, unknown or lost."`
	Reason      sdk.Reason    `json:"reason,omitzero" doc:"Why it is in that state; docs/states.md lists them."`
	Why         string        `json:"why,omitzero" doc:"The reason in words."`
	ExitCode    *int          `json:"exit_code" doc:"The job's own exit code; null when none is known."`
	Signal      string        `json:"signal,omitzero" doc:"Name of the signal that ended it."`
	OOM         bool          `json:"oom_observed" doc:"A process of the job was killed for memory."`
	Message     string        `json:"message,omitzero" doc:"One line of the provider or of Windlass."`
	Exit        *int          `json:"exit" doc:"Exit code of windlass run and wait for this outcome; null before the end, and of what is no run."`
	Phase       ledger.Phase  `json:"phase,omitzero" doc:"How far the latest attempt has come."`
	Attempt     int           `json:"attempt" doc:"Number of the latest attempt; 0 before the first."`
	LogVerdict  sdk.Verdict   `json:"log_verdict,omitzero" doc:"How much of the output was captured."`
	Removed     bool          `json:"output_removed,omitzero" doc:"The captured output was removed, by windlass rm or as retention.logs says."`
	RequestedAt time.Time     `json:"requested_at" doc:"When it was asked for."`
	StartedAt   *time.Time    `json:"started_at" doc:"When it began to run; null when not known."`
	EndedAt     *time.Time    `json:"ended_at" doc:"When it ended; null when not known."`
	FinishedAt  *time.Time    `json:"finished_at" doc:"When nothing was left to do; null before."`
	CancelBy    string        `json:"cancel_requested_by,omitzero" doc:"Who asked to end it."`
	CancelWhy   string        `json:"cancel_reason,omitzero" doc:"Why it should end."`
	RequestID   string        `json:"idempotency_key,omitzero" doc:"The idempotency key."`
	SpecHash    string        `json:"spec_hash,omitzero" doc:"SHA-256 of the canonical spec."`
	Before      any           `json:"before,omitzero" doc:"How a live workload was before the change, as it was read."`
	Outcome     any           `json:"outcome,omitzero" doc:"What a change of a resource or a workload came to, as its row has it: the provider's ID, outputs and so on. What is sensitive is masked."`
	Spec        any           `json:"spec,omitzero" doc:"What was asked for, values of variables and settings redacted."`
	Held        *bool         `json:"held,omitzero" doc:"A process drives the run."`
	Attempts    []AttemptView `json:"attempts,omitzero" doc:"The launches, in order."`
	Next        []string      `json:"next,omitzero" doc:"Commands that make sense now."`
}

// AttemptView is one launch of a run in JSON.
type AttemptView struct {
	Number     int               `json:"number" doc:"From 1."`
	ID         string            `json:"id" doc:"ID that the provider's object carries."`
	Object     string            `json:"object,omitzero" doc:"The provider's own ID of the job."`
	State      sdk.JobState      `json:"state" doc:"State of this attempt."`
	Reason     sdk.Reason        `json:"reason,omitzero" doc:"Why it is in that state."`
	ExitCode   *int              `json:"exit_code" doc:"Exit code; null when none is known."`
	Signal     string            `json:"signal,omitzero" doc:"Name of the signal that ended it."`
	Phase      ledger.Phase      `json:"phase" doc:"How far it has come."`
	Launches   int               `json:"launches,omitzero" doc:"How often the platform itself started the container."`
	Message    string            `json:"message,omitzero" doc:"One line for people."`
	Raw        map[string]string `json:"provider_says,omitzero" doc:"The provider's own words by field, unchanged."`
	SentAt     *time.Time        `json:"sent_at" doc:"First send."`
	StartedAt  *time.Time        `json:"started_at" doc:"When it began to run."`
	EndedAt    *time.Time        `json:"ended_at" doc:"When it ended."`
	LogVerdict sdk.Verdict       `json:"log_verdict,omitzero" doc:"How much of the output was captured."`
	CleanupErr string            `json:"cleanup_error,omitzero" doc:"Last failure to clean up."`
}

// viewRun shows a run without its attempts.
func viewRun(r ledger.Run, last *ledger.Attempt) RunView {
	v := RunView{ID: r.ID.String(), Name: r.Name, Action: r.Action, Target: r.Target, Provider: r.Provider,
		Identity: r.Identity.String(), Actor: r.Actor, State: r.State, Reason: r.Reason, Why: whyOf(r),
		ExitCode: r.ExitCode, Signal: r.Signal, OOM: r.OOM, Message: r.Message, Phase: r.Phase, Attempt: r.Attempt,
		LogVerdict: r.Verdict, RequestedAt: r.RequestedAt.UTC(), StartedAt: timeOrNil(r.StartedAt), EndedAt: timeOrNil(r.EndedAt),
		FinishedAt: timeOrNil(r.FinishedAt), CancelBy: r.CancelBy, CancelWhy: r.CancelWhy, RequestID: r.RequestID, SpecHash: r.SpecHash}
	if before := viewBefore(r); before != nil {
		v.Before = before
	}
	if r.State.Terminal() && isRun(r) {
		exit := outcomeOf(r, last).exit()
		v.Exit = &exit
	}
	return v
}

func viewAttempt(a ledger.Attempt) AttemptView {
	v := AttemptView{Number: a.Number, ID: a.ID.String(), State: a.State, Reason: a.Reason, ExitCode: a.ExitCode, Signal: a.Signal,
		Phase: a.Phase, Launches: a.Launches, Message: a.Message, Raw: a.Raw, SentAt: timeOrNil(a.SentAt),
		StartedAt: timeOrNil(firstTime(a.StartedAt, a.SeenRunning)), EndedAt: timeOrNil(a.EndedAt), LogVerdict: a.Verdict, CleanupErr: a.CleanupErr}
	if h, err := sdk.DecodeHandle(a.Handle); err == nil {
		v.Object = h.ID
	}
	return v
}

// viewSpec shows what a row asked for: argv as text where it is text, values that
// may be secret redacted. What can't be read is shown as null.
func viewSpec(r ledger.Run) any {
	if isRun(r) {
		return viewJob(r.Spec)
	}
	if m := viewAsked(r.Spec); m != nil {
		return m
	}
	return nil
}

func viewJob(spec []byte) any {
	s, err := sdk.DecodeSpec(spec)
	if err != nil {
		return nil
	}
	var m map[string]any
	if json.Unmarshal(ledger.RedactSpec(spec), &m) != nil {
		return nil
	}
	for field, argv := range map[string]sdk.Argv{"entrypoint": s.Entrypoint, "args": s.Args, "image_entrypoint": s.ImageEntrypoint} {
		if argv != nil {
			m[field] = []string(argv)
		}
	}
	if len(s.Files) > 0 {
		var files []map[string]any
		for _, f := range s.Files {
			files = append(files, map[string]any{"path": f.Path, "mode": fmt.Sprintf("%04o", f.Mode), "bytes": len(f.Data)})
		}
		m["files"] = files
	}
	for field, d := range map[string]time.Duration{"timeout": s.Timeout, "start_timeout": s.StartTimeout, "ttl": s.TTL} {
		if d > 0 {
			m[field] = d.String()
		}
	}
	if s.Grace != nil {
		m["grace"] = s.Grace.String()
	}
	return m
}

// commandLine shows what a run runs, in one line.
func commandLine(r ledger.Run) string {
	s, err := sdk.DecodeSpec(r.Spec)
	if err != nil {
		return r.Target
	}
	if words := commandOf(s); words != "" {
		return words
	}
	return r.Target
}

// commandOf shows a job's image and command, in one line.
func commandOf(s sdk.JobSpec) string {
	var words []string
	if s.Image != "" {
		words = append(words, s.Image)
	}
	for _, a := range append(append(sdk.Argv{}, s.Entrypoint...), s.Args...) {
		words = append(words, quoteArg(a))
	}
	return strings.Join(words, " ")
}

// quoteArg shows an argument as a shell would need it.
func quoteArg(a string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:=,@%+", r)
	}
	if a != "" && strings.IndexFunc(a, func(r rune) bool { return !safe(r) }) < 0 {
		return a
	}
	return "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
}

// whyWords is a reason in words.
func whyWords(state sdk.JobState, reason sdk.Reason) string {
	if reason == "" {
		switch state {
		case sdk.StatePending:
			return "It has been asked for and hasn't started yet."
		case sdk.StateRunning:
			return "It runs."
		}
		return ""
	}
	rule, ok := reason.Rule()
	if !ok {
		return ""
	}
	return rule.Doc
}

// whyOf says why a row is in its state.
func whyOf(r ledger.Run) string {
	if control.Missing(r) {
		return "The provider doesn't find its job at present; the message has when that ends the run."
	}
	if isRun(r) {
		return whyWords(r.State, r.Reason)
	}
	return actionWords(r.State, r.Reason)
}

// actionWords is whyWords for a row that is no run: it has no process that ends.
func actionWords(state sdk.JobState, reason sdk.Reason) string {
	switch {
	case state == sdk.StatePending:
		return "It has been asked for, and no outcome is on record yet."
	case state == sdk.StateRunning:
		return "It goes on."
	case reason == sdk.ReasonCompleted:
		return "It was done."
	case reason == sdk.ReasonInvalidSpec:
		return "The provider doesn't take what was asked for."
	case reason == sdk.ReasonCancelled:
		return "It was ended before it was done."
	case reason == sdk.ReasonSubmitUnconfirmed:
		return "The reply was lost, and nothing proves whether it was done."
	case reason == sdk.ReasonLost:
		return "Whoever asked for it has ended before the outcome was known: it may have been done."
	}
	return whyWords(state, reason)
}

// stateWords is a state with what matters of it: failed (exit 3), unknown
// (credentials), running.
func stateWords(r ledger.Run) string {
	s := string(r.State)
	if !r.State.Terminal() && !r.CancelAt.IsZero() {
		return s + " (cancelling)"
	}
	switch {
	case r.State == sdk.StateFailed && r.Reason == sdk.ReasonNonzeroExit && r.ExitCode != nil:
		return s + " (exit " + strconv.Itoa(*r.ExitCode) + ")"
	case r.State == sdk.StateFailed && r.Reason == sdk.ReasonSignaled && r.Signal != "":
		return s + " (" + r.Signal + ")"
	case r.State == sdk.StateSucceeded, r.State == sdk.StateCancelled, r.Reason == "", string(r.Reason) == s:
		return s
	}
	return s + " (" + string(r.Reason) + ")"
}

func stateStyle(s sdk.JobState) style {
	switch s {
	case sdk.StateSucceeded:
		return styleGreen
	case sdk.StateFailed, sdk.StateLost:
		return styleRed
	case sdk.StateUnknown, sdk.StateRunning:
		return styleBold
	}
	return stylePlain
}

// age is a time span in one or two characters' precision: 5s, 3m, 2h, 4d.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + "d"
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func firstTime(ts ...time.Time) time.Time {
	for _, t := range ts {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

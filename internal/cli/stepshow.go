package cli

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/internal/step"
	"github.com/windlass-run/windlass/sdk"
)

// StepView is a step in JSON.
type StepView struct {
	Name     string       `json:"name" doc:"The step's name in its file."`
	Env      string       `json:"exec_env" doc:"Where it runs."`
	Run      *string      `json:"run_id" doc:"ID of its run; null where the environment has none, as a remote runner."`
	State    sdk.JobState `json:"state,omitzero" doc:"How it ended: succeeded, failed, cancelled or lost. Missing when no end is known."`
	Reason   *sdk.Reason  `json:"reason" doc:"Why it ended so; null where the environment doesn't tell."`
	ExitCode *int         `json:"exit_code" doc:"The command's own exit code; null when none is known."`
	Verdict  *sdk.Verdict `json:"verdict" doc:"How much of its output later steps have; null where the environment doesn't tell."`
	Profile  sdk.Profile  `json:"security_profile,omitzero" doc:"The profile that was asked for in the end."`
	Duration string       `json:"duration,omitzero" doc:"From its start to the proof of its end."`
	OOM      bool         `json:"oom_observed,omitzero" doc:"A process of it was killed for memory, whatever its end; a remote runner doesn't tell."`
	Exit     *int         `json:"exit" doc:"The exit code that this end gives the command, were it the file's end; null when no end is known."`
	Forgiven bool         `json:"forgiven,omitzero" doc:"It failed, and fail_on_error let the file go on."`
	Message  string       `json:"message,omitzero" doc:"One line of the backend."`
}

// stepShow shows what steps do: their bytes and one line for whatever is worth
// it, or events.
type stepShow struct {
	f     *Factory
	file  *step.File
	lines bool
	out   *sink
	// far is whether the step that runs does so on a remote runner.
	far atomic.Bool
}

func (s *stepShow) remote() bool { return s.far.Load() }

// Begin implements step.Show.
func (s *stepShow) Begin(p *step.Step, env string) sandbox.Output {
	w := &stepOutput{show: s, step: p, env: env}
	s.far.Store(!p.Choice.ThroughEngine())
	if s.lines {
		s.event(Event{Event: eventStepBegin, Step: &StepView{Name: p.Name, Env: env}})
	} else {
		s.f.Streams.hint("step %s on %s", p.Name, env)
	}
	return w
}

// End implements step.Show.
func (s *stepShow) End(p *step.Step, o *step.Output, err error) {
	v := StepView{Name: p.Name, Env: o.Env, ExitCode: o.ExitCode, State: o.State, Profile: o.Profile, Forgiven: o.Forgiven, OOM: o.OOM, Message: s.f.Streams.redact(o.Message)}
	if !o.RunID.IsZero() {
		id := o.RunID.String()
		v.Run = &id
	}
	if o.Reason != "" {
		v.Reason = &o.Reason
	}
	if x := o.Verdict(); x != "" {
		v.Verdict = &x
	}
	if o.Ended {
		exit := outcomeOfResult(o.Result).exit()
		v.Exit, v.Duration = &exit, o.Duration.Round(time.Millisecond).String()
	}
	if s.lines {
		s.out.setRun(o.RunID)
		s.event(Event{Event: eventStepEnd, Step: &v})
		s.out.setRun(sdk.ID{})
		return
	}
	if err == nil && !o.Passed() {
		s.f.Streams.note("%s", s.failed(p, o))
	}
	if o.OOM && o.Reason != sdk.ReasonOOMKilled {
		s.f.Streams.note("step %s: a process of it was killed for memory", p.Name)
	}
	switch o.Result.Verdict {
	case "", sdk.VerdictComplete, sdk.VerdictQuiet:
	default:
		s.f.Streams.note("step %s: its output isn't whole: %s", p.Name, verdictWords(o.Result.Verdict))
	}
}

// failed says how a step that didn't succeed ended.
func (s *stepShow) failed(p *step.Step, o *step.Output) string {
	run := ""
	if !o.RunID.IsZero() {
		run = " (run " + o.RunID.Short() + ")"
	}
	how := string(o.State)
	switch {
	case o.State == sdk.StateCancelled:
		how = "was cancelled"
	case o.NotFound:
		how = "the command wasn't found" + because(o.Message)
	case o.NotExecutable:
		how = "the command can't be executed" + because(o.Message)
	case o.State == sdk.StateFailed && o.ExitCode != nil && *o.ExitCode != 0 && (o.Reason == "" || o.Reason == sdk.ReasonNonzeroExit):
		how = fmt.Sprintf("failed with exit code %d", *o.ExitCode)
	case o.Reason != "":
		how = fmt.Sprintf("%s: %s", o.State, o.Reason)
		if o.Message != "" {
			how += ": " + o.Message
		}
	}
	text := fmt.Sprintf("%s:%d: step %s%s: %s", s.file.Path, p.Line, p.Name, run, how)
	if o.Forgiven {
		text += "; it goes on, as fail_on_error is false"
	}
	return text
}

// progress takes a line of the engine, such as a pull's.
func (s *stepShow) progress(line string) {
	if s.lines {
		s.event(Event{Event: eventProgress, Message: line})
		return
	}
	s.f.Streams.hint("%s", line)
}

func (s *stepShow) event(e Event) { _ = s.out.event(e) }

// stepOutput is where one step's output goes.
type stepOutput struct {
	show *stepShow
	step *step.Step
	env  string
}

// Started implements sandbox.Output.
func (o *stepOutput) Started(run sdk.ID) {
	o.show.out.setRun(run)
	if o.show.lines {
		id := run.String()
		o.show.event(Event{Event: eventSubmitted, Step: &StepView{Name: o.step.Name, Env: o.env, Run: &id}})
		return
	}
	o.show.f.Streams.hint("step %s is run %s", o.step.Name, run.Short())
}

// Note implements sandbox.Output.
func (o *stepOutput) Note(text string) {
	if o.show.lines {
		o.show.event(Event{Event: eventWarning, Message: o.show.f.Streams.redact(text)})
		return
	}
	o.show.f.Streams.note("step %s: %s", o.step.Name, text)
}

// Write implements sandbox.Output.
func (o *stepOutput) Write(stream sdk.Stream, data []byte) error {
	err := o.show.out.item(control.FollowItem{Attempt: 1, Item: joblog.Item{Entry: &sdk.LogChunk{Stream: stream, Data: data, LineEnd: sdk.LineEndKept}}})
	if err != nil { // on stderr also of --json, whose stdout may be what takes no more
		o.show.f.Streams.note("step %s: its output can't be shown: %v", o.step.Name, err)
	}
	return err
}

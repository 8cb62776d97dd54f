package step

import (
	"context"
	"errors"
	"fmt"

	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/sdk"
)

// Show takes what happens, in order. Its methods, and those of what Begin
// returns, are called by one goroutine at a time.
type Show interface {
	// Begin tells that a step starts, and where. It returns what takes the
	// step's output.
	Begin(s *Step, env string) sandbox.Output
	// End tells how a step ended: o.Ended with a Result, or err.
	End(s *Step, o *Output, err error)
}

// Runner runs step files.
type Runner struct {
	Places sandbox.Places
	Show   Show
	// Stop, when it is closed, cancels the step that runs, waits for proof that
	// it is gone, and starts no other.
	Stop <-chan struct{}
	// Why says who or what closed Stop.
	Why func() string
	// Ready, when not nil, is called once the environments are found, before the
	// first of them is asked: it opens what they need.
	Ready func(ctx context.Context) error
}

// Failure is why a file ended before its end, other than by a step that
// failed: a value that can't be honoured, or an outcome that isn't known.
type Failure struct {
	// File and Line say where the step begins.
	File string
	Line int
	Step string
	// Run is the step's run; zero when there is none.
	Run sdk.ID
	Err error
}

// Error returns FILE:LINE: step NAME: what is wrong.
func (e *Failure) Error() string {
	return fmt.Sprintf("%s:%d: step %s: %v", e.File, e.Line, e.Step, e.Err)
}

func (e *Failure) Unwrap() error { return e.Err }

// Run runs a file's steps in order, and returns what each that was begun gave
// out. The last one is that of the step that ended the file, when it failed and
// its fail_on_error is set, or when it was cancelled: that is no error.
//
// Before the first step starts, every step's environment is found and asked
// whether it takes what the step sets, up to its backend; all that is wrong with
// the file and all refusals come back at once, as *Invalid in an *sdk.Error. What
// templates decide is asked at the step's turn. Later errors are *Failure.
func (r *Runner) Run(ctx context.Context, f *File) ([]*Output, error) {
	plan, err := r.plan(ctx, f)
	if err != nil {
		return nil, err
	}
	var all []*Output
	outputs := map[string]*Output{}
	left := &budget{MaxKeptFile}
	for _, p := range plan {
		if r.stopped() {
			return all, p.unstarted()
		}
		o, err := r.step(ctx, p, outputs, left)
		all = append(all, o)
		o.Forgiven = err == nil && o.commandFailed() && !p.FailOnError
		r.Show.End(p.Step, o, err)
		if err != nil {
			return all, &Failure{f.Path, p.Line, p.Name, o.RunID, err}
		}
		if !o.Passed() && !o.Forgiven {
			return all, nil
		}
		outputs[p.Name] = o
	}
	return all, nil
}

// Passed reports whether a step succeeded.
func (o *Output) Passed() bool { return o.Ended && o.State == sdk.StateSucceeded }

// commandFailed reports whether the command ran and failed by itself. A job that never
// started, or was taken away, says nothing about the command.
func (o *Output) commandFailed() bool {
	if o.State != sdk.StateFailed {
		return false
	}
	switch o.Reason {
	case sdk.ReasonNonzeroExit, sdk.ReasonSignaled, sdk.ReasonOOMKilled, sdk.ReasonTimedOut:
		return true
	case "": // an environment that gives no reasons
		return o.ExitCode != nil
	}
	return false
}

func (r *Runner) stopped() bool {
	select {
	case <-r.Stop:
		return true
	default:
		return false
	}
}

// step runs one step.
func (r *Runner) step(ctx context.Context, p planned, outputs map[string]*Output, left *budget) (*Output, error) {
	o := &Output{Step: p.Name, Env: p.env.Name()}
	e, err := p.exec(outputs)
	if err == nil {
		// What templates brought may be refused now.
		var ps []Problem
		for _, x := range p.env.Check(e) {
			ps = append(ps, p.refusal(p.env.Name(), x))
		}
		err = invalid("run step", ps)
	}
	out := &tee{to: r.Show.Begin(p.Step, p.env.Name()), o: o, left: left}
	if err != nil {
		return o, err
	}
	res, err := p.env.Exec(ctx, sandbox.Request{Exec: e, Output: out, Stop: r.Stop, Why: r.Why})
	o.Result = res
	if o.RunID.IsZero() {
		o.RunID = out.run
	}
	if err != nil {
		var refused *sandbox.ProblemsError
		if errors.As(err, &refused) {
			var ps []Problem
			for _, x := range refused.Problems {
				ps = append(ps, p.refusal(p.env.Name(), x))
			}
			err = invalid("run step", ps)
		}
		return o, err
	}
	o.Ended = true
	return o, nil
}

// exec fills in a step's templates and reads its config.
func (s *Step) exec(outputs map[string]*Output) (sandbox.Exec, error) {
	t := &texts{file: s.file, step: s}
	rd := &reader{file: s.file}
	d := decoder{reader: rd, step: s, text: t.fill(outputs)}
	e := d.exec(s.config.Value, s.key())
	return e, invalid("run step", append(rd.problems, t.problems...))
}

// tee passes output on, and keeps the beginning of it for templates.
type tee struct {
	to   sandbox.Output
	o    *Output
	left *budget
	run  sdk.ID
	// deaf: what shows the output takes no more.
	deaf bool
}

// Write implements sandbox.Output. Templates get what nobody could be shown, too.
func (t *tee) Write(stream sdk.Stream, data []byte) error {
	switch stream {
	case sdk.StreamStdout:
		t.o.stdout.add(t.left, data)
	case sdk.StreamStderr:
		t.o.stderr.add(t.left, data)
	case sdk.StreamCombined:
		t.o.combined = true
		t.o.stdout.add(t.left, data)
	}
	if !t.deaf && t.to.Write(stream, data) != nil {
		t.deaf = true
	}
	return nil
}

// Note implements sandbox.Output.
func (t *tee) Note(text string) { t.to.Note(text) }

// Started implements sandbox.Output.
func (t *tee) Started(run sdk.ID) {
	t.run = run
	t.to.Started(run)
}

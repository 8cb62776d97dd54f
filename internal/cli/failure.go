package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/step"
	"github.com/windlass-run/windlass/sdk"
)

// ErrorBody is the error member of the JSON envelope.
type ErrorBody struct {
	ID       string        `json:"id" doc:"Stable name of the error, for windlass explain."`
	Code     string        `json:"code" doc:"Class of the error: one of gRPC's sixteen codes."`
	Message  string        `json:"message" doc:"What went wrong and where, in one line."`
	Reason   sdk.Reason    `json:"reason,omitzero" doc:"The reason of docs/states.md, where the backend gave one."`
	Remedy   string        `json:"remedy,omitzero" doc:"What to do."`
	Provider string        `json:"provider,omitzero" doc:"The provider concerned."`
	Field    string        `json:"field,omitzero" doc:"The field of the job or of the configuration at fault."`
	Run      string        `json:"run,omitzero" doc:"ID of the run concerned."`
	Retry    bool          `json:"retryable" doc:"The same call may succeed later."`
	Problems []sdk.Problem `json:"problems,omitzero" doc:"Every reason why a job was refused before launch, each with its value as the flag takes it."`
}

// runError is an error that concerns a run that has its row.
type runError struct {
	run sdk.ID
	err error
}

func (e *runError) Error() string { return e.err.Error() }
func (e *runError) Unwrap() error { return e.err }

// describe turns an error into what people and programs are told, without
// secret values.
func (s *Streams) describe(err error) ErrorBody {
	b := describe(err)
	b.Message, b.Remedy = s.redact(b.Message), s.redact(b.Remedy)
	b.Problems = slices.Clone(b.Problems)
	for i := range b.Problems {
		b.Problems[i].Value, b.Problems[i].Message = s.redact(b.Problems[i].Value), s.redact(b.Problems[i].Message)
	}
	return b
}

// inDoubt reports whether an error leaves open what became of a change. People are told
// so also when they interrupted it, as such an error.
func inDoubt(err error) bool {
	var e *sdk.Error
	for errors.As(err, &e) {
		switch e.ID {
		case control.ErrResourceUnconfirmed, control.ErrWorkloadUnconfirmed, idExecUnknown:
			return true
		}
		err = e.Err
	}
	return false
}

// besides is what an interrupted command has to tell beside that: how what was under way
// ended, such as a refusal. It is nil where the interruption is all.
func besides(err error) error {
	list, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	var out []error
	for _, e := range list.Unwrap() {
		if !errors.Is(e, errInterrupted) {
			out = append(out, e)
		}
	}
	if len(out) == 1 {
		return out[0]
	}
	return errors.Join(out...)
}

// describe turns any error into what people and programs are told.
func describe(err error) ErrorBody {
	b := ErrorBody{Code: sdk.CodeOf(err).String(), Message: err.Error()}
	var run *runError
	if errors.As(err, &run) {
		b.Run = run.run.String()
	}
	var usage *usageError
	if errors.As(err, &usage) {
		b.ID, b.Code = idUsage, sdk.InvalidArgument.String()
		b.Remedy = "see " + usage.command + " --help"
	}
	var e *sdk.Error
	if errors.Is(err, errInterrupted) && !inDoubt(err) {
		if also := besides(err); also != nil {
			said := describe(also)
			said.ID, said.Code, said.Message = idInterrupted, sdk.Canceled.String(), "interrupted: "+said.Message
			return said
		}
		b.ID, b.Code, b.Message = idInterrupted, sdk.Canceled.String(), "interrupted"
		return b
	}
	if errors.As(err, &e) {
		b.Provider, b.Field, b.Retry, b.Reason = e.Provider, e.Field, e.Retryable, e.Reason
		// Wrapping keeps the remedy at the end, where it reads badly: it gets
		// a line of its own.
		for inner := e; inner != nil; {
			if inner.Remedy != "" {
				b.Message = strings.ReplaceAll(b.Message, "; "+inner.Remedy, "")
				if b.Remedy == "" || usage != nil {
					b.Remedy = inner.Remedy
				}
			}
			if b.ID == "" {
				b.ID = inner.ID
			}
			var next *sdk.Error
			if !errors.As(inner.Err, &next) {
				break
			}
			inner = next
		}
	}
	if ps := config.ProblemsOf(err); len(ps) > 0 {
		b.configProblems(e, ps)
	}
	if ps := step.ProblemsOf(err); len(ps) > 0 {
		b.stepProblems(e, ps)
	}
	var refused *control.ProblemsError
	if errors.As(err, &refused) {
		b.Provider = refused.Provider
		for _, p := range refused.Problems {
			b.Problems = append(b.Problems, asTyped(p))
		}
		b.Message = fmt.Sprintf("run on %s: refused before launch", refused.Provider)
		if b.ID == "" {
			b.ID = idRefused
		}
	}
	if b.ID == "" && sdk.CodeOf(err) == sdk.Unknown {
		if id, code := systemError(err); id != "" {
			b.ID, b.Code = id, code.String()
		}
	}
	if b.ID == "" {
		b.ID = idOfCode(sdk.CodeOf(err))
	}
	return b
}

// configProblems tells of what is wrong with a configuration: one problem in
// the message, several in the list.
func (b *ErrorBody) configProblems(e *sdk.Error, ps []config.Problem) {
	op := ""
	if e != nil && e.Op != "" {
		op = e.Op + ": "
	}
	place := func(p config.Problem) string {
		p.Remedy = ""
		return p.String()
	}
	if len(ps) == 1 {
		b.Message, b.Remedy, b.Field = op+place(ps[0]), ps[0].Remedy, ps[0].Key
		return
	}
	b.Message = op + count(len(ps), "problem", "problems")
	for _, p := range ps {
		at := p.Origin.String()
		if at == "" {
			at = p.Key
		} else if p.Key != "" {
			at += ": " + p.Key
		}
		message := p.Message
		if p.Remedy != "" {
			message += "; " + p.Remedy
		}
		b.Problems = append(b.Problems, sdk.Problem{Field: at, Message: message, Code: sdk.InvalidArgument})
	}
}

// stepProblems tells of what is wrong with a file of steps: one problem in the
// message, several in the list.
func (b *ErrorBody) stepProblems(e *sdk.Error, ps []step.Problem) {
	if len(ps) == 1 {
		p := ps[0]
		b.Remedy, b.Field, p.Remedy = p.Remedy, p.Key, ""
		b.Message = e.Op + ": " + p.String()
		return
	}
	b.Message = e.Op + ": " + count(len(ps), "problem", "problems")
	for _, p := range ps {
		message := p.Message
		if p.Remedy != "" {
			message += "; " + p.Remedy
		}
		at := p.Place()
		if p.Key != "" {
			at += ": " + p.Key
		}
		b.Problems = append(b.Problems, sdk.Problem{Field: at, Message: message, Code: sdk.InvalidArgument})
	}
}

// idOfCode names the general explanation of a class of errors.
func idOfCode(c sdk.Code) string {
	var b strings.Builder
	for i, r := range c.String() {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return "code." + b.String()
}

// writeError tells people of an error: what and where, each problem on a line,
// what to do, and where to read on.
func writeError(s *Streams, err error) {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range list.Unwrap() {
			writeError(s, e)
		}
		return
	}
	b := s.describe(err)
	var out strings.Builder
	say := func(text string) { out.WriteString(s.lines(styleRed, stylePlain, clean(text))) }
	say(b.Message)
	for _, p := range b.Problems {
		say("  " + p.String())
	}
	if b.Remedy != "" {
		say("  to do: " + b.Remedy)
	}
	if _, ok := findEntry(b.ID); ok && b.ID != idUsage && b.ID != idInterrupted {
		out.WriteString(s.lines(styleRed, styleDim, "  more: windlass explain "+b.ID))
	}
	s.fresh()
	_, _ = io.WriteString(s.Err, out.String())
}

// asTyped writes a problem's value as the flag takes it: a job holds thousandths
// of a core and bytes.
func asTyped(p sdk.Problem) sdk.Problem {
	n, err := strconv.ParseInt(p.Value, 10, 64)
	if err != nil {
		return p
	}
	switch p.Field {
	case "cpu":
		p.Value = strconv.FormatFloat(float64(n)/1000, 'f', -1, 64)
	case "memory":
		for _, u := range []string{"k", "m", "g"} {
			if n == 0 || n%1024 != 0 {
				break
			}
			n /= 1024
			p.Value = strconv.FormatInt(n, 10) + u
		}
	}
	return p
}

// prefix starts every line that Windlass itself says beside a job's output.
const prefix = "windlass: "

// lines is what Windlass says on stderr, each line behind the prefix: on a terminal
// broken at blanks, with the rest further in.
func (s *Streams) lines(mark, words style, text string) string {
	parts := []string{text}
	if s.ErrTerminal {
		columns, _ := s.size()
		parts = wrapText(text, columns-len(prefix), hang)
	}
	var b strings.Builder
	for _, part := range parts {
		b.WriteString(s.err(mark, prefix) + s.err(words, part) + "\n")
	}
	return b.String()
}

// hang is how much further in the rest of a line stands that was broken.
const hang = 4

// note says a line on stderr.
func (s *Streams) note(format string, args ...any) { s.say(stylePlain, stylePlain, format, args...) }

// fail says a line on stderr of what failed.
func (s *Streams) fail(format string, args ...any) { s.say(styleRed, stylePlain, format, args...) }

func (s *Streams) say(mark, words style, format string, args ...any) {
	s.fresh()
	_, _ = io.WriteString(s.Err, s.lines(mark, words, clean(s.redact(fmt.Sprintf(format, args...)))))
}

// hint says a line on stderr where a person reads it, and nothing in a pipe.
func (s *Streams) hint(format string, args ...any) {
	if s.ErrTerminal {
		s.say(styleDim, styleDim, format, args...)
	}
}

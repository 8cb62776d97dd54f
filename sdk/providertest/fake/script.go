package fake

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Duration is a time.Duration that is text such as "1.5s" in JSON.
type Duration = sdk.Duration

// Step is one step of a job's script. Do names it; its parameters are the
// members that the table of [Steps] names.
type Step struct {
	Do     string `json:"do"`
	Stream string `json:"stream,omitzero"`
	// Text is output; Data is output of any bytes, behind Text.
	Text string   `json:"text,omitzero"`
	Data []byte   `json:"data,omitzero"`
	N    int64    `json:"n,omitzero"`
	For  Duration `json:"for,omitzero"`
	Name string   `json:"name,omitzero"`
}

// StepDoc describes a kind of step: Do, the parameters that it takes, and its
// form as words of a command line.
type StepDoc struct {
	Do     string
	Params string
	Words  string
	Doc    string
}

// Steps returns the table of steps.
func Steps() []StepDoc {
	return []StepDoc{
		{"output", "text data stream", "echo WORD... | err WORD...", "Writes text and data; echo adds a newline and writes to stdout, err to stderr."},
		{"lines", "n for", "lines N", "Writes n lines `line 0`, `line 1`, ..., with `for` between two of them."},
		{"long_line", "n", "long-line N", "Writes n times x and a newline."},
		{"sleep", "for", "sleep DURATION", "Waits."},
		{"hang", "", "hang", "Goes on until it is cancelled."},
		{"gate", "", "gate", "Waits until a test opens it: the clock says nothing. A job has one."},
		{"exit", "n", "exit N | true | false", "Ends with code n."},
		{"signal", "name", "signal NAME", "Is ended by the signal name."},
		{"oom", "n", "oom [N]", "Is killed for memory and ends with code n (137 when left out as words); with 0 it succeeded, with the kill observed."},
		{"child_oom", "", "child-oom", "A child is killed for memory; the job goes on."},
		{"fail", "name text", "fail REASON", "The platform fails the job for a reason of the contract; text is its message."},
		{"ignore_term", "", "ignore-term", "Ignores TERM from here on."},
		{"on_term", "text data for n", "on-term N", "On a TERM from here on writes text and data, waits, and exits with n."},
		{"mark", "name", "mark NAME", "Counts a side effect."},
		{"grandchild", "name for", "grandchild NAME DURATION", "A grandchild marks name after `for`, unless the job's end ends it."},
		{"args", "", "args WORD...", "Shows each argument as `arg HEX`; as words, the words behind it."},
		{"env", "name", "env NAME", "Shows `env NAME HEX`, or `env NAME unset`."},
		{"secret", "name", "secret NAME", "Shows `secret NAME SHA256`."},
		{"pwd", "", "pwd", "Shows `dir PATH`."},
		{"user", "", "user", "Shows `user USER`."},
		{"file", "name", "file PATH", "Shows `file PATH SHA256`, or `file PATH missing`."},
		{"stdin", "", "cat", "Copies stdin to stdout until its end."},
	}
}

// optionsSchema describes JobSpec.Options.
func optionsSchema() sdk.Schema {
	var names []string
	for _, s := range Steps() {
		names = append(names, s.Do)
	}
	return sdk.Schema{Doc: "What the job does.", Fields: []sdk.SchemaField{{
		Name: "script", Type: sdk.TypeList, Doc: "The job's steps; without it they are read from the command's words.",
		Elem: &sdk.SchemaField{Type: sdk.TypeObject, Fields: []sdk.SchemaField{
			{Name: "do", Type: sdk.TypeString, Required: true, Enum: names, Doc: "The kind of step."},
			{Name: "stream", Type: sdk.TypeString, Enum: []string{"stdout", "stderr"}, Default: "stdout", Doc: "Where output goes."},
			{Name: "text", Type: sdk.TypeString, Doc: "Output."},
			{Name: "data", Type: sdk.TypeString, Doc: "Output as base64, for any bytes."},
			{Name: "n", Type: sdk.TypeInt, Doc: "A code or a count."},
			{Name: "for", Type: sdk.TypeDuration, Doc: "A time to wait."},
			{Name: "name", Type: sdk.TypeString, Doc: "A name, path, signal or reason."},
		}},
	}}}
}

// checkSteps returns what is wrong with steps whose members are well formed.
func checkSteps(at string, steps []Step) []sdk.Problem {
	var ps []sdk.Problem
	for i, s := range steps {
		bad := func(field, value, msg string) {
			ps = append(ps, sdk.Problem{Field: fmt.Sprintf("%s[%d].%s", at, i, field), Value: value, Message: msg, Code: sdk.InvalidArgument})
		}
		switch s.Do {
		case "exit", "on_term", "oom":
			if s.N < 0 || s.N > 255 {
				bad("n", strconv.FormatInt(s.N, 10), "an exit code is 0 to 255")
			}
		case "lines", "long_line":
			if s.N < 0 || s.N > 1<<28 {
				bad("n", strconv.FormatInt(s.N, 10), "a count is 0 to 268435456")
			}
		case "fail":
			if !sdk.LegalReason(sdk.StateFailed, sdk.Reason(s.Name)) {
				bad("name", s.Name, "is no reason for failure")
			}
		case "signal":
			if !strings.HasPrefix(s.Name, "SIG") {
				bad("name", s.Name, "a signal's name starts with SIG")
			}
		case "mark", "grandchild", "env", "secret", "file":
			if s.Name == "" {
				bad("name", "", "is empty")
			}
		}
	}
	return ps
}

// parseWords reads a script from a command's words, steps apart by ";".
func parseWords(field string, words []string) ([]Step, []sdk.Problem) {
	var steps []Step
	var ps []sdk.Problem
	for i := 0; i < len(words); {
		end := i
		for end < len(words) && words[end] != ";" {
			end++
		}
		if end > i {
			st, msg := parseStep(words[i], words[i+1:end])
			if msg != "" {
				ps = append(ps, sdk.Problem{Field: fmt.Sprintf("%s[%d]", field, i), Value: words[i], Message: msg, Code: sdk.InvalidArgument})
			} else {
				steps = append(steps, st...)
			}
		}
		i = end + 1
	}
	if len(ps) == 0 {
		ps = checkSteps(field, steps)
	}
	return steps, ps
}

func parseStep(verb string, args []string) (steps []Step, msg string) {
	one := func(s Step) ([]Step, string) { return []Step{s}, "" }
	want := func(n int) bool { return len(args) == n }
	number := func(s string) (int64, bool) {
		n, err := strconv.ParseInt(s, 10, 64)
		return n, err == nil
	}
	switch verb {
	case "echo":
		return one(Step{Do: "output", Data: []byte(strings.Join(args, " ") + "\n")})
	case "err":
		return one(Step{Do: "output", Stream: "stderr", Data: []byte(strings.Join(args, " ") + "\n")})
	case "args":
		for _, a := range args {
			steps = append(steps, Step{Do: "output", Text: fmt.Sprintf("arg %x\n", a)})
		}
		return steps, ""
	case "true", "false", "hang", "gate", "child-oom", "ignore-term", "pwd", "user", "cat":
		if !want(0) {
			return nil, "takes no words"
		}
		switch verb {
		case "true":
			return one(Step{Do: "exit"})
		case "false":
			return one(Step{Do: "exit", N: 1})
		case "cat":
			return one(Step{Do: "stdin"})
		}
		return one(Step{Do: strings.ReplaceAll(verb, "-", "_")})
	case "exit", "lines", "long-line", "on-term", "oom":
		s := Step{Do: strings.ReplaceAll(verb, "-", "_"), N: 137}
		if verb == "oom" && want(0) {
			return one(s)
		}
		if !want(1) {
			return nil, "wants one number"
		}
		var ok bool
		if s.N, ok = number(args[0]); !ok {
			return nil, fmt.Sprintf("wants a number, not %q", args[0])
		}
		return one(s)
	case "sleep", "grandchild":
		s := Step{Do: verb}
		if verb == "grandchild" && len(args) > 0 {
			s.Name, args = args[0], args[1:]
		}
		if !want(1) {
			return nil, "wants a duration such as 1s"
		}
		d, err := time.ParseDuration(args[0])
		if secs, ok := number(args[0]); err != nil && ok {
			d, err = time.Duration(secs)*time.Second, nil
		}
		if err != nil || d < 0 {
			return nil, fmt.Sprintf("wants a duration such as 1s, not %q", args[0])
		}
		s.For = Duration(d)
		return one(s)
	case "signal", "fail", "mark", "env", "secret", "file":
		if !want(1) {
			return nil, "wants one name"
		}
		s := Step{Do: verb, Name: args[0]}
		if verb == "signal" && !strings.HasPrefix(s.Name, "SIG") {
			s.Name = "SIG" + s.Name
		}
		return one(s)
	}
	msg = "the fake backend starts no programs and knows only the words of its steps"
	if near := sdk.Nearest(verb, verbs()); near != "" {
		msg += fmt.Sprintf("; did you mean %q?", near)
	}
	return nil, msg
}

func verbs() []string {
	var out []string
	for _, s := range Steps() {
		for _, form := range strings.Split(s.Words, " | ") {
			verb, _, _ := strings.Cut(form, " ")
			out = append(out, verb)
		}
	}
	return out
}

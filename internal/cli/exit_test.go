package cli

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// TestRunExit checks every state with every reason that is legal beside it,
// without a code, with 0, with a plain one and with those that can't be given on.
func TestRunExit(t *testing.T) {
	codes := []*int{nil, code(0), code(3), code(137), code(255), code(256), code(-1), code(3221225786)}
	for _, state := range sdk.JobStates() {
		for _, reason := range append([]sdk.Reason{""}, reasons()...) {
			if !sdk.LegalReason(state, reason) {
				continue
			}
			for _, c := range codes {
				o := outcome{State: state, Reason: reason, Code: c}
				if got, want := o.exit(), wantExit(o); got != want {
					t.Errorf("%s %s %s: exit %d, want %d", state, reason, codeText(c), got, want)
				}
				if o.exit() == 0 && state != sdk.StateSucceeded {
					t.Errorf("%s %s %s ends with 0", state, reason, codeText(c))
				}
			}
		}
	}
}

// wantExit says it again in the design's words.
func wantExit(o outcome) int {
	own := func() int {
		if o.Code == nil || *o.Code < 1 || *o.Code > 255 {
			return 125
		}
		return *o.Code
	}
	switch o.State {
	case sdk.StateSucceeded: // a success without a code is 0
		if o.Code == nil || *o.Code == 0 {
			return 0
		}
		return own()
	case sdk.StateCancelled:
		return 130
	case sdk.StateFailed:
		if o.Reason == sdk.ReasonTimedOut { // wins over the job's 137 and 143
			return 124
		}
		return own()
	}
	return 125
}

func codeText(c *int) string {
	if c == nil {
		return "no code"
	}
	return strconv.Itoa(*c)
}

func reasons() []sdk.Reason {
	var out []sdk.Reason
	for _, r := range sdk.ReasonRules() {
		out = append(out, r.Reason)
	}
	return out
}

func TestRunExitOfEvidence(t *testing.T) {
	for _, c := range []struct {
		name string
		o    outcome
		want int
	}{
		{"not found", outcome{State: sdk.StateFailed, Reason: sdk.ReasonInvalidSpec, Exec: "not_found"}, 127},
		{"not executable", outcome{State: sdk.StateFailed, Reason: sdk.ReasonFailedToStart, Exec: "not_executable"}, 126},
		{"time-out before not found", outcome{State: sdk.StateFailed, Reason: sdk.ReasonTimedOut, Exec: "not_found"}, 124},
		{"an own 127", outcome{State: sdk.StateFailed, Reason: sdk.ReasonNonzeroExit, Code: code(127)}, 127},
		{"signal without code", outcome{State: sdk.StateFailed, Reason: sdk.ReasonSignaled, Signal: "SIGKILL"}, 137},
		{"signal with code", outcome{State: sdk.StateFailed, Reason: sdk.ReasonSignaled, Signal: "SIGTERM", Code: code(9)}, 9},
		{"unknown signal", outcome{State: sdk.StateFailed, Reason: sdk.ReasonSignaled, Signal: "SIGNOVA"}, 125},
		{"a signal's name proves nothing elsewhere", outcome{State: sdk.StateFailed, Reason: sdk.ReasonOOMKilled, Signal: "SIGKILL"}, 125},
		{"cancelled wins over the code", outcome{State: sdk.StateCancelled, Reason: sdk.ReasonCancelled, Code: code(0)}, 130},
		{"success after not found", outcome{State: sdk.StateSucceeded, Reason: sdk.ReasonCompleted, Exec: "not_found"}, 0},
	} {
		if got := c.o.exit(); got != c.want {
			t.Errorf("%s: exit %d, want %d", c.name, got, c.want)
		}
	}
}

// TestExitWords checks that the table for the documents covers each legal pair
// and says what the function does.
func TestExitWords(t *testing.T) {
	for _, state := range sdk.JobStates() {
		for _, reason := range append([]sdk.Reason{""}, reasons()...) {
			words := ExitWords(state, reason)
			if (words != "") != sdk.LegalReason(state, reason) {
				t.Errorf("%s %q: %q", state, reason, words)
			}
			n, err := strconv.Atoi(words)
			if got := (outcome{State: state, Reason: reason}).exit(); err == nil && got != n {
				t.Errorf("%s %s: the table says %s, the function %d", state, reason, words, got)
			}
		}
	}
}

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 125},
		{sdk.Errorf(sdk.NotFound, "x", "y"), 125},
		{fmt.Errorf("x: %w", exitError{3}), 3},
		{&usageError{code: ExitUsage, err: errors.New("x")}, 2},
		{&usageError{code: ExitWindlass, err: errors.New("x")}, 125},
		{fmt.Errorf("x: %w", errInterrupted), 130},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("exitCode(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}

func TestSignalNumbers(t *testing.T) {
	for name, want := range map[string]int{"SIGHUP": 1, "SIGINT": 2, "SIGKILL": 9, "SIGSEGV": 11, "SIGPIPE": 13, "SIGTERM": 15, "SIGSYS": 31, "": 0, "KILL": 0} {
		if got := signalNumber(name); got != want {
			t.Errorf("signalNumber(%q) = %d, want %d", name, got, want)
		}
	}
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// The exit codes that are Windlass's own. Every other code is a job's.
const (
	// ExitOK: it worked, or the job succeeded.
	ExitOK = 0
	// ExitFaults: a check found something wrong (ledger verify, doctor,
	// provider check, config validate).
	ExitFaults = 1
	// ExitUsage: a command other than run was called wrongly.
	ExitUsage = 2
	// ExitTimedOut: the job's time-out passed; it wins over the job's own code.
	ExitTimedOut = 124
	// ExitWindlass: Windlass or the provider failed, run was called wrongly, or
	// no code is known and the job didn't succeed.
	ExitWindlass = 125
	// ExitNotExecutable: the command was found and can't be executed.
	ExitNotExecutable = 126
	// ExitNotFound: the command wasn't found.
	ExitNotFound = 127
	// ExitInterrupted: the run was cancelled, or the command was interrupted.
	ExitInterrupted = 130
)

// exitError ends the program with a code and says nothing more.
type exitError struct{ code int }

func (e exitError) Error() string { return "exit " + strconv.Itoa(e.code) }

// withExit returns nil for 0, else an error that only sets the exit code.
func withExit(code int) error {
	if code == ExitOK {
		return nil
	}
	return exitError{code}
}

// usageError says that a command was called wrongly.
type usageError struct {
	// code is ExitUsage, or ExitWindlass for run.
	code int
	// command is the command's path, such as "windlass run".
	command string
	err     error
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// errInterrupted is the cause of a context that a signal ended.
var errInterrupted = errors.New("interrupted")

// exitCode returns the exit code of a command that returned err.
func exitCode(err error) int {
	var exit exitError
	var usage *usageError
	var steps *stepFailed
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &usage):
		return usage.code
	case errors.As(err, &steps):
		return steps.code
	case errors.Is(err, errInterrupted):
		return ExitInterrupted
	}
	return ExitWindlass
}

// interruptedError is how the work that a signal ended says so: one thing to tell.
type interruptedError struct{ err error }

func (e *interruptedError) Error() string        { return errInterrupted.Error() + ": " + e.err.Error() }
func (e *interruptedError) Unwrap() error        { return e.err }
func (e *interruptedError) Is(target error) bool { return target == errInterrupted }

// causeOf replaces a context's bare error by the reason for its end.
func causeOf(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), errInterrupted) {
		if errors.Is(err, errInterrupted) || sdk.CodeOf(err) == sdk.Canceled {
			return &interruptedError{err}
		}
		return fmt.Errorf("%w: %w", errInterrupted, err) // told as two
	}
	return err
}

// outcome is what an exit code depends on.
type outcome struct {
	State  sdk.JobState
	Reason sdk.Reason
	Code   *int
	Signal string
	// Exec is the last attempt's sdk.RawExec.
	Exec string
}

// outcomeOf collects a run's outcome; last may be nil.
func outcomeOf(r ledger.Run, last *ledger.Attempt) outcome {
	o := outcome{State: r.State, Reason: r.Reason, Code: r.ExitCode, Signal: r.Signal}
	if last != nil {
		o.Exec = last.Raw[sdk.RawExec]
	}
	return o
}

// exit returns the code with which run and wait end. A state that isn't
// terminal is no success.
func (o outcome) exit() int {
	switch o.State {
	case sdk.StateSucceeded:
		if o.Code == nil {
			return ExitOK
		}
		return expressible(*o.Code)
	case sdk.StateCancelled:
		return ExitInterrupted
	case sdk.StateFailed:
		return o.exitFailed()
	}
	return ExitWindlass
}

func (o outcome) exitFailed() int {
	switch {
	case o.Reason == sdk.ReasonTimedOut:
		return ExitTimedOut
	case o.Exec == sdk.ExecNotFound:
		return ExitNotFound
	case o.Exec == sdk.ExecNotExecutable:
		return ExitNotExecutable
	case o.Code != nil && *o.Code != 0:
		return expressible(*o.Code)
	case o.Code == nil && o.Reason == sdk.ReasonSignaled:
		if n := signalNumber(o.Signal); n > 0 {
			return 128 + n
		}
	}
	return ExitWindlass
}

// expressible returns a code as a process can give it: only the low eight bits
// reach the parent, so a larger one would turn into another, perhaps 0.
func expressible(code int) int {
	if code < 0 || code > 255 {
		return ExitWindlass
	}
	return code
}

// signalNumber returns the number that shells add to 128; 0 when unknown. The
// numbers are Linux's, whatever this program runs on: jobs run on Linux.
func signalNumber(name string) int {
	for i, n := range []string{"", "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL",
		"SIGUSR1", "SIGSEGV", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGSTKFLT", "SIGCHLD", "SIGCONT", "SIGSTOP", "SIGTSTP",
		"SIGTTIN", "SIGTTOU", "SIGURG", "SIGXCPU", "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO", "SIGPWR", "SIGSYS"} {
		if n != "" && n == name {
			return i
		}
	}
	return 0
}

// ExitWords says for the table of states with which code run and wait end at a
// state and reason; empty for a pair that can't be.
func ExitWords(state sdk.JobState, reason sdk.Reason) string {
	if !sdk.LegalReason(state, reason) {
		return ""
	}
	switch {
	case state == sdk.StateSucceeded:
		return "0"
	case state == sdk.StateCancelled:
		return strconv.Itoa(ExitInterrupted)
	case !state.Terminal():
		return "none yet"
	case state == sdk.StateLost:
		return strconv.Itoa(ExitWindlass)
	}
	switch reason {
	case sdk.ReasonTimedOut:
		return strconv.Itoa(ExitTimedOut)
	case sdk.ReasonNonzeroExit:
		return "the job's own"
	case sdk.ReasonSignaled:
		return "the job's own, else 128 + the signal's number"
	case sdk.ReasonFailedToStart, sdk.ReasonInvalidSpec:
		return "127 not found, 126 not executable, else 125"
	case sdk.ReasonOOMKilled, sdk.ReasonEvicted, sdk.ReasonPreempted, sdk.ReasonNodeLost, sdk.ReasonInfrastructure, sdk.ReasonUnknown:
		return "the job's own, else 125"
	}
	return strconv.Itoa(ExitWindlass)
}

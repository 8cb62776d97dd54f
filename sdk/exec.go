package sdk

import (
	"context"
	"io"
	"path"
)

// Execer runs commands inside instances.
type Execer interface {
	// ExecWorkload runs a command in one instance and returns when its output has
	// come to its end. A connection that ends without the command's own end is a
	// result without an exit code, not an error: something ran.
	ExecWorkload(ctx context.Context, r ExecWorkloadRequest) (ExecWorkloadResult, error)
}

// ExecWorkloadRequest runs a command.
type ExecWorkloadRequest struct {
	Op OpRequest
	// Instance is one of DeploymentStatus.Instances; empty is any that is ready.
	Instance string
	// Container is one of the instance's containers; empty is the first.
	Container string
	// Command is a list that no shell re-reads, but for where
	// WorkloadGuarantees.Exec.Argv says so.
	Command Argv
	// Terminal, when not nil, gives the command a terminal of this size; its
	// output then comes as Stdout alone.
	Terminal *TerminalSize
	// Resize brings new sizes of the terminal, Signals names such as "INT" for
	// the command. Nil brings none.
	Resize  <-chan TerminalSize
	Signals <-chan string
	// Stdin is read until its end, which the command sees as the end of its
	// input; nil is empty input. A read that is under way when ExecWorkload returns
	// is left behind.
	Stdin io.Reader
	// Stdout and Stderr take the output; they are never used at the same time by
	// two goroutines, nor after ExecWorkload has returned. An error of theirs ends
	// the session. Nil discards.
	Stdout, Stderr io.Writer
}

// ShellOf returns the shell that a command hands a line to, as sh in `sh -c LINE`;
// empty for any other command. Where a backend tells no exit codes, that shell can.
func ShellOf(command Argv) string {
	if len(command) != 3 || command[1] != "-c" {
		return ""
	}
	switch path.Base(command[0]) {
	case "sh", "ash", "bash", "dash", "ksh", "zsh":
		return command[0]
	}
	return ""
}

// TerminalSize is in characters.
type TerminalSize struct{ Columns, Rows int }

// ExecWorkloadResult is the end of a command.
type ExecWorkloadResult struct {
	// Instance is where it ran.
	Instance string
	// ExitCode is nil unless the backend told it; Why then says why not.
	ExitCode *int
	Why      string
	// Trace and Calls are as in OpResult.
	Trace string
	Calls []PlannedCall
}

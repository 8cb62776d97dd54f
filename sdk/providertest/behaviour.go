package providertest

import (
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Behaviour is what a job does, said without any backend's words. A job whose
// steps come to their end exits with 0.
type Behaviour struct {
	Steps []Step
	// Args are arguments that the job gets behind those that carry the steps;
	// ShowArgs shows them and nothing else reads them.
	Args []string
}

// Do returns a Behaviour of these steps.
func Do(steps ...Step) Behaviour { return Behaviour{Steps: steps} }

// Action is what a step does.
type Action string

// The actions. What a job shows goes to stdout as one line each.
const (
	// ActPrint writes Data to Stream.
	ActPrint Action = "print"
	// ActLines writes N lines "line 0" to "line N-1" to stdout.
	ActLines Action = "lines"
	// ActLongLine writes N times x and a newline to stdout.
	ActLongLine Action = "long_line"
	// ActSleep waits For.
	ActSleep Action = "sleep"
	// ActHang never ends by itself. TERM ends it, unless ignored.
	ActHang Action = "hang"
	// ActExit ends the job with code N.
	ActExit Action = "exit"
	// ActSignal ends the job by the signal Name, such as "SIGKILL"; where the
	// job's first process can't die so, by a child's death and code 128+n.
	ActSignal Action = "signal"
	// ActIgnoreTerm ignores TERM from here on.
	ActIgnoreTerm Action = "ignore_term"
	// ActOnTerm, on a TERM from here on, writes Data to stdout, waits For and
	// exits with N.
	ActOnTerm Action = "on_term"
	// ActMark adds one to the side-effect counter Name.
	ActMark Action = "mark"
	// ActGrandchild starts a process in a session of its own, which ignores
	// TERM and marks Name after For. The job doesn't wait for it.
	ActGrandchild Action = "grandchild"
	// ActMemory uses memory until the kernel kills the job.
	ActMemory Action = "memory"
	// ActChildMemory does so in a child, whose death the job survives.
	ActChildMemory Action = "child_memory"
	// ActShowArgs shows "arg HEX" for each of Behaviour.Args as received.
	ActShowArgs Action = "show_args"
	// ActShowEnv shows "env NAME HEX", or "env NAME unset".
	ActShowEnv Action = "show_env"
	// ActShowSecret shows "secret NAME SHA256" of the secret's bytes, from the
	// file that NAME_FILE names or else the variable NAME.
	ActShowSecret Action = "show_secret"
	// ActShowDir shows "dir PATH", the working folder.
	ActShowDir Action = "show_dir"
	// ActShowUser shows "user UID".
	ActShowUser Action = "show_user"
	// ActShowFile shows "file PATH SHA256", or "file PATH missing".
	ActShowFile Action = "show_file"
	// ActCopyStdin copies stdin to stdout until its end.
	ActCopyStdin Action = "copy_stdin"
)

// Step is one action with its parameters, as the action's comment says.
type Step struct {
	Do     Action
	Stream sdk.Stream
	Data   []byte
	N      int
	For    time.Duration
	Name   string
}

// Print writes text to stdout.
func Print(text string) Step {
	return Step{Do: ActPrint, Stream: sdk.StreamStdout, Data: []byte(text)}
}

// PrintErr writes text to stderr.
func PrintErr(text string) Step {
	return Step{Do: ActPrint, Stream: sdk.StreamStderr, Data: []byte(text)}
}

// Exit ends the job with a code.
func Exit(code int) Step { return Step{Do: ActExit, N: code} }

// Sleep waits.
func Sleep(d time.Duration) Step { return Step{Do: ActSleep, For: d} }

// Hang never ends by itself.
func Hang() Step { return Step{Do: ActHang} }

// Mark adds one to a side-effect counter.
func Mark(key string) Step { return Step{Do: ActMark, Name: key} }

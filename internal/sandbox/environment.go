package sandbox

import (
	"context"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Exec is one sandboxed execution. Zero values are unset: an environment fits
// them; a value that is set is honoured or refused.
type Exec struct {
	// Name is what the run is called, where the environment has names.
	Name string
	// Image is the container image. Command is its argv, a list that no shell
	// re-reads and that takes the place of the image's own arguments; nil leaves
	// those.
	Image   string
	Command sdk.Argv
	// ImageEntrypoint is what the image's own entrypoint is, for a backend that must
	// know; the empty list says that it has none, nil leaves the backend to find out.
	ImageEntrypoint sdk.Argv
	// Env are plain values; one that looks like a secret reference is refused by
	// Validate, since an environment might resolve it. Secrets maps a
	// variable's name to its reference, never to a value.
	Env     sdk.Env
	Secrets map[string]sdk.SecretRef
	// AllowVisibleSecret permits their values where whoever may look at the job on
	// the backend can read them.
	AllowVisibleSecret bool
	// Mounts are folders and volumes, Tmpfs memory.
	Mounts, Tmpfs []sdk.Mount
	WorkDir       string
	// Memory is in bytes, CPU in thousandths of a core.
	Memory, CPU int64
	// Timeout bounds the execution, StartTimeout the time from its first send until
	// it runs. TTL is how long the backend keeps what has ended if nobody cleans up.
	Timeout, StartTimeout, TTL time.Duration
	Network                    string
	// Profile unset is the environment's: strict on local-docker and a remote
	// runner, elsewhere the strongest that the backend gives.
	Profile sdk.Profile
}

// Result is how an execution ended.
type Result struct {
	// RunID is zero, Reason and Verdict empty, where the environment doesn't
	// tell: a remote runner keeps them at its side.
	RunID   sdk.ID
	State   sdk.JobState
	Reason  sdk.Reason
	Verdict sdk.Verdict
	// ExitCode is nil when none is known; 0 is never a guess.
	ExitCode *int
	// Signal is the name of the signal that ended the process, if that is known.
	Signal string
	// OOM: a process of it was killed for memory, whatever the end. A remote runner
	// doesn't tell.
	OOM bool
	// Partial: a part of its output is missing, so that what came isn't all that the
	// command wrote.
	Partial bool
	// NotFound and NotExecutable: the backend says that the command isn't in the
	// image, or is no program.
	NotFound, NotExecutable bool
	// Message is the backend's own words.
	Message string
	// Profile is the one that was asked for in the end; a remote runner may have
	// taken a stricter one.
	Profile sdk.Profile
	// Duration is from the call to the proof of the end, by our clock.
	Duration time.Duration
}

// Partial reports a verdict by which a part of the output may be missing. What was
// dropped here, over the cap of what is kept, was shown before, or as a gap.
func Partial(v sdk.Verdict) bool {
	switch v {
	case sdk.VerdictTruncatedByProvider, sdk.VerdictGap, sdk.VerdictUnavailable:
		return true
	}
	return false
}

// Output takes what an execution writes, as it comes. Its methods are called by
// one goroutine at a time, and before Exec returns.
type Output interface {
	// Write takes bytes of one stream, which it may not keep. stream is stdout,
	// stderr, combined where the backend keeps them together, or system for
	// the platform's own words. An error means that nobody reads any more; the
	// execution goes on, and its output is read and dropped.
	Write(stream sdk.Stream, data []byte) error
	// Note takes one sentence for the person: a gap, a warning, the profile that
	// was chosen.
	Note(text string)
	// Started tells of the run once it stands in the ledger; an environment
	// without one never calls it.
	Started(run sdk.ID)
}

// Request asks an environment for an execution.
type Request struct {
	Exec Exec
	// Output is never nil.
	Output Output
	// Stop, when it is closed, cancels the execution: Exec then reaches the
	// backend, and returns when the thing is proven to be gone, or
	// the environment can't tell. It may be closed before Exec is called.
	Stop <-chan struct{}
	// Why says who or what closed Stop, for the record: "Ctrl-C".
	Why func() string
}

// Environment is a place where executions run. It is safe for concurrent use.
type Environment interface {
	// Name is what exec_env says.
	Name() string
	// Support has a row for each field of a step, with what is honoured or the
	// words of the refusal, for the documents and for Refused.
	Support() []sdk.FieldSupport
	// Combined reports whether stdout and stderr come as one, as far as that is known
	// beforehand: a remote runner's protocol has both, whatever its provider does.
	Combined() bool
	// Check returns every value that Exec would refuse without asking the
	// backend, all at once. It reaches no network and changes nothing.
	Check(e Exec) []sdk.Problem
	// Ask returns every further value that Exec would refuse, as its backend tells
	// before a start, and what else is missing for it, such as a secret: an
	// *sdk.Error each, with a *ProblemsError in one of values. It changes nothing. A
	// remote runner isn't asked: its protocol can only run.
	Ask(ctx context.Context, e Exec) []error
	// Exec runs one execution to its end.
	//
	// A value that can't be honoured is a refusal before anything is started:
	// an *sdk.Error of InvalidArgument, FailedPrecondition or Unimplemented.
	// The end of a job, whatever it was, is a Result and no error. Canceled means
	// that Stop was closed, DeadlineExceeded that e.Timeout passed, where the
	// environment has no Result for these (a remote runner). Any other error
	// means that the outcome isn't known, and is never a success.
	//
	// The end of ctx leaves at once: a job that the ledger knows goes on, and
	// one of a remote runner is cancelled there, without waiting for proof.
	Exec(ctx context.Context, r Request) (Result, error)
}

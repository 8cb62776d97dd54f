package providertest

import (
	"context"
	"errors"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// T is the part of *testing.T that the suite uses, so that the suite itself
// can be tested. [Run] brings a *testing.T into this form.
type T interface {
	Helper()
	Name() string
	// Context ends when the test is over, before Cleanup's functions run.
	Context() context.Context
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	// Fatalf and Skipf end the calling goroutine, as testing.T's do.
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
	Failed() bool
	Cleanup(f func())
	TempDir() string
	// Run runs f as a subtest and reports whether it passed.
	Run(name string, f func(t T)) bool
}

// Harness is what a driver's test brings to the suite. Driver, Open, Behave
// and Marks are required. All functions are safe for concurrent use.
type Harness struct {
	// Driver is the driver under test.
	Driver sdk.Driver
	// Open opens a provider on the backend. The suite closes it. Every call
	// opens with the same name, config, owner and ledger.
	Open func(t T) sdk.Provider
	// Reopen opens the same configuration as another process would: nothing in
	// memory is shared with the providers that were opened before, and it works
	// while those are open and after they are closed. Nil uses Open.
	Reopen func(t T) sdk.Provider
	// Behave returns a spec of a job that does what b says, in b's order. It
	// may set Image, Entrypoint, Args, Mounts and Options; the checks add the
	// rest (Env, Secrets, Workdir, Memory, ...) and change nothing that it set.
	// Behaviour.Shell gives a script for backends with a POSIX shell. What the
	// backend's world can't do is an error that wraps ErrCannot; it must follow
	// from a guarantee, like a waiver.
	Behave func(t T, b Behaviour) (sdk.JobSpec, error)
	// Marks counts how often a Mark step with this key was carried out, by
	// anybody, ever. It is the side-effect counter: it looks at the backend's
	// world and not through the provider.
	Marks func(t T, key string) int
	// Ambient is handed over where Guarantees.Ambient is.
	Ambient *sdk.Ambient
	// Secrets is the resolver that Open gives to OpenRequest.Secrets. Nil
	// leaves the checks of secrets out, which Guarantees.Secrets must allow by
	// being empty.
	Secrets *Secrets
	// PutSecret stores a value where the backend fetches it itself, and returns
	// the reference; Guarantees.Secrets is then SecretReference. Nil uses Secrets.
	PutSecret func(t T, name string, value []byte) sdk.SecretRef
	// Exposed returns, by name, everything that those can read who may describe
	// the job but not enter it: describe calls, inspect output, recorded request
	// bodies, log files of the driver, /proc/PID/cmdline. The secret canary is
	// sought in it. Nil returns nothing.
	Exposed func(t T, h sdk.JobHandle) map[string][]byte
	// Leftovers returns what is on the backend and carries the run's labels, found
	// without the provider. Nil looks through ListOwned alone.
	Leftovers func(t T, runID sdk.ID) []string
	// Faults are hooks into the server side; nil where there are none. Each
	// missing hook leaves its checks out.
	Faults Faults
	// User is a value of JobSpec.User that the backend can run as, and UserID
	// the numeric ID that the job then sees. Empty leaves the check out.
	User, UserID string
	// Workdir is a folder that exists in the job's world; empty is "/tmp".
	Workdir string
	// FileDir is where input files may be put; empty is "/tmp".
	FileDir string
	// Eventually bounds each wait for something that must happen; zero is 30 s.
	Eventually time.Duration
	// Poll is the time between two looks; zero is 20 ms.
	Poll time.Duration
	// Second is the suite's unit for what takes time, such as sleeping jobs and
	// graces; zero is 1 s. A backend without real processes may shorten it.
	Second time.Duration
	// Parallel is how many jobs the checks of concurrency run; zero is 16.
	Parallel int
	// Memory is the limit, in bytes, that jobs have which use it up; zero is 64 MiB. A
	// backend that puts a process of its own beside the job's needs more.
	Memory int64
	// Waivers are checks that the backend can't pass.
	Waivers []Waiver
	// Only limits the run to checks of these names; empty is all.
	Only []string
}

// Waiver lets a check fail. It must follow from a guarantee: a waiver that the
// check's own rule (Check.Waivable) doesn't allow is a failure, and so is one
// whose check passes.
type Waiver struct {
	// Check is the check's name.
	Check string
	// Guarantee is the field of sdk.Guarantees that it follows from, such as
	// "ExitCode" or "Logs.Fidelity".
	Guarantee string
	// Why is one sentence.
	Why string
}

// ErrCannot says that a backend's world can't do what a Behaviour asks.
var ErrCannot = errors.New("the backend can't behave so")

// Op names a method of a provider at whose calls faults are put.
type Op string

// The operations, named after the methods.
const (
	OpCheck       Op = "Check"
	OpPrepareJob  Op = "PrepareJob"
	OpRunJob      Op = "RunJob"
	OpJobStatus   Op = "JobStatus"
	OpFindJobs    Op = "FindJobs"
	OpCancelJob   Op = "CancelJob"
	OpCleanupJob  Op = "CleanupJob"
	OpJobLogs     Op = "JobLogs"
	OpJobStatuses Op = "JobStatuses"
	OpWatchJobs   Op = "WatchJobs"
	OpListOwned   Op = "ListOwned"
	OpRemoveOwned Op = "RemoveOwned"
	OpRenewExpiry Op = "RenewExpiry"
)

// Faults are hooks into the server side, or into a proxy before it. They hit
// the provider that Open returns. Every hook may be nil.
type Faults struct {
	// LoseReply lets the next call of op be carried out by the server, and cuts
	// the connection before the reply.
	LoseReply func(t T, op Op)
	// Refuse cuts the connection before the server has done anything.
	Refuse func(t T, op Op)
	// Block makes calls of op hang at the server until release is called.
	// entered gets a value for each call that hangs; its buffer is large enough
	// for the hook never to wait. ok is false where op reaches no server.
	Block func(t T, op Op) (entered <-chan struct{}, release func(), ok bool)
	// Throttle lets the next n calls of op fail with the backend's answer for
	// too many calls.
	Throttle func(t T, op Op, n int)
	// Hide makes objects that are made from now on invisible to searches and
	// lists for as long as Guarantees.Found.Within allows; restore ends that.
	Hide func(t T) (restore func())
	// Vanish removes the job behind the provider's back.
	Vanish func(t T, h sdk.JobHandle)
	// Forge makes one object behind the provider's back that carries the labels
	// of another owner, with some run and attempt.
	Forge func(t T, owner string)
}

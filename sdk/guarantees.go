package sdk

import "time"

// Guarantees is what a driver can truly give. It drives the documentation's
// matrix, `provider describe`, refusals and the choice of conformance tests,
// and it is the only permitted source of a waiver.
type Guarantees struct {
	Submit   SubmitGuarantee
	Found    FoundGuarantee
	Argv     ArgvGuarantee
	ExitCode ExitCodeGuarantee
	Logs     LogGuarantee
	// CancelReadBack: CancelJob or JobStatus proves that the job is gone.
	// Without it a cancel is accepted only.
	CancelReadBack bool
	Grace          GraceGuarantee
	Deadline       DeadlineGuarantee
	// Evidence is how long the backend remembers an ended job; zero is until
	// it is cleaned up.
	Evidence time.Duration
	// KeepsEnded: a job that has ended can't be removed. Its state is told until
	// the backend forgets it by itself, past Evidence, also after its clean-up;
	// no list of what we made has it.
	KeepsEnded bool
	Secrets    SecretDelivery
	// Ambient: jobs inherit the submitter's folder and environment.
	Ambient bool
	// NoImage: the backend runs programs of this machine; an image is refused.
	NoImage bool
	// Stdin are the modes that the backend can take, StdinNone aside.
	Stdin []StdinMode
	// Workload is what goes for live workloads, where the provider has any of
	// their capabilities.
	Workload WorkloadGuarantees
}

// SubmitBy is how a driver keeps an attempt to one object.
type SubmitBy string

// SubmitByToken: the backend deduplicates by a token for a while.
// SubmitByName: names are deterministic and the backend refuses a second one.
// SubmitBySearch: what was made can only be searched for.
// SubmitByNothing: a lost reply can't be cleared up.
const (
	SubmitByToken   SubmitBy = "token"
	SubmitByName    SubmitBy = "name"
	SubmitBySearch  SubmitBy = "search"
	SubmitByNothing SubmitBy = "nothing"
)

// SubmitGuarantee promises at most one object per attempt, also after a lost reply.
type SubmitGuarantee struct {
	By SubmitBy
	// TokenWindow is how long the token holds, counted from the first send.
	TokenWindow time.Duration
}

// FoundGuarantee says when an object that was made is surely listed.
type FoundGuarantee struct {
	// Within is that time; zero is at once.
	Within time.Duration
	// Consistent: past Within, not found proves absence.
	Consistent bool
}

// ArgvGuarantee is what the backend does to arguments.
type ArgvGuarantee string

// The grades, best first. ArgvSubstituting backends have metacharacters, which
// the driver escapes or refuses. ArgvOneList backends can't keep entrypoint
// and arguments apart; ArgvOneString backends take a shell string.
const (
	ArgvExact        ArgvGuarantee = "exact"
	ArgvSubstituting ArgvGuarantee = "substituting"
	ArgvOneList      ArgvGuarantee = "one_list"
	ArgvOneString    ArgvGuarantee = "one_string"
)

// ExitCodeGuarantee is where the exit code comes from.
type ExitCodeGuarantee string

// The sources of an exit code.
const (
	ExitCodeProcess  ExitCodeGuarantee = "process"
	ExitCodePlatform ExitCodeGuarantee = "platform"
	ExitCodeAbsent   ExitCodeGuarantee = "absent"
)

// LogFidelity is how the backend stores output.
type LogFidelity string

// The grades of log fidelity.
const (
	LogBytes      LogFidelity = "bytes"
	LogLines      LogFidelity = "lines"
	LogStructured LogFidelity = "structured"
)

// LogGuarantee says what a log is worth.
type LogGuarantee struct {
	Fidelity LogFidelity
	// Apart: stdout and stderr can be told apart.
	Apart bool
	// DropsEmptyLines: a line without a byte is not kept.
	DropsEmptyLines bool
	// Looks: following, the driver gives an empty LogItem for each look at the
	// backend that found nothing new. The quiet window then ends with such a
	// look, and not by the clock alone: a driver whose looks wait for a budget
	// may not have looked at all.
	Looks bool
	// EndProven: the driver can prove the end of a log; else the verdict is
	// at best quiet.
	EndProven bool
	// Settle bounds the drain after a job's end.
	Settle LogSettle
	// Live: output can be read while the job runs.
	Live bool
}

// LogSettle is how long a drain goes on where the end can't be proven: until
// the log was silent for Quiet, and at most Max.
type LogSettle struct{ Quiet, Max time.Duration }

// GraceGuarantee is the range of the time between asking and killing. Not
// supported: a set grace is refused.
type GraceGuarantee struct {
	Supported bool
	// Default is the grace of a job that sets none. Where it isn't Supported, Default is
	// the platform's own, as it documents it; 0 is not documented.
	Min, Max, Default time.Duration
	// AtLaunch: the grace is that of the launch, and a cancel can't change it:
	// CancelJobRequest.Grace has no effect, also where it asks to kill at once.
	AtLaunch bool
	// Again: a job that doesn't end when asked is asked once more after its grace, and
	// killed after another one.
	Again bool
}

// UntilKilled is how long a job of a grace may go on after it was asked to end.
func (g GraceGuarantee) UntilKilled(grace time.Duration) time.Duration {
	if g.Again {
		return 2 * grace
	}
	return grace
}

// DeadlineGuarantee says whether the backend ends a job by itself. Without it
// the holder enforces the time-out, and nobody does while no holder lives.
type DeadlineGuarantee struct {
	Native   bool
	Min, Max time.Duration
	// FromSubmit: it counts from earlier than the first sight of running.
	FromSubmit bool
}

// SecretDelivery is how a secret reaches the job.
type SecretDelivery string

// SecretReference: the backend fetches the value itself. SecretSealed: a value
// that no describe call shows. SecretFile: a file that only the job reads.
// SecretProcessEnv: the environment of a local process. SecretVisibleEnv:
// anyone who may describe the job can read it; needs AllowVisibleSecret.
const (
	SecretReference  SecretDelivery = "reference"
	SecretSealed     SecretDelivery = "sealed"
	SecretFile       SecretDelivery = "file"
	SecretProcessEnv SecretDelivery = "process_env"
	SecretVisibleEnv SecretDelivery = "visible_env"
)

package attempt

import (
	"time"

	"github.com/windlass-run/windlass/internal/driver/local/cgroup"
	"github.com/windlass-run/windlass/internal/driver/local/proc"
	"github.com/windlass-run/windlass/sdk"
)

// Version is the newest version of the records that this package reads.
const Version = 1

// Launch says whose attempt it is. It is written before anything is started,
// and synced before anything may run, so that after a crash of the machine it
// is known that the job may have run.
type Launch struct {
	V         int               `json:"v"`
	RunID     sdk.ID            `json:"run_id"`
	AttemptID sdk.ID            `json:"attempt_id"`
	Attempt   int               `json:"attempt"`
	Owner     string            `json:"owner"`
	LedgerID  string            `json:"ledger_id"`
	Name      string            `json:"name,omitzero"`
	Labels    map[string]string `json:"labels,omitzero"`
	// Hash is that of the launch, so that another one is not taken for it.
	Hash      string    `json:"hash"`
	BootID    string    `json:"boot_id"`
	CreatedAt time.Time `json:"created_at"`
	Expires   time.Time `json:"expires,omitzero"`
}

// Begun is the supervisor's intent: from here on the job may run, and nobody
// may start it again.
type Begun struct {
	V          int            `json:"v"`
	Supervisor proc.Identity  `json:"supervisor"`
	Cgroup     []cgroup.Place `json:"cgroup,omitzero"`
	At         time.Time      `json:"at"`
}

// Started says that the job runs.
type Started struct {
	V       int           `json:"v"`
	Process proc.Identity `json:"process"`
	At      time.Time     `json:"at"`
}

// Cause is why the supervisor ended the job; empty when it did not.
type Cause string

// The causes. CauseTerminated: somebody asked the supervisor itself to end,
// as a machine does that shuts down.
const (
	CauseCancel     Cause = "cancel"
	CauseDeadline   Cause = "deadline"
	CauseTerminated Cause = "terminated"
)

// Failure says what kept the job from starting.
type Failure string

// The failures. The first two are of the command itself: there is no such
// program, or it can't be executed.
const (
	FailureNotFound      Failure = "not_found"
	FailureNotExecutable Failure = "not_executable"
	FailureDir           Failure = "workdir"
	FailureOther         Failure = "other"
)

// End is the final record.
type End struct {
	V int `json:"v"`
	// StartError and Failure are set when the job never ran.
	StartError string  `json:"start_error,omitzero"`
	Failure    Failure `json:"failure,omitzero"`
	// ExitCode and Signal come from the wait status of the job's own process;
	// at most one is set.
	ExitCode *int      `json:"exit_code,omitzero"`
	Signal   string    `json:"signal,omitzero"`
	Core     bool      `json:"core,omitzero"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended"`
	// Cause is why we ended it and Why the words of who asked; EndedBy is the
	// last signal that we had sent when it ended.
	Cause   Cause  `json:"cause,omitzero"`
	Why     string `json:"why,omitzero"`
	EndedBy string `json:"ended_by,omitzero"`
	// RestKilled is how many processes outlived the job's own and were killed;
	// Left are those that could not be.
	RestKilled int             `json:"rest_killed,omitzero"`
	Left       []proc.Identity `json:"left,omitzero"`
	// OOMKills is how many processes were killed for memory; it is known in a
	// memory cgroup alone.
	OOMKills int64 `json:"oom_kills,omitzero"`
	// Output is the size of the output file. Lost bytes could not be written,
	// Capped bytes were over the cap. Untold are those of the lost bytes for which
	// the file has no gap.
	Output int64 `json:"output,omitzero"`
	Lost   int64 `json:"lost,omitzero"`
	Capped int64 `json:"capped,omitzero"`
	Untold int64 `json:"untold,omitzero"`
	// MaxRSS is in bytes.
	MaxRSS     int64         `json:"max_rss,omitzero"`
	UserTime   time.Duration `json:"user_time,omitzero"`
	SystemTime time.Duration `json:"system_time,omitzero"`
}

// Cancel is a request to end the job. It lies in the folder, so that it is not
// lost while nobody listens yet.
type Cancel struct {
	V     int            `json:"v"`
	At    time.Time      `json:"at"`
	Grace *time.Duration `json:"grace,omitzero"`
	Why   string         `json:"why,omitzero"`
}

// Expiry is a renewed expiry.
type Expiry struct {
	V       int       `json:"v"`
	Expires time.Time `json:"expires"`
}

// Order is what the submitter tells the supervisor, over a pipe: it has secret
// values and is written nowhere.
type Order struct {
	V    int    `json:"v"`
	Path string `json:"path"`
	ID   sdk.ID `json:"id"`
	// Args and Env are bytes, as an argument may be any.
	Args  [][]byte      `json:"args"`
	Env   [][]byte      `json:"env"`
	Dir   string        `json:"dir"`
	User  *User         `json:"user,omitzero"`
	Stdin bool          `json:"stdin,omitzero"`
	Grace time.Duration `json:"grace"`
	// Deadline counts from the job's start; zero is none.
	Deadline  time.Duration `json:"deadline,omitzero"`
	MaxOutput int64         `json:"max_output"`
	Limits    cgroup.Limits `json:"limits"`
	NoCgroup  bool          `json:"no_cgroup,omitzero"`
}

// User is who the job runs as.
type User struct {
	Name   string   `json:"name,omitzero"`
	Home   string   `json:"home,omitzero"`
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitzero"`
}

// Reply is the supervisor's answer to an Order.
type Reply struct {
	// Error is set when nothing was begun; Code is its class, Reason what
	// MachineReason says of it.
	Error  string     `json:"error,omitzero"`
	Code   sdk.Code   `json:"code,omitzero"`
	Reason sdk.Reason `json:"reason,omitzero"`
	// Supervisor is who holds the attempt.
	Supervisor proc.Identity `json:"supervisor,omitzero"`
}

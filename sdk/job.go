package sdk

import (
	"context"
	"io"
	"iter"
	"time"
)

// JobRunner runs jobs. A run goes PrepareJob, then RunJob, then JobStatus
// until a terminal state. Any call may come from another process than the
// last, and any reply may be lost.
type JobRunner interface {
	// PrepareJob works out the launch. It changes nothing and may read. What
	// the spec asks and the backend can't do comes back as Launch.Problems, all
	// at once; an error means that this could not be worked out.
	PrepareJob(ctx context.Context, r PrepareJobRequest) (Launch, error)
	// RunJob sends the launch: at most one object per attempt however often it
	// is called, as far as Guarantees.Submit goes. It returns as soon as there
	// is a handle, and doesn't wait for the job. A refusal has a code for which
	// IsClear is true; capacity is ResourceExhausted with Retryable set, and
	// made no object. Any other error leaves the launch in doubt.
	RunJob(ctx context.Context, r RunJobRequest) (RunJobResult, error)
	// JobStatus reads the job's state, without side effects, in any process. A
	// job that isn't there is NotFound.
	JobStatus(ctx context.Context, r JobStatusRequest) (JobStatusResult, error)
}

// PrepareJobRequest asks for a launch.
type PrepareJobRequest struct {
	Spec      JobSpec
	RunID     ID
	AttemptID ID
	// Attempt is the attempt's number, from 1.
	Attempt int
	// Expires is when others may remove what is made.
	Expires time.Time
	// Ambient is set where Guarantees.Ambient is; it must not enter the launch.
	Ambient *Ambient
}

// Ambient is what a local job inherits from its submitter.
type Ambient struct {
	Dir string   `json:"dir"`
	Env [][]byte `json:"env"` // NAME=value
}

// RunJobRequest sends a launch.
type RunJobRequest struct {
	Launch Launch
	// Stdin is set when Launch.Stdin is. The driver reads it to its end in the
	// background, for as long as the provider is open.
	Stdin io.Reader
	// Ambient is set where Guarantees.Ambient is.
	Ambient *Ambient
	// Progress, when not nil, takes short lines such as a pull's progress.
	Progress func(line string)
}

// RunJobResult is an accepted job.
type RunJobResult struct {
	Handle JobHandle
	// Adopted: the job was there already, from an earlier send. A backend that
	// deduplicates by token may not tell.
	Adopted bool
}

// JobStatusRequest asks for a state.
type JobStatusRequest struct{ Handle JobHandle }

// JobStatusResult is a job's state with its evidence.
type JobStatusResult struct {
	// Handle, when not nil, replaces the handle; it is stored before use.
	Handle *JobHandle
	State  JobState
	// Reason is legal beside State (LegalReason).
	Reason Reason
	// ExitCode is nil unless the backend gave one; 0 only when the backend also
	// says that the job completed.
	ExitCode *int
	// Signal is the signal's name ("SIGKILL") where a wait status or the
	// provider names one.
	Signal string
	// OOMObserved: a process of the job was killed for memory, whatever the
	// state.
	OOMObserved bool
	// Launches is how often the platform started the container; 0 is not known.
	Launches int
	// CreatedAt, StartedAt and EndedAt are the backend's times; zero is unknown.
	CreatedAt, StartedAt, EndedAt time.Time
	// Message is one line for people.
	Message string
	// Raw are the provider's own words by field, unchanged, but for RawExec.
	Raw map[string]string
}

// RawExec is the member of JobStatusResult.Raw that says why a job's command could
// not be run, where the backend proves it: ExecNotFound or ExecNotExecutable. It
// stands beside InvalidSpec or FailedToStart; `run` then ends with 127 or 126, as
// shells do.
const (
	RawExec           = "exec"
	ExecNotFound      = "not_found"
	ExecNotExecutable = "not_executable"
)

// JobFinder finds jobs whose handle was lost.
type JobFinder interface {
	// FindJobs looks for a launch, or for all attempts of a run when Launch is
	// nil. It changes nothing.
	FindJobs(ctx context.Context, r FindJobsRequest) (FindJobsResult, error)
}

// FindJobsRequest says what to find.
type FindJobsRequest struct {
	// Launch, when not nil, is the launch in doubt. SentAt is the newest send of
	// what is sought, from which counts when it is surely listed; zero is not known.
	Launch *Launch
	SentAt time.Time
	// RunID and Owner find by labels alone. An empty owner matches all.
	RunID ID
	Owner string
}

// FindOutcome is what a search proves.
type FindOutcome string

// FindFound: the handles are there. FindAbsent: it is proven that there is
// none. FindNotVisible: nothing is seen, and nothing is proven before
// VisibleAt; a zero VisibleAt means that this backend never proves absence.
const (
	FindFound      FindOutcome = "found"
	FindAbsent     FindOutcome = "absent"
	FindNotVisible FindOutcome = "not_visible"
)

// FindJobsResult is what was found.
type FindJobsResult struct {
	Outcome   FindOutcome
	Jobs      []FoundJob
	VisibleAt time.Time
}

// FoundJob is a job found by its labels.
type FoundJob struct {
	Handle    JobHandle
	RunID     ID
	AttemptID ID
	Attempt   int
	Owner     string
	LedgerID  string
}

// JobCanceler ends jobs.
type JobCanceler interface {
	// CancelJob asks the backend to end the job, and returns without waiting
	// for it. It is idempotent; a job that has ended, or isn't there, is
	// success with Gone set.
	CancelJob(ctx context.Context, r CancelJobRequest) (CancelJobResult, error)
}

// CancelJobRequest ends a job.
type CancelJobRequest struct {
	Handle JobHandle
	// Grace is the time between asking and killing; nil is the launch's own,
	// zero kills at once. It counts for nothing where Guarantees.Grace.AtLaunch is.
	Grace *time.Duration
	// Why is for the backend's own records.
	Why string
}

// CancelJobResult says what a cancel achieved.
type CancelJobResult struct {
	// Accepted: there was something to end, and the backend took the request.
	// False beside Gone: the job had ended before, and its own end counts.
	Accepted bool
	// Gone: it is proven that nothing of the job runs any more, nor will.
	Gone bool
	// Evidence is the backend's own words.
	Evidence string
}

// JobCleaner removes what a job made.
type JobCleaner interface {
	// CleanupJob removes everything that the attempt made, the job itself
	// included. It is idempotent, and gone is success. A job that still runs is
	// FailedPrecondition.
	CleanupJob(ctx context.Context, r CleanupJobRequest) (CleanupJobResult, error)
}

// CleanupJobRequest cleans up after a job.
type CleanupJobRequest struct{ Handle JobHandle }

// CleanupJobResult lists what was removed.
type CleanupJobResult struct{ Removed []string }

// JobLogger reads output.
type JobLogger interface {
	// JobLogs gives the log from Cursor on, or from the start. With Follow it
	// goes on until the end is proven or ctx ends, over breaks of the
	// connection; without, it returns what is there now. A log that doesn't
	// exist yet is an empty one. Bytes come once and in order per stream, and
	// what was lost comes as a Gap. The stream ends with End or with an error.
	JobLogs(ctx context.Context, r JobLogsRequest) iter.Seq2[LogItem, error]
}

// JobLogsRequest asks for a log.
type JobLogsRequest struct {
	Handle JobHandle
	Cursor *LogCursor
	Follow bool
}

// JobBatcher tells many states in one call.
type JobBatcher interface {
	// JobStatuses returns one item per handle, in the handles' order. More
	// than Info.BatchMax handles is InvalidArgument. An error of one job is its
	// item's; the call's own error means that nothing was learnt.
	JobStatuses(ctx context.Context, r JobStatusesRequest) (JobStatusesResult, error)
}

// JobStatusesRequest asks for many states.
type JobStatusesRequest struct{ Handles []JobHandle }

// JobStatusesResult has one item per handle.
type JobStatusesResult struct{ Items []JobStatusItem }

// JobStatusItem is one job's state, or why there is none.
type JobStatusItem struct {
	Result JobStatusResult
	Err    error
}

// JobWatcher tells of changes.
type JobWatcher interface {
	// WatchJobs gives an event when a job of the owner changed. Events may be
	// lost or doubled: they are a hint to ask JobStatus. The stream's end
	// carries no meaning.
	WatchJobs(ctx context.Context, r WatchJobsRequest) iter.Seq2[WatchEvent, error]
}

// WatchJobsRequest starts a watch.
type WatchJobsRequest struct {
	Owner string
	// Resume is an event's Resume; empty starts now.
	Resume string
}

// WatchEvent says that a job changed. A zero AttemptID means that any may have.
type WatchEvent struct {
	AttemptID ID
	Resume    string
}

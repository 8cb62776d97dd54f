package digitalocean

import (
	"slices"
	"time"
)

// Pace is how long a deployment stays in each phase that passes by itself. The
// real ones last seconds to minutes.
type Pace struct {
	// PendingBuild, Building and PendingDeploy are the phases of these names.
	PendingBuild, Building, PendingDeploy time.Duration
	// Initialize and Finalize are the first and the last step of DEPLOYING;
	// the jobs take the time between.
	Initialize, Finalize time.Duration
}

// DefaultPace is quick, but shows every phase to a caller that looks often.
func DefaultPace() Pace {
	return Pace{PendingBuild: 5 * time.Millisecond, Building: 5 * time.Millisecond, PendingDeploy: 5 * time.Millisecond,
		Initialize: 5 * time.Millisecond, Finalize: 5 * time.Millisecond}
}

// Knobs make the cloud behave as it may, but seldom does, or as its pages leave
// open.
type Knobs struct {
	// Pace is that of deployments made from now on; all zero means DefaultPace.
	Pace Pace
	// ListDelay is how long the list of apps leaves out a new app.
	ListDelay time.Duration
	// GetDelay is how long a new app can't be found by its ID.
	GetDelay time.Duration
	// DeploymentDelay is how long the list of an app's deployments leaves out
	// a new one, and it can't be found by its ID.
	DeploymentDelay time.Duration
	// InvocationDelay is how long the list of job invocations leaves out a new
	// one.
	InvocationDelay time.Duration
	// DeleteDelay is how long a deleted app is still found and listed.
	DeleteDelay time.Duration
	// PageSize bounds the pages of listings below the size that was asked for.
	PageSize int
	// LogDelay is how long a line of output takes to be shown.
	LogDelay time.Duration
	// LogTwice sends each line of a live log twice.
	LogTwice bool
	// LiveCut cuts a live log after so many lines, without a closing handshake;
	// 0 means never.
	LiveCut int
	// ArchiveDelay is how long a job's log stays live only, once the job has
	// ended.
	ArchiveDelay time.Duration
	// MaxApps bounds the account's apps: a deployment beyond ends in ERROR with
	// ResourceExhausted. 0 means no bound: the real one isn't published.
	MaxApps int
	// DeployInvocations lists the jobs of a deployment as job invocations, too.
	// The pages speak of invocations of scheduled jobs only.
	DeployInvocations bool
	// NoShell splits a run command into words instead of giving it to sh.
	NoShell bool
	// KeepEntrypoint gives a run command to the image's entry point instead of
	// putting it in its place.
	KeepEntrypoint bool
	// NameTaken is the HTTP status of a create whose name is taken; 0 means
	// 409. The pages don't tell it.
	NameTaken int
}

// SetKnobs changes the behaviour for what comes after.
func (s *Server) SetKnobs(k Knobs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.Pace == (Pace{}) {
		k.Pace = DefaultPace()
	}
	s.knobs = k
}

// TuneKnobs changes single knobs.
func (s *Server) TuneKnobs(f func(*Knobs)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.knobs)
}

// Stage is a point in the life of a deployment or job.
type Stage int

// The stages at which a mishap strikes.
const (
	// StageBuild fails the build.
	StageBuild Stage = iota + 1
	// StagePlace leaves the deployment in PENDING_DEPLOY until it is cancelled.
	StagePlace
	// StageInternal fails the deployment for a reason of the platform's own,
	// before any job runs.
	StageInternal
	// StageOOM kills a running job for its memory.
	StageOOM
	// StageHost loses a running job: nothing is known of its end but that the
	// platform failed.
	StageHost
	// StageUnknown shows the deployment and its running job as UNKNOWN for the
	// mishap's time; then they go on.
	StageUnknown
	// StageSkip skips a scheduled job's invocation.
	StageSkip
)

// Mishap is what befalls deployments and jobs.
type Mishap struct {
	// Count is how many it befalls; 0 means all that follow.
	Count int
	// App restricts it to an app's name, when set.
	App string
	// Stage is where it strikes.
	Stage Stage
	// After is how long it waits in that stage first.
	After time.Duration
	// Code and Message override the reason that the step shows.
	Code, Message string

	struck int
}

// Strike puts a mishap in force, and returns the function that takes it out.
func (s *Server) Strike(m Mishap) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := &m
	s.mishaps = append(s.mishaps, own)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mishaps = slices.DeleteFunc(s.mishaps, func(o *Mishap) bool { return o == own })
	}
}

// mishap chooses a deployment's, or an invocation's when invoked says so. The
// lock is held.
func (s *Server) mishap(app string, invoked bool) Mishap {
	for _, m := range s.mishaps {
		ofJob := m.Stage == StageOOM || m.Stage == StageHost || m.Stage == StageUnknown
		if invoked != (m.Stage == StageSkip) && !ofJob {
			continue
		}
		if (m.App == "" || m.App == app) && (m.Count == 0 || m.struck < m.Count) {
			m.struck++
			return *m
		}
	}
	return Mishap{}
}

package batch

import "time"

// Pace is how long a job stays in each state that passes by itself. The real
// ones last seconds to hours. PENDING is left out where its time is zero: only
// jobs that wait for others are in it.
type Pace struct {
	Submitted, Pending, Runnable, Starting, Ending time.Duration
}

// DefaultPace is quick, but shows every state to a caller that looks often.
func DefaultPace() Pace {
	return Pace{Submitted: 3 * time.Millisecond, Runnable: 5 * time.Millisecond, Starting: 5 * time.Millisecond, Ending: 3 * time.Millisecond}
}

// keepEnded is how long an ended job is shown. AWS promises 7 days for its state
// (job_states.html); users saw a day, which is what drivers have to live with:
// https://github.com/nextflow-io/nextflow/issues/7301
const keepEnded = 24 * time.Hour

// stopTimeout is the time between TERM and KILL, which can't be chosen:
// https://docs.aws.amazon.com/batch/latest/userguide/job_timeouts.html
const stopTimeout = 30 * time.Second

// Knobs make the service behave as it may, but seldom does.
type Knobs struct {
	// Pace is that of jobs submitted from now on; all zero means DefaultPace.
	Pace Pace
	// DescribeDelay is how long DescribeJobs leaves out a new job.
	DescribeDelay time.Duration
	// ListDelay is how long ListJobs leaves out a new job.
	ListDelay time.Duration
	// Waiting is the statusReason of a job that waits for room: it flickers,
	// and is there at every other look.
	Waiting string
	// PageSize bounds the pages of listings below the service's own bound.
	PageSize int
	// KeepEnded is how long an ended job is shown; 0 means a day.
	KeepEnded time.Duration
	// Second is how long a second of a job's time-out lasts; 0 means a second.
	Second time.Duration
	// StopTimeout is the time between TERM and KILL; 0 means 30 s.
	StopTimeout time.Duration
}

// SetKnobs changes the behaviour for what comes after.
func (s *Service) SetKnobs(k Knobs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.Pace == (Pace{}) {
		k.Pace = DefaultPace()
	}
	s.knobs = k
}

// TuneKnobs changes single knobs.
func (s *Service) TuneKnobs(f func(*Knobs)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.knobs)
}

// Mishap is what befalls jobs.
type Mishap struct {
	// Jobs is how many jobs it befalls; 0 means all that follow.
	Jobs int
	// Stage is where it strikes.
	Stage Stage
	// After is how long the job stays in that stage first.
	After time.Duration
	// StatusReason and Reason override the words of the stage. The latter is
	// the container's.
	StatusReason, Reason string
	// NoExitCode leaves the container's exit code out.
	NoExitCode bool
	// ExitCode is the code in StageOOM, 137 when nil.
	ExitCode *int32

	struck int
}

// Stage is a point in a job's life.
type Stage int

// The stages at which a mishap strikes.
const (
	// StageStuck leaves the job in RUNNABLE until it is terminated.
	StageStuck Stage = iota + 1
	// StagePull fails to pull the image.
	StagePull
	// StageInit fails to initialise resources.
	StageInit
	// StageSpot interrupts the running job on Fargate: TERM, then KILL.
	StageSpot
	// StageHost loses the host of the running job: no exit code is known.
	StageHost
	// StageOOM kills the container for its memory. With ExitCode 0 it was a
	// child that was killed.
	StageOOM
	// StageExit only changes what is reported when the job ends by itself.
	StageExit
)

// Strike puts a mishap in force, and returns the function that takes it out.
func (s *Service) Strike(m Mishap) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := &m
	s.mishaps = append(s.mishaps, own)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, o := range s.mishaps {
			if o == own {
				s.mishaps = append(s.mishaps[:i:i], s.mishaps[i+1:]...)
				return
			}
		}
	}
}

// mishap chooses a job's, if any. The lock is held.
func (s *Service) mishap() Mishap {
	for _, m := range s.mishaps {
		if m.Jobs == 0 || m.struck < m.Jobs {
			m.struck++
			return *m
		}
	}
	return Mishap{}
}

// Forget drops all ended jobs at once, as if their day had passed.
func (s *Service) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(func(j *job) bool { return j.ended() })
}

package cloudrun

import (
	"time"

	"cloud.google.com/go/run/apiv2/runpb"
)

// Pace is how long the steps take that pass by themselves. The real ones last
// seconds.
type Pace struct {
	// Reconcile is the time until a new or changed job is ready.
	Reconcile time.Duration
	// Import is the time until the image is there, Provision until resources
	// are, Start until the first task starts.
	Import, Provision, Start time.Duration
	// Finish is the time from the last task's end to the execution's.
	Finish time.Duration
	// Delete is the time until a deleted job, execution or service is gone.
	Delete time.Duration
	// Ready is how long an instance of a service has to go on until it counts as
	// started: the pocket cloud probes no ports. Restart is the time until one that
	// ended by itself is replaced.
	Ready, Restart time.Duration
}

// DefaultPace is quick, but shows every state to a caller that looks often.
func DefaultPace() Pace {
	return Pace{Reconcile: 5 * time.Millisecond, Import: 5 * time.Millisecond, Provision: 5 * time.Millisecond,
		Start: 5 * time.Millisecond, Finish: 5 * time.Millisecond, Delete: 5 * time.Millisecond,
		Ready: 50 * time.Millisecond, Restart: 200 * time.Millisecond}
}

// Grace is the time between TERM and KILL:
// https://cloud.google.com/run/docs/container-contract
const Grace = 10 * time.Second

// standardSample is quicker than the real one.
const standardSample = 5 * time.Second

// Knobs make the service behave as it may, but seldom does.
type Knobs struct {
	// Pace is that of what begins from now on.
	Pace Pace
	// Grace is the time between TERM and KILL.
	Grace time.Duration
	// GetDelay is how long a new job, execution or service can't be found by name.
	GetDelay time.Duration
	// ListDelay is how long lists leave out a new job, execution or service.
	ListDelay time.Duration
	// OperationDelay is how long an operation that has ended isn't done yet.
	OperationDelay time.Duration
	// TimeoutDelay is how long past its time-out a task goes on; negative ends
	// it before.
	TimeoutDelay time.Duration
	// Sample is the time between two measurements of services; the real one is a
	// minute: https://cloud.google.com/monitoring/api/metrics_gcp_p_z#gcp-run
	Sample time.Duration
	// PageSize bounds the pages of lists below the service's own bound.
	PageSize int
	// MaxJobs bounds jobs; 0 means the quota's 1,000.
	MaxJobs int
	// MaxExecutions bounds running executions; 0 means the quota's 1,000.
	MaxExecutions int
	// MaxRetained bounds a job's completed executions; 0 means the quota's
	// 1,000.
	MaxRetained int
}

// DefaultKnobs are those of a calm service.
func DefaultKnobs() Knobs { return Knobs{Pace: DefaultPace(), Grace: Grace, Sample: standardSample} }

// SetKnobs changes the behaviour for what comes after.
func (s *Service) SetKnobs(k Knobs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.knobs = k
}

// TuneKnobs changes single knobs.
func (s *Service) TuneKnobs(f func(*Knobs)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.knobs)
}

// Mishap is what befalls executions.
type Mishap struct {
	// Executions is how many it befalls; 0 means all that follow.
	Executions int
	// Job restricts it to executions of a job, when set, or to instances of the
	// service of that name, which only StageImage befalls.
	Job string
	// Stage is where it strikes.
	Stage Stage
	// After is how long the execution, or the running attempt, goes on first.
	After time.Duration
	// Message overrides the words of the stage.
	Message string
	// NoExitCode leaves exit codes out of attempts' results.
	NoExitCode bool
	// Show alters what is reported of the execution, in whatever state it is,
	// when it isn't nil.
	Show func(*runpb.Execution)

	struck int
}

// Stage is a point in an execution's life.
type Stage int

// The stages at which a mishap strikes.
const (
	// StageImage can't import the image.
	StageImage Stage = iota + 1
	// StageResources finds no resources for the execution.
	StageResources
	// StageOOM kills each attempt for its memory.
	StageOOM
	// StageInternal ends each attempt by an error of the platform.
	StageInternal
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

// mishap chooses an execution's, if any. The lock is held.
func (s *Service) mishap(job string) Mishap {
	for _, m := range s.mishaps {
		if (m.Job == "" || m.Job == job) && (m.Executions == 0 || m.struck < m.Executions) {
			m.struck++
			return *m
		}
	}
	return Mishap{}
}

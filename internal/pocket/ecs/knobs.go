package ecs

import "time"

// Pace is how long a task stays in each state that passes by itself. The real
// ones last seconds to minutes.
type Pace struct {
	Provisioning, Pending, Activating, Deactivating, Stopping, Deprovisioning time.Duration
}

// DefaultPace is quick, but shows every state to a caller that looks often.
func DefaultPace() Pace {
	return Pace{Provisioning: 5 * time.Millisecond, Pending: 5 * time.Millisecond, Activating: time.Millisecond,
		Deactivating: time.Millisecond, Stopping: time.Millisecond, Deprovisioning: 5 * time.Millisecond}
}

// keepStopped is how long a stopped task is shown: "at least one hour", says
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_DescribeTasks.html
const keepStopped = time.Hour

// Knobs make the service behave as it may, but seldom does.
type Knobs struct {
	// Pace is that of tasks started from now on; all zero means DefaultPace.
	Pace Pace
	// DescribeDelay is how long DescribeTasks answers MISSING for a new task.
	DescribeDelay time.Duration
	// ListDelay is how long ListTasks leaves out a new task.
	ListDelay time.Duration
	// ContainersDelay is how long a new task shows no containers.
	ContainersDelay time.Duration
	// Stale is how old the states are that DescribeTasks shows, of tasks made
	// after it was set.
	Stale time.Duration
	// DefinitionDelay is how long a new revision can't be found.
	DefinitionDelay time.Duration
	// RegisterTakes is how long a registration holds its family: another for
	// the same family meanwhile is refused.
	RegisterTakes time.Duration
	// ServiceDelay is how long a service's scheduler doesn't look at a change.
	ServiceDelay time.Duration
	// AgentDelay is how long the agent of ExecuteCommand isn't connected after a
	// container's start.
	AgentDelay time.Duration
	// MetricPeriod is the least time between two measurements of a task; 0 means a
	// second, where AWS has a minute.
	MetricPeriod time.Duration
	// CutSessions is how many sessions of ExecuteCommand are cut once their command
	// has ended, before that is told.
	CutSessions int
	// PageSize bounds the pages of listings below the service's own bound.
	PageSize int
	// KeepStopped is how long a stopped task is shown; 0 means an hour.
	KeepStopped time.Duration
	// Placements are the failures that RunTask reports, one call each, before
	// it places tasks: "RESOURCE:MEMORY", "AGENT", Capacity.
	Placements []string
}

// Capacity is the failure's reason when Fargate has no room:
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/service-event-messages-list.html
const Capacity = "Capacity is unavailable at this time. Please try again later or in a different availability zone"

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

// Mishap is what befalls tasks.
type Mishap struct {
	// Tasks is how many tasks it befalls; 0 means all that follow.
	Tasks int
	// Family restricts it to tasks of a definition's family, when set.
	Family string
	// Stage is where it strikes.
	Stage Stage
	// After is how long the task stays in that stage first.
	After time.Duration
	// StopCode, StoppedReason and Reason override the words of the stage. The
	// last is the container's.
	StopCode, StoppedReason, Reason string
	// NoExitCode leaves the containers' exit codes out.
	NoExitCode bool
	// ExitCode is the code in StageOOM, 137 when nil.
	ExitCode *int32

	struck int
}

// Stage is a point in a task's life.
type Stage int

// The stages at which a mishap strikes.
const (
	// StagePlace leaves the task in PROVISIONING, as a capacity provider does
	// that never finds a place, and stops it without containers.
	StagePlace Stage = iota + 1
	// StageENI fails to attach the network interface.
	StageENI
	// StagePull fails to pull the image.
	StagePull
	// StageInit fails to initialise resources.
	StageInit
	// StageSpot interrupts the running task: TERM, then KILL.
	StageSpot
	// StageHost loses the host of the running task: no exit code is known.
	StageHost
	// StageOOM kills the container for its memory. With ExitCode 0 it was a
	// child that was killed.
	StageOOM
	// StageExit only changes what is reported when the task ends by itself.
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

// mishap chooses a task's, if any. The lock is held.
func (s *Service) mishap(family string) Mishap {
	for _, m := range s.mishaps {
		if (m.Family == "" || m.Family == family) && (m.Tasks == 0 || m.struck < m.Tasks) {
			m.struck++
			return *m
		}
	}
	return Mishap{}
}

// Forget drops all stopped tasks at once, as if their hour had passed.
func (s *Service) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(func(t *task) bool { return t.view.StoppedAt != nil })
}

package azure

import (
	"path"
	"slices"
	"time"
)

// Pace is how long a group stays in each step that passes by itself. The real
// ones last seconds to minutes.
type Pace struct {
	// Pending is the provisioning state of this name: a node is looked for.
	Pending time.Duration
	// Pull is how long an image takes to be pulled, in provisioning state
	// Creating.
	Pull time.Duration
	// Backoff is how long a container waits before it is run again.
	Backoff time.Duration
	// Grace is the time between TERM and KILL for a container that is stopped.
	// The real one isn't published.
	Grace time.Duration
	// PullTimeout ends the provisioning of a group whose image can't be pulled.
	PullTimeout time.Duration
}

// DefaultPace is quick, but shows every state to a caller that looks often.
func DefaultPace() Pace {
	return Pace{Pending: 5 * time.Millisecond, Pull: 5 * time.Millisecond, Backoff: 50 * time.Millisecond, Grace: 10 * time.Second, PullTimeout: 30 * time.Minute}
}

// Knobs make the cloud behave as it may, but seldom does, or as its pages leave
// open.
type Knobs struct {
	// Pace is that of groups deployed from now on; all zero means DefaultPace.
	Pace Pace
	// ListDelay is how long lists leave out a new group.
	ListDelay time.Duration
	// GetDelay is how long a new group can't be found by its name.
	GetDelay time.Duration
	// DeleteDelay is how long a deleted group is still found and listed.
	DeleteDelay time.Duration
	// DeleteTakes makes a delete an operation that lasts so long: 202 instead
	// of 200.
	DeleteTakes time.Duration
	// BusyDelete refuses to delete a group that is transitioning, too.
	BusyDelete bool
	// StopDropsView leaves a stopped group's containers without an instance
	// view: they are recycled.
	StopDropsView bool
	// ListsView shows instance views in lists, which the real ones leave out.
	ListsView bool
	// SamePutKeeps leaves a running group alone that is put again without any
	// change, instead of restarting it. The pages speak of a change that
	// triggers a redeployment, and not of what happens without one.
	SamePutKeeps bool
	// PageSize bounds the pages of lists, which have no bound otherwise; those
	// of Key Vault have at most 25.
	PageSize int
	// RetryAfter is that header on calls that go on after their reply, in whole
	// seconds; 0 for none.
	RetryAfter time.Duration
	// TokenLife is how long tokens hold; 0 means an hour.
	TokenLife time.Duration
	// Images are those that can be pulled; nil means all that the executor has.
	Images []string

	// LogDelay is how long a line of output takes to be shown.
	LogDelay time.Duration
	// LogNull hides the logs of containers that run: their content is null.
	LogNull bool
	// EarlyLogs is the code of the error for the log of a container that hasn't
	// started, ContainerGroupTransitioning or ContainerLogNotAvailable; empty
	// for a null content instead.
	EarlyLogs string
	// RestartDropsLog begins a new log when a container is run again, so that
	// what wasn't read is lost.
	RestartDropsLog bool
	// MeterEvery is how often a container is measured; 0 means every 5 s.
	MeterEvery time.Duration
	// MetricZeros shows a minute of which nothing is known with values of zero, as
	// the real ones have been seen to:
	// https://github.com/Azure/azure-libraries-for-net/issues/499
	MetricZeros bool
	// MetricDelay is how long a measurement takes to be shown.
	MetricDelay time.Duration
	// EndedLogSmall keeps as little of a log when its container has ended by
	// itself as when its group was stopped.
	EndedLogSmall bool
}

// SetKnobs changes the behaviour for what comes after.
func (s *Server) SetKnobs(k Knobs) { s.TuneKnobs(func(own *Knobs) { *own = k }) }

// TuneKnobs changes single knobs.
func (s *Server) TuneKnobs(f func(*Knobs)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.knobs)
	s.knobs = s.knobs.filled()
}

const defaultMeterEvery = 5 * time.Second

// filled returns the knobs with defaults where nothing is set.
func (k Knobs) filled() Knobs {
	if k.Pace == (Pace{}) {
		k.Pace = DefaultPace()
	}
	if k.MeterEvery <= 0 {
		k.MeterEvery = defaultMeterEvery
	}
	return k
}

// Stage is a point in the life of a group.
type Stage int

// The stages at which a mishap strikes.
const (
	// StageWait leaves the group Pending until it is stopped or deleted.
	StageWait Stage = iota + 1
	// StageCapacity fails the deployment for want of a place, after the call
	// was accepted.
	StageCapacity
	// StageFail fails the deployment without any event.
	StageFail
	// StagePull can't pull the image: the container waits with ImagePullBackOff.
	StagePull
	// StageOOM kills a running container for its memory.
	StageOOM
	// StageHost ends a running container for the platform's own reasons: exit
	// code 7147 or the mishap's Code.
	StageHost
	// StageMaintenance does so too, and runs the container again whatever the
	// restart policy says.
	StageMaintenance
	// StageNoCode leaves the exit code out.
	StageNoCode
	// StageGroupState shows the mishap's State as the group's, whatever its
	// containers do.
	StageGroupState
)

// Mishap is what befalls a group. It is chosen when the group is deployed.
type Mishap struct {
	// Count is how many deployments it befalls; 0 means all that follow.
	Count int
	// Group is a pattern of path.Match for the group's name; empty means any.
	Group string
	// Stage is where it strikes.
	Stage Stage
	// After is how long it waits in that stage first.
	After time.Duration
	// When, where it isn't nil, has StageOOM, StageHost and StageMaintenance strike
	// when it is closed, whatever After is.
	When <-chan struct{}
	// State is that of StageGroupState.
	State string
	// Code is the exit code of StageHost and StageMaintenance; 0 means 7147.
	Code int

	struck int
}

// strikes returns what is closed when the mishap strikes a running container.
func (m Mishap) strikes() (when <-chan struct{}, stop func()) {
	if m.When != nil {
		return m.When, func() {}
	}
	c := make(chan struct{})
	timer := time.AfterFunc(m.After, func() { close(c) })
	return c, func() { timer.Stop() }
}

// Strike puts a mishap in force, and returns the function that takes it out. It
// panics for a group that is no pattern, which is a test's mistake.
func (s *Server) Strike(m Mishap) (remove func()) {
	if _, err := path.Match(m.Group, ""); err != nil {
		panic("azure: mishap of group " + m.Group + ": " + err.Error())
	}
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

// mishap chooses a deployment's. The lock is held.
func (s *Server) mishap(group string) Mishap {
	for _, m := range s.mishaps {
		ok, _ := path.Match(m.Group, group) // Strike has checked the pattern
		if (ok || m.Group == "") && (m.Count == 0 || m.struck < m.Count) {
			m.struck++
			return *m
		}
	}
	return Mishap{}
}

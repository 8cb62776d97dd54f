package cloudlogging

import "time"

// ReadsPerMinute is how many entries.list calls a project has:
// https://cloud.google.com/logging/quotas
const ReadsPerMinute = 60

// Knobs make the service behave as it may, but seldom does.
type Knobs struct {
	// ReadsPerMinute bounds entries.list; 0 is no bound.
	ReadsPerMinute int
	// Delay is the time from an entry's writing until reads show it.
	Delay time.Duration
	// LateEvery makes every n-th entry arrive LateBy after its fellows, with
	// its old timestamp. 0 turns it off.
	LateEvery int
	LateBy    time.Duration
	// DoubleEvery stores every n-th entry twice, with the same insert ID. 0
	// turns it off.
	DoubleEvery int
	// Tick rounds timestamps down, so that many entries share one. 0 is off.
	Tick time.Duration
	// PageSize bounds a page's entries below what is asked for. 0 is off.
	PageSize int
	// EmptyPages is how many empty pages, each with a token, come before each
	// page that has entries.
	EmptyPages int
}

// DefaultKnobs are those of a calm service with its usual quota.
func DefaultKnobs() Knobs { return Knobs{ReadsPerMinute: ReadsPerMinute} }

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

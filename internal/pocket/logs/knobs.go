package logs

import "time"

// Knobs make the service behave as it may, but seldom does. The zero value is
// the calm service.
type Knobs struct {
	// StreamDelay is how long a new stream stays invisible: reads of it get
	// ResourceNotFoundException.
	StreamDelay time.Duration
	// EventDelay is the time from an event's writing until reads show it.
	EventDelay time.Duration
	// LateEvery makes every n-th event of a stream arrive LateBy after its
	// fellows, with its old timestamp. 0 turns it off.
	LateEvery int
	LateBy    time.Duration
	// DoubleEvery stores every n-th event of a stream twice. 0 turns it off.
	DoubleEvery int
	// EmptyPages is how many empty pages, each with a new token, come before
	// each page that has events.
	EmptyPages int
	// PageSize bounds a page's events below the service's own bound. 0 is off.
	PageSize int
	// Tick rounds timestamps down, so that many events share one. 0 is off.
	Tick time.Duration
}

// SetKnobs changes the behaviour for what comes after.
func (s *Service) SetKnobs(k Knobs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.knobs = k
}

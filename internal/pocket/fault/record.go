package fault

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"time"
)

// Call is one call as it came in and was answered.
type Call struct {
	// Action is the name of the operation, like "ecs:RunTask".
	Action string
	// At is the pocket cloud's time when it came in.
	At time.Time
	// Request is the body.
	Request []byte
	// Reply is the body of the answer, also of one that never arrived.
	Reply []byte
	// Status is the HTTP status of the answer; 0 when the call wasn't carried
	// out because the connection was cut first.
	Status int
	// Lost says that the connection was cut, so that the caller got no answer.
	Lost bool
}

// Recorder counts calls, and keeps them whole when asked to.
type Recorder struct {
	mu     sync.Mutex
	keep   bool
	counts map[string]int
	calls  []Call
}

// NewRecorder returns an empty recorder. With keep it holds on to every call's
// bodies for as long as it lives: for tests, not for servers that stay up.
func NewRecorder(keep bool) *Recorder {
	return &Recorder{keep: keep, counts: map[string]int{}}
}

// Add records a call.
func (r *Recorder) Add(c Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[c.Action]++
	if r.keep {
		c.Request, c.Reply = bytes.Clone(c.Request), bytes.Clone(c.Reply)
		r.calls = append(r.calls, c)
	}
}

// Count returns how often an action was called.
func (r *Recorder) Count(action string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[action]
}

// Counts returns how often each action was called.
func (r *Recorder) Counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.counts)
}

// Calls returns the kept calls of an action in the order of their answers, of
// all actions for an empty name.
func (r *Recorder) Calls(action string) []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	if action == "" {
		return slices.Clone(r.calls)
	}
	var out []Call
	for _, c := range r.calls {
		if c.Action == action {
			out = append(out, c)
		}
	}
	return out
}

// Reset forgets all counts and calls.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.counts)
	r.calls = nil
}

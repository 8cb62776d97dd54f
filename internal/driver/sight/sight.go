// Package sight remembers what a process has seen of a provider's jobs. A memory
// saves calls and decides nothing that a call wouldn't, but that what was shown
// once isn't waited for.
package sight

import (
	"sync"
	"time"
)

const (
	// Beyond so many jobs those are forgotten that were not looked at for so long.
	most = 20000
	keep = time.Hour
)

// Memory has a note for each job, by the ID of its object. The zero value is ready,
// and safe for concurrent use.
type Memory[N any] struct {
	mu sync.Mutex
	m  map[string]note[N]
}

type note[N any] struct {
	is N
	at time.Time
}

// Change lets f change a job's note, which begins as the zero value.
func (s *Memory[N]) Change(id string, f func(*N)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = map[string]note[N]{}
	}
	now := time.Now()
	if len(s.m) >= most {
		for k, v := range s.m {
			if now.Sub(v.at) > keep {
				delete(s.m, k)
			}
		}
	}
	v := s.m[id]
	f(&v.is)
	v.at = now
	s.m[id] = v
}

// Get returns a job's note, the zero value for a job that was never seen.
func (s *Memory[N]) Get(id string) N {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[id].is
}

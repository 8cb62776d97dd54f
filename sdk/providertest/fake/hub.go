package fake

import (
	"context"
	"sync"
	"time"
)

// hub tells watchers and readers of one process that a job changed.
type hub struct {
	mu    sync.Mutex
	every map[*subscription]bool
	jobs  map[string]map[*subscription]bool
}

// subscription collects the IDs of changed jobs, or wakes the reader of one.
type subscription struct {
	// only, when set, is the one job of interest.
	only string
	wake chan struct{}
	mu   sync.Mutex
	ids  []string
}

func (h *hub) subscribe(only string) *subscription {
	s := &subscription{only: only, wake: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.every == nil {
		h.every, h.jobs = map[*subscription]bool{}, map[string]map[*subscription]bool{}
	}
	if only == "" {
		h.every[s] = true
		return s
	}
	if h.jobs[only] == nil {
		h.jobs[only] = map[*subscription]bool{}
	}
	h.jobs[only][s] = true
	return s
}

func (h *hub) unsubscribe(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.only == "" {
		delete(h.every, s)
		return
	}
	delete(h.jobs[s.only], s)
	if len(h.jobs[s.only]) == 0 {
		delete(h.jobs, s.only)
	}
}

func (h *hub) publish(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.every {
		s.mu.Lock()
		s.ids = append(s.ids, id)
		s.mu.Unlock()
		s.ring()
	}
	for s := range h.jobs[id] {
		s.ring()
	}
}

func (s *subscription) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *subscription) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := s.ids
	s.ids = nil
	return ids
}

// folderPoll is how often a folder is looked into for what other processes did.
const folderPoll = 50 * time.Millisecond

// wait returns when the subscription rings, at a time (the zero time never
// comes), when a folder should be looked into, or with ctx's cause.
func (c *Cloud) wait(ctx context.Context, s *subscription, until time.Time) error {
	var d time.Duration
	timed := !until.IsZero()
	if timed {
		if d = until.Sub(c.clock.Now()); d <= 0 {
			return context.Cause(ctx)
		}
	}
	if c.store.poll() && (!timed || d > folderPoll) {
		timed, d = true, folderPoll
	}
	if !timed {
		select {
		case <-s.wake:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	sleep, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-s.wake:
			cancel()
		case <-sleep.Done():
		}
	}()
	_ = c.clock.Sleep(sleep, d)
	cancel()
	<-done
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

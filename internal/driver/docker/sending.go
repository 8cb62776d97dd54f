package docker

import (
	"context"
	"sync"

	"github.com/windlass-run/windlass/sdk"
)

// sending lets one send of an attempt through at a time.
type sending struct {
	mu   sync.Mutex
	busy map[sdk.ID]chan struct{}
}

// enter waits for its turn. The returned function ends it.
func (s *sending) enter(ctx context.Context, attempt sdk.ID) (done func(), err error) {
	for {
		s.mu.Lock()
		other := s.busy[attempt]
		if other == nil {
			if s.busy == nil {
				s.busy = map[sdk.ID]chan struct{}{}
			}
			own := make(chan struct{})
			s.busy[attempt] = own
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.busy, attempt)
				s.mu.Unlock()
				close(own)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

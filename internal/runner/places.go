package runner

import (
	"fmt"
	"sync"

	"github.com/windlass-run/windlass/sdk"
)

// places bounds the jobs at a time, in all and of each client.
type places struct {
	mu    sync.Mutex
	most  int
	taken int
	of    map[string]int
}

func newPlaces(most int) *places { return &places{most: most, of: map[string]int{}} }

// take takes a place, or is ResourceExhausted: nobody waits. The place is given
// back by calling release, once.
func (p *places) take(c Client) (release func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.taken >= p.most:
		return nil, full(fmt.Errorf("the runner has %d jobs, as many as it takes", p.taken))
	case c.MaxJobs > 0 && p.of[c.Name] >= c.MaxJobs:
		return nil, full(fmt.Errorf("%s has %d jobs, as many as it may", c.Name, p.of[c.Name]))
	}
	p.taken++
	p.of[c.Name]++
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.taken--
		if p.of[c.Name]--; p.of[c.Name] == 0 {
			delete(p.of, c.Name)
		}
	}), nil
}

func full(err error) error {
	return &sdk.Error{Code: sdk.ResourceExhausted, Op: opExec, ID: ErrFull, Retryable: true, Err: err, Remedy: "call again when one has ended"}
}

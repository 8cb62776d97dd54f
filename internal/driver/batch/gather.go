package batch

import (
	"context"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/windlass-run/windlass/sdk"
)

// gatherFor is how long a look at one job waits for others to share its call.
const gatherFor = 20 * time.Millisecond

// gather joins looks at single jobs into calls for many: a thousand readers of
// logs may wait for jobs to start. The zero value is ready.
type gather struct {
	mu   sync.Mutex
	next *round
}

// round is one call in the making. What it found stands once done is closed.
type round struct {
	ids   map[string]bool
	done  chan struct{}
	found map[string]types.JobDetail
	err   error
}

// look asks for one job, in a call with others that ask at the same time.
func (p *provider) look(ctx context.Context, op, id string) (j types.JobDetail, ok bool, err error) {
	g := &p.gather
	g.mu.Lock()
	r := g.next
	if r == nil || len(r.ids) == batchMax {
		r = &round{ids: map[string]bool{}, done: make(chan struct{})}
		g.next = r
		// The call is for whoever joins: it has a bound of its own.
		go p.ask(context.WithoutCancel(ctx), op, r)
	}
	r.ids[id] = true
	g.mu.Unlock()
	select {
	case <-r.done:
		j, ok = r.found[id]
		return j, ok, r.err
	case <-ctx.Done():
		return j, false, p.fail(sdk.CodeOf(ctx.Err()), op, ctx.Err())
	}
}

// ask waits for others and makes the call.
func (p *provider) ask(ctx context.Context, op string, r *round) {
	defer close(r.done)
	if r.err = sdk.SystemClock().Sleep(ctx, gatherFor); r.err != nil {
		return
	}
	// While there is no turn, others may still join.
	if err := p.reads.Wait(ctx); err != nil {
		r.err = p.fail(sdk.CodeOf(err), op, err)
		return
	}
	p.gather.mu.Lock()
	if p.gather.next == r {
		p.gather.next = nil
	}
	ids := sortedKeys(r.ids)
	p.gather.mu.Unlock()
	r.found, r.err = p.describeNow(ctx, op, ids)
}

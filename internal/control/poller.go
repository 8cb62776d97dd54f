package control

import (
	"cmp"
	"container/heap"
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/windlass-run/windlass/sdk"
)

// poller asks one backend for the states of all runs that this engine drives
// there: in batches, under the backend's budget, ever more slowly for what
// doesn't answer. N runs cost N/batch calls a round.
type poller struct {
	e     *Engine
	back  Backend
	limit *rate.Limiter

	// cleans has a place for each clean-up that runs.
	cleans chan struct{}

	mu      sync.Mutex
	jobs    map[sdk.ID]*tracked
	due     dueHeap
	kick    chan struct{}
	running bool
	calls   int // under way
}

// tracked is one job that is being asked for.
type tracked struct {
	p       *poller
	attempt sdk.ID
	handle  sdk.JobHandle
	// updates has the latest answer only: a slow reader misses none that counts.
	updates chan statusUpdate
	next    time.Time
	// planned is the wait until next, as it was worked out.
	planned time.Duration
	every   time.Duration
	fails   int
	index   int // in the heap, -1 while being asked for
	closed  bool
	again   bool
}

type statusUpdate struct {
	res sdk.JobStatusResult
	err error
}

const (
	// firstPoll is the second look at a job; waits double from there to the
	// poll interval, so that short jobs are seen early.
	firstPoll = 100 * time.Millisecond
	// slowestPoll bounds the waits for what gives no answer of use.
	slowestPoll = 60 * time.Second
	// slowestUnheard bounds them where the backend gives no answer at all, so that one
	// that answers again is seen soon.
	slowestUnheard = 15 * time.Second
	// singleCalls is how many calls run at once where there is no batch.
	singleCalls = 16
	// cleansAtOnce is how many clean-ups run at once. Each is several calls under one
	// time-out: of a thousand jobs that end together all would wait for the provider's
	// budget until their time is up, and begin again from the start.
	cleansAtOnce = 16
)

func (e *Engine) poller(back Backend) *poller {
	key := back.Info().Identity.String() + "\x00" + back.Name
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.pollers[key]
	if p == nil {
		info := back.Info()
		limit := rate.Inf
		if info.Rate > 0 {
			limit = rate.Limit(info.Rate)
		}
		p = &poller{e: e, back: back, limit: rate.NewLimiter(limit, max(info.Burst, 1)), jobs: map[sdk.ID]*tracked{}, kick: make(chan struct{}, 1),
			cleans: make(chan struct{}, cleansAtOnce)}
		e.pollers[key] = p
	}
	return p
}

// track asks for a job from now on: ever more slowly for one that has just
// begun, and at the poll interval for one that was taken up, of which there may
// be thousands in one moment.
func (p *poller) track(ctx context.Context, attempt sdk.ID, h sdk.JobHandle, begun bool) *tracked {
	t := &tracked{p: p, attempt: attempt, handle: h, updates: make(chan statusUpdate, 1), next: p.e.clock.Now(), every: firstPoll, index: -1}
	if !begun {
		t.every = p.back.pollInterval()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.jobs[attempt] = t
	heap.Push(&p.due, t)
	if !p.running {
		p.running = true
		p.e.mu.Lock()
		p.e.background(ctx, p.loop)
		p.e.mu.Unlock()
	}
	p.wakeLocked()
	return t
}

func (t *tracked) close() {
	p := t.p
	p.mu.Lock()
	defer p.mu.Unlock()
	t.closed = true
	if p.jobs[t.attempt] == t {
		delete(p.jobs, t.attempt)
	}
	if t.index >= 0 {
		heap.Remove(&p.due, t.index)
	}
	p.wakeLocked()
}

// now asks for the job at once.
func (t *tracked) now() { t.p.sooner(t) }

func (p *poller) sooner(t *tracked) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.closed {
		return
	}
	t.every = firstPoll
	if t.index < 0 {
		t.again = true // being asked for at this moment: ask once more after it
		return
	}
	t.next = p.e.clock.Now()
	heap.Fix(&p.due, t.index)
	p.wakeLocked()
}

func (p *poller) wakeLocked() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

func (p *poller) loop(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	if w, ok := sdk.Of(p.back.Provider, sdk.Watcher()); ok {
		wg.Add(1)
		go func() { defer wg.Done(); p.watch(ctx, w) }()
	}
	for {
		wait, more := p.turn()
		if !more {
			cancel()
			return
		}
		if wait > 0 {
			p.waitFor(ctx, wait)
		} else if p.limit.Wait(ctx) == nil {
			// Taken after the wait: what fell due meanwhile comes along.
			if batch := p.take(); len(batch) > 0 {
				wg.Add(1)
				go func() {
					defer wg.Done()
					defer p.asked()
					p.ask(ctx, batch)
				}()
			}
		}
		if ctx.Err() != nil {
			p.mu.Lock()
			p.running = false
			p.mu.Unlock()
			return
		}
	}
}

// batchSize is how many jobs one call asks for.
func (p *poller) batchSize() int {
	if _, ok := sdk.Of(p.back.Provider, sdk.Batcher()); !ok {
		return 1
	}
	return cmp.Or(max(p.back.Info().BatchMax, 0), 1000)
}

// mostCalls is how many calls may be under way. Batches are as many as all jobs
// need, and one more, so that one that hangs doesn't hold up the others: with
// more, a slow backend would be asked ever more often for ever fewer.
func (p *poller) mostCalls(size int) int {
	if size == 1 {
		return singleCalls
	}
	return min(1+(len(p.jobs)+size-1)/size, singleCalls)
}

// turn returns how long until a job may be asked for, zero for one that may be
// now. more is false once there is nothing left to track.
func (p *poller) turn() (wait time.Duration, more bool) {
	size := p.batchSize()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.jobs) == 0 {
		p.running = false
		return 0, false
	}
	if len(p.due) == 0 || p.calls >= p.mostCalls(size) {
		return slowestPoll, true // an answer, or a job that comes, wakes the loop
	}
	return p.untilDue(p.due[0]), true
}

// untilDue is how long until a job is due, at most as long as was planned: the
// clock may be set back.
func (p *poller) untilDue(t *tracked) time.Duration {
	wait := t.next.Sub(p.e.clock.Now())
	if wait > t.planned {
		return 0
	}
	return max(wait, 0)
}

// take returns the jobs that are due, at most one batch, as one call more.
func (p *poller) take() (batch []*tracked) {
	size := p.batchSize()
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.due) > 0 && len(batch) < size && p.untilDue(p.due[0]) == 0 {
		batch = append(batch, heap.Pop(&p.due).(*tracked))
	}
	if len(batch) > 0 {
		p.calls++
	}
	return batch
}

// asked ends a call.
func (p *poller) asked() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls--
	p.wakeLocked()
}

func (p *poller) waitFor(ctx context.Context, d time.Duration) {
	done, free := p.e.after(ctx, d)
	defer free()
	select {
	case <-done:
	case <-p.kick:
	case <-ctx.Done():
	}
}

func (p *poller) ask(ctx context.Context, batch []*tracked) {
	limit := p.back.callTimeout()
	if b, ok := sdk.Of(p.back.Provider, sdk.Batcher()); ok {
		req := sdk.JobStatusesRequest{Handles: make([]sdk.JobHandle, len(batch))}
		for i, t := range batch {
			req.Handles[i] = t.handle
		}
		res, err := call(ctx, limit, "status", func(ctx context.Context) (sdk.JobStatusesResult, error) { return b.JobStatuses(ctx, req) })
		if err == nil && len(res.Items) != len(batch) {
			err = sdk.Errorf(sdk.Internal, "status", "provider %s gave %d answers to %d questions", p.back.Name, len(res.Items), len(batch))
		}
		for i, t := range batch {
			if err != nil {
				p.answer(t, statusUpdate{err: err})
			} else {
				p.answer(t, statusUpdate{res.Items[i].Result, res.Items[i].Err})
			}
		}
		return
	}
	for _, t := range batch {
		res, err := p.e.statusOf(ctx, p.back, t.handle)
		p.answer(t, statusUpdate{res, err})
	}
}

// answer hands an answer to the run and plans the next look.
func (p *poller) answer(t *tracked, up statusUpdate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.closed {
		return
	}
	if up.err == nil && up.res.Handle != nil {
		t.handle = *up.res.Handle
	}
	select {
	case <-t.updates:
	default:
	}
	t.updates <- up
	interval := p.back.pollInterval()
	var wait time.Duration
	if up.err != nil || up.res.State == sdk.StateUnknown {
		t.fails++
		wait = failedWait(interval, t.fails, up.err)
	} else {
		t.fails = 0
		wait = min(t.every, interval)
		t.every = min(t.every*2, interval)
	}
	if t.again {
		t.again, wait = false, 0
	}
	t.planned, t.next = wait, p.e.clock.Now().Add(wait)
	if wait >= interval {
		// Looks fall on common moments, so that batches are full. Not by
		// Truncate alone, which loses the reading that no step moves.
		t.next = t.next.Add(t.next.Truncate(interval / 8).Sub(t.next))
	}
	heap.Push(&p.due, t)
	p.wakeLocked()
}

// failedWait is the wait after so many looks in a row that told nothing; err is the
// last one's, and may be nil.
func failedWait(interval time.Duration, fails int, err error) time.Duration {
	wait := min(interval<<min(fails-1, 10), slowestPoll)
	if unheard(err) {
		wait = min(wait, max(slowestUnheard, interval))
	}
	return max(wait/2+jitter(wait/2), sdk.RetryAfter(err))
}

// unheard reports whether a call failed since the backend gave no answer.
func unheard(err error) bool {
	switch sdk.CodeOf(err) {
	case sdk.Unavailable, sdk.DeadlineExceeded:
		return true
	}
	return false
}

// watch turns the backend's hints into early looks.
func (p *poller) watch(ctx context.Context, w sdk.JobWatcher) {
	resume, wait := "", firstPoll
	for ctx.Err() == nil {
		_, err := shielded("watch jobs", func() (struct{}, error) {
			for ev, err := range w.WatchJobs(ctx, sdk.WatchJobsRequest{Owner: p.e.o.Owner, Resume: resume}) {
				if err != nil {
					return struct{}{}, err
				}
				resume, wait = ev.Resume, firstPoll
				p.hint(ev.AttemptID)
			}
			return struct{}{}, nil
		})
		if err != nil {
			if sdk.CodeOf(err) == sdk.OutOfRange || sdk.CodeOf(err) == sdk.InvalidArgument {
				resume = "" // too old: start from now, polling covers the gap
			}
			if ctx.Err() == nil {
				p.e.log.Debug("watch ended", "provider", p.back.Name, "err", err)
			}
		}
		if p.e.clock.Sleep(ctx, wait) != nil {
			return
		}
		wait = min(wait*2, slowestPoll)
	}
}

func (p *poller) hint(attempt sdk.ID) {
	p.mu.Lock()
	var hit []*tracked
	if attempt.IsZero() {
		for _, t := range p.jobs {
			hit = append(hit, t)
		}
	} else if t := p.jobs[attempt]; t != nil {
		hit = append(hit, t)
	}
	p.mu.Unlock()
	for _, t := range hit {
		p.sooner(t)
	}
}

// LookNow asks the backends for all jobs at once, for when credentials were
// renewed that some of them lacked.
func (e *Engine) LookNow() {
	e.mu.Lock()
	var all []*poller
	for _, p := range e.pollers {
		all = append(all, p)
	}
	e.mu.Unlock()
	for _, p := range all {
		p.hint(sdk.ID{})
	}
}

// dueHeap orders tracked jobs by their next look.
type dueHeap []*tracked

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].next.Before(h[j].next) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *dueHeap) Push(x any) {
	t := x.(*tracked)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *dueHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	t.index = -1
	return t
}

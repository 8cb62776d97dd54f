package telemetry

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

const (
	// looksAtOnce is how many status calls one provider gets side by side.
	looksAtOnce = 8
	// Between two tries of a stream that ended.
	leastPause = time.Second
	mostPause  = 30 * time.Second
	// mostMeters bounds the instances of one provider whose state is remembered.
	mostMeters = 1 << 16
)

// reader reads one source.
type reader struct {
	Source
	o Options
	q *queue
	// changed has a token when paths may differ from what the measuring began with.
	changed chan struct{}

	mu    sync.Mutex
	paths []sdk.WorkloadPath
	// listed: there was a listing.
	listed bool
	seen   map[sdk.WorkloadPath]*seen
	meters map[meter]string
	told   map[about]string
}

// meter is an instance whose measuring has a state: why it warms, or "" when it
// is measured.
type meter struct {
	path     sdk.WorkloadPath
	instance string
}

// about is something that can be unreadable.
type about struct {
	path sdk.WorkloadPath
	what string
}

func (r *reader) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if r.List == nil {
		return
	}
	r.list(ctx)
	wg.Go(func() { r.every(ctx, r.o.ListEvery, r.o.ListEvery, r.list) })
	if r.Status != nil {
		wg.Go(func() { r.every(ctx, 0, r.o.StatusEvery, r.look) })
	}
	if r.Metrics != nil {
		wg.Go(func() { r.measure(ctx) })
	}
}

// every runs do after a first pause, and then so that its beginnings are d apart,
// or one follows another where it takes longer.
func (r *reader) every(ctx context.Context, first, d time.Duration, do func(context.Context)) {
	pause := first
	for r.o.Clock.Sleep(ctx, pause) == nil {
		began := r.o.Clock.Now()
		do(ctx)
		pause = max(d-r.o.Clock.Now().Sub(began), 0)
	}
}

// list asks for the workloads. While it fails, those known before stay.
func (r *reader) list(ctx context.Context) {
	paths, err := r.List(ctx)
	if ctx.Err() != nil {
		return
	}
	r.readable("", "list", err)
	if err != nil {
		return
	}
	paths = slices.Clone(paths)
	slices.Sort(paths)
	paths = slices.Compact(paths)
	r.mu.Lock()
	old, first := r.paths, !r.listed
	r.paths, r.listed = paths, true
	r.mu.Unlock()
	if !first {
		for _, p := range paths {
			if !has(old, p) {
				r.event(p, "", Event{Kind: Appeared})
			}
		}
	}
	for _, p := range old {
		if !has(paths, p) {
			r.forget(p)
			r.event(p, "", Event{Kind: Gone})
		}
	}
	if !slices.Equal(old, paths) {
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
}

func has(sorted []sdk.WorkloadPath, p sdk.WorkloadPath) bool {
	_, ok := slices.BinarySearch(sorted, p)
	return ok
}

func (r *reader) forget(p sdk.WorkloadPath) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, p)
	for m := range r.meters {
		if m.path == p {
			delete(r.meters, m)
		}
	}
	for a := range r.told {
		if a.path == p {
			delete(r.told, a)
		}
	}
}

func (r *reader) known() []sdk.WorkloadPath {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.paths
}

// measure streams samples, and begins again when the stream ends or other
// workloads are to be measured.
func (r *reader) measure(ctx context.Context) {
	pause := leastPause
	for ctx.Err() == nil {
		paths := r.known()
		if len(paths) == 0 {
			select {
			case <-ctx.Done():
			case <-r.changed:
			}
			continue
		}
		began := r.o.Clock.Now()
		again := r.stream(ctx, paths)
		if again || ctx.Err() != nil {
			pause = leastPause
			continue
		}
		if r.o.Clock.Now().Sub(began) > mostPause {
			pause = leastPause
		}
		if r.o.Clock.Sleep(ctx, pause) != nil {
			return
		}
		pause = min(2*pause, mostPause)
	}
}

// errChanged ends a stream because other workloads are to be measured.
var errChanged = errors.New("the workloads changed")

// stream measures these workloads until that ends, and reports whether it was
// ended because the workloads changed.
func (r *reader) stream(ctx context.Context, paths []sdk.WorkloadPath) (again bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	done := make(chan struct{})
	defer close(done)
	wg.Go(func() {
		for {
			select {
			case <-r.changed:
				if !slices.Equal(r.known(), paths) {
					cancel(errChanged)
					return
				}
			case <-done:
				return
			}
		}
	})
	err := errors.New("the stream of samples ended")
	for it, e := range r.Metrics(ctx, sdk.StreamMetricsRequest{Paths: paths, Interval: r.o.Interval}) {
		if e != nil {
			err = e
			break
		}
		r.readable("", "measure", nil)
		r.sample(it)
	}
	if ctx.Err() != nil {
		return errors.Is(context.Cause(ctx), errChanged)
	}
	r.readable("", "measure", err)
	return false
}

// sample takes an item of a stream of samples.
func (r *reader) sample(it sdk.MetricItem) {
	if it.Failed != nil {
		r.readable(it.Path, "measure", it.Failed)
		return
	}
	if it.Sample == nil && it.Warming == "" {
		return
	}
	r.readable(it.Path, "measure", nil)
	if !has(r.known(), it.Path) {
		return // it is gone meanwhile, or wasn't asked for
	}
	m := meter{it.Path, it.Instance}
	r.mu.Lock()
	was, known := r.meters[m]
	if known || len(r.meters) < mostMeters {
		r.meters[m] = it.Warming
	}
	r.mu.Unlock()
	switch {
	case it.Warming != "" && (!known || was != it.Warming):
		r.event(it.Path, it.Instance, Event{Kind: Warming, Message: it.Warming})
	case it.Sample != nil && known && was != "":
		r.event(it.Path, it.Instance, Event{Kind: Measured})
	}
	if it.Sample != nil {
		r.put(Item{Target: r.target(it.Path), Instance: it.Instance, Sample: it.Sample})
	}
}

// readable tells when something can't be read any more, and when it can again.
func (r *reader) readable(p sdk.WorkloadPath, what string, err error) {
	a, text := about{p, what}, ""
	if err != nil {
		text = err.Error()
	}
	r.mu.Lock()
	was := r.told[a]
	if text == "" {
		delete(r.told, a)
	} else if len(r.told) < mostMeters {
		r.told[a] = text
	}
	r.mu.Unlock()
	switch {
	case text == was:
	case text == "":
		r.event(p, "", Event{Kind: Known, What: what})
	default:
		r.event(p, "", Event{Kind: Unknown, What: what, Message: text})
	}
}

func (r *reader) target(p sdk.WorkloadPath) sdk.Target {
	return sdk.Target{Provider: r.Provider, Path: p}
}

func (r *reader) event(p sdk.WorkloadPath, instance string, e Event) {
	r.put(Item{Target: r.target(p), Instance: instance, Event: &e})
}

func (r *reader) put(it Item) {
	it.Time = r.o.Clock.Now()
	r.q.put(it)
}

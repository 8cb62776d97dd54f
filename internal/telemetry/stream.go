package telemetry

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Source is one provider's workloads, and the ways to read them. A way that is nil
// isn't used. All functions are safe for concurrent use and bounded in time, but
// for Metrics, which goes on until its context ends.
type Source struct {
	Provider string
	// List gives the workloads; it is asked again from time to time.
	List func(ctx context.Context) ([]sdk.WorkloadPath, error)
	// Status reads one workload.
	Status func(ctx context.Context, path sdk.WorkloadPath) (sdk.DeploymentStatus, error)
	// Metrics is sdk.MetricStreamer's method.
	Metrics func(ctx context.Context, r sdk.StreamMetricsRequest) iter.Seq2[sdk.MetricItem, error]
}

// Options say how often to look. Zero values are the defaults.
type Options struct {
	// Interval is the time between two samples of an instance; one second when
	// zero. Providers may have fewer.
	Interval time.Duration
	// StatusEvery is the time between two looks at a workload's counts; five
	// seconds, or Interval when that is longer.
	StatusEvery time.Duration
	// ListEvery is the time between two listings; 30 seconds.
	ListEvery time.Duration
	// Clock is the machine's own when nil.
	Clock sdk.Clock
}

func (o Options) filled() Options {
	if o.Interval <= 0 {
		o.Interval = time.Second
	}
	if o.StatusEvery <= 0 {
		o.StatusEvery = max(5*time.Second, o.Interval)
	}
	if o.ListEvery <= 0 {
		o.ListEvery = 30 * time.Second
	}
	if o.Clock == nil {
		o.Clock = sdk.SystemClock()
	}
	return o
}

// Stream reads all sources side by side until ctx ends or the caller stops, and
// has ended everything that it began when the loop over it ends. A source that
// fails is told of by an event, and tried again; the others go on. A slow reader
// gets the newest of each instance, and is told how much it missed.
func Stream(ctx context.Context, sources []Source, o Options) iter.Seq[Item] {
	return func(yield func(Item) bool) {
		o := o.filled()
		ctx, cancel := context.WithCancel(ctx)
		q := newQueue()
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		for _, s := range sources {
			r := &reader{Source: s, o: o, q: q, changed: make(chan struct{}, 1), seen: map[sdk.WorkloadPath]*seen{}, meters: map[meter]string{}, told: map[about]string{}}
			wg.Go(func() { r.run(ctx) })
		}
		for {
			it, lost, ok := q.take()
			if lost > 0 && !yield(Item{Time: o.Clock.Now(), Event: &Event{Kind: Lost, Count: lost, Message: "items were left out, as the reader was slow"}}) {
				return
			}
			if ok {
				if ctx.Err() != nil || !yield(it) {
					return
				}
			} else if !q.wait(ctx) {
				return
			}
		}
	}
}

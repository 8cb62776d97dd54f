package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/telemetry"
	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a scripted provider.
type world struct {
	mu      sync.Mutex
	paths   []sdk.WorkloadPath
	listErr error
	status  map[sdk.WorkloadPath]sdk.DeploymentStatus
	broken  map[sdk.WorkloadPath]error
	metrics func(ctx context.Context, r sdk.StreamMetricsRequest, yield func(sdk.MetricItem, error) bool)
	streams int
}

func (w *world) set(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

func (w *world) source(name string) telemetry.Source {
	return telemetry.Source{Provider: name,
		List: func(context.Context) ([]sdk.WorkloadPath, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.paths, w.listErr
		},
		Status: func(_ context.Context, p sdk.WorkloadPath) (sdk.DeploymentStatus, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.status[p], w.broken[p]
		},
		Metrics: func(ctx context.Context, r sdk.StreamMetricsRequest) iter.Seq2[sdk.MetricItem, error] {
			w.set(func() { w.streams++ })
			return func(yield func(sdk.MetricItem, error) bool) {
				if w.metrics != nil {
					w.metrics(ctx, r, yield)
					return
				}
				<-ctx.Done()
			}
		}}
}

func ptr[T any](v T) *T { return &v }

func status(desired int, names ...string) sdk.DeploymentStatus {
	st := sdk.DeploymentStatus{Desired: &desired, Ready: ptr(len(names)), Rollout: sdk.RolloutComplete}
	for _, n := range names {
		st.Instances = append(st.Instances, sdk.InstanceStatus{Name: n, State: sdk.InstanceRunning, Ready: true, Restarts: ptr(0)})
	}
	return st
}

// words is an item in one line.
func words(it telemetry.Item) string {
	who := it.Target.String()
	if it.Instance != "" {
		who += "#" + it.Instance
	}
	switch {
	case it.Sample != nil:
		return fmt.Sprintf("%s sample %d", who, *it.Sample.CPU)
	case it.Counts != nil:
		return fmt.Sprintf("%s counts %d/%d", who, *it.Counts.Ready, *it.Counts.Desired)
	}
	e := it.Event
	s := fmt.Sprintf("%s %s", who, e.Kind)
	if e.What != "" {
		s += " " + e.What
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Count != 0 {
		s += fmt.Sprintf(" (%d)", e.Count)
	}
	return s
}

// watch collects what a stream gives. Its steps run one after the other, each when
// all that the step before set going has come.
func watch(t *testing.T, sources []telemetry.Source, o telemetry.Options, steps ...func(got []string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var got []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		for it := range telemetry.Stream(ctx, sources, o) {
			mu.Lock()
			got = append(got, words(it))
			mu.Unlock()
		}
	}()
	for _, step := range steps {
		synctest.Wait()
		mu.Lock()
		lines := got
		got = nil
		mu.Unlock()
		step(lines)
	}
	cancel()
	<-done
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	left := map[string]int{}
	for _, g := range got {
		left[g]++
	}
	for _, w := range want {
		left[w]--
	}
	for line, n := range left {
		if n > 0 {
			t.Errorf("%s: unexpected %q", what, line)
		} else if n < 0 {
			t.Errorf("%s: missing %q", what, line)
		}
	}
}

func TestStreamTellsChangesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{paths: []sdk.WorkloadPath{"api"}, status: map[sdk.WorkloadPath]sdk.DeploymentStatus{"api": status(2, "a", "b")}}
		next := func() { time.Sleep(5 * time.Second) }
		watch(t, []telemetry.Source{w.source("p")}, telemetry.Options{},
			func(got []string) {
				same(t, "first look", got, "p/api counts 2/2")
				w.set(func() {
					st := status(3, "b", "c")
					st.Instances[0].Restarts = ptr(2)
					st.Rollout, st.Failure = sdk.RolloutProgressing, &sdk.WorkloadFailure{Reason: sdk.ReasonOOMKilled, Message: "b ran out of memory"}
					w.status["api"] = st
				})
				next()
			},
			func(got []string) {
				same(t, "after a change", got, "p/api counts 2/3", "p/api scaled (3)", "p/api rollout: progressing", "p/api failure: oom_killed: b ran out of memory",
					"p/api#a gone", "p/api#c appeared", "p/api#b restarted (2)")
				next()
			},
			func(got []string) {
				same(t, "no change", got, "p/api counts 2/3")
				w.set(func() { w.broken = map[sdk.WorkloadPath]error{"api": errors.New("no answer")} })
				next()
				next()
			},
			func(got []string) {
				same(t, "unreadable", got, "p/api unknown status: no answer")
				w.set(func() { w.broken = nil })
				next()
			},
			func(got []string) { same(t, "readable again", got, "p/api counts 2/3", "p/api known status") },
		)
	})
}

func TestStreamFollowsListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{listErr: errors.New("down"), status: map[sdk.WorkloadPath]sdk.DeploymentStatus{"a": status(1, "1"), "b": status(1, "1")}}
		w.metrics = func(ctx context.Context, r sdk.StreamMetricsRequest, yield func(sdk.MetricItem, error) bool) {
			for _, p := range r.Paths {
				if !yield(sdk.MetricItem{Path: p, Instance: "1", Sample: &sdk.MetricSample{CPU: ptr(int64(len(r.Paths)))}}, nil) {
					return
				}
			}
			<-ctx.Done()
		}
		list := func(err error, paths ...sdk.WorkloadPath) {
			w.set(func() { w.paths, w.listErr = paths, err })
			time.Sleep(time.Minute)
		}
		o := telemetry.Options{StatusEvery: time.Hour, ListEvery: time.Minute}
		watch(t, []telemetry.Source{w.source("p")}, o,
			func(got []string) {
				same(t, "no listing", got, "p/ unknown list: down")
				list(nil, "a")
			},
			func(got []string) {
				same(t, "first listing", got, "p/ known list", "p/a#1 sample 1")
				list(nil, "b", "a", "a")
			},
			func(got []string) {
				same(t, "one more", got, "p/b appeared", "p/a#1 sample 2", "p/b#1 sample 2")
				list(errors.New("down"))
			},
			func(got []string) {
				same(t, "an outage isn't an empty listing", got, "p/ unknown list: down")
				list(nil, "b")
			},
			func(got []string) { same(t, "one less", got, "p/ known list", "p/a gone", "p/b#1 sample 1") },
		)
	})
}

func TestF102WarmingIsNoZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{paths: []sdk.WorkloadPath{"api"}}
		w.metrics = func(ctx context.Context, _ sdk.StreamMetricsRequest, yield func(sdk.MetricItem, error) bool) {
			for range 3 {
				if !yield(sdk.MetricItem{Path: "api", Instance: "a", Warming: "no sample yet"}, nil) {
					return
				}
				time.Sleep(time.Second)
			}
			yield(sdk.MetricItem{Path: "api", Instance: "a", Sample: &sdk.MetricSample{CPU: ptr(int64(7))}}, nil)
			yield(sdk.MetricItem{Path: "api", Failed: errors.New("half of it is gone")}, nil)
			<-ctx.Done()
		}
		s := w.source("p")
		s.Status = nil
		watch(t, []telemetry.Source{s}, telemetry.Options{}, func([]string) { time.Sleep(10 * time.Second) },
			func(got []string) {
				same(t, "warming, then measured", got, "p/api#a measured", "p/api#a sample 7", "p/api unknown measure: half of it is gone")
			})
	})
}

// A stream of samples that ends or fails is begun again, more and more rarely, and
// told of once.
func TestStreamBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{paths: []sdk.WorkloadPath{"api"}}
		w.metrics = func(_ context.Context, _ sdk.StreamMetricsRequest, yield func(sdk.MetricItem, error) bool) {
			yield(sdk.MetricItem{}, errors.New("throttled"))
		}
		s := w.source("p")
		s.Status = nil
		watch(t, []telemetry.Source{s}, telemetry.Options{}, func([]string) { time.Sleep(10 * time.Minute) },
			func(got []string) { same(t, "a failing stream", got) })
		if n := w.streams; n < 20 || n > 26 {
			t.Errorf("ten minutes took %d streams, want one each half minute after the first ones", n)
		}
	})
}

// A reader that takes nothing gets the newest of each instance, and is told what
// it missed; what waits for it is bounded.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{paths: []sdk.WorkloadPath{"api"}}
		w.metrics = func(ctx context.Context, _ sdk.StreamMetricsRequest, yield func(sdk.MetricItem, error) bool) {
			for n := range 5_000 {
				warm := sdk.MetricItem{Path: "api", Instance: "w", Warming: fmt.Sprint(n)}
				if !yield(sdk.MetricItem{Path: "api", Instance: "a", Sample: &sdk.MetricSample{CPU: ptr(int64(n))}}, nil) || !yield(warm, nil) {
					return
				}
			}
			<-ctx.Done()
		}
		s := w.source("p")
		s.Status = nil
		next, stop := iter.Pull(telemetry.Stream(t.Context(), []telemetry.Source{s}, telemetry.Options{}))
		defer stop()
		lost, events, samples := 0, 0, []int64{}
		for read := 0; len(samples) == 0 || samples[len(samples)-1] != 4_999; read++ {
			it, ok := next()
			if !ok {
				t.Fatal("the stream ended")
			}
			switch {
			case it.Sample != nil:
				samples = append(samples, *it.Sample.CPU)
			case it.Event.Kind == telemetry.Lost: // which may be the first, too
				lost += it.Event.Count
			default:
				events++
			}
			if read == 0 {
				synctest.Wait() // everything else comes meanwhile
			}
		}
		if len(samples) > 2 {
			t.Errorf("a slow reader got %d samples of one instance, want the newest", len(samples))
		}
		if lost == 0 || lost+events != 5_000 {
			t.Errorf("%d events came and %d were told to be lost, want 5000 in all", events, lost)
		}
	})
}

// Stopping in the middle ends everything that was begun, also calls under way.
func TestStopEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{paths: []sdk.WorkloadPath{"api"}, status: map[sdk.WorkloadPath]sdk.DeploymentStatus{"api": status(1, "a")}}
		hang := w.source("hang")
		hang.Status = func(ctx context.Context, _ sdk.WorkloadPath) (sdk.DeploymentStatus, error) {
			<-ctx.Done()
			return sdk.DeploymentStatus{}, context.Cause(ctx)
		}
		n := 0
		for range telemetry.Stream(t.Context(), []telemetry.Source{hang, w.source("p")}, telemetry.Options{}) {
			n++
			break
		}
		if n != 1 {
			t.Errorf("%d items, want one", n)
		}
	})
}

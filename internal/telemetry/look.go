package telemetry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/windlass-run/windlass/sdk"
)

// seen is what the last look at a workload found.
type seen struct {
	desired   *int
	rollout   sdk.RolloutState
	stopped   bool
	failure   string
	instances map[string]int // restarts, -1 where they aren't told
}

// look reads all workloads, a few at once.
func (r *reader) look(ctx context.Context) {
	paths := make(chan sdk.WorkloadPath)
	var wg sync.WaitGroup
	known := r.known()
	for range min(looksAtOnce, len(known)) {
		wg.Go(func() {
			for p := range paths {
				st, err := r.Status(ctx, p)
				if ctx.Err() != nil {
					continue
				}
				r.readable(p, "status", err)
				if err == nil {
					r.status(p, st)
				}
			}
		})
	}
	for _, p := range known {
		select {
		case paths <- p:
		case <-ctx.Done():
		}
	}
	close(paths)
	wg.Wait()
}

// status compares a workload with the last look at it. The first look tells its
// counts alone.
func (r *reader) status(p sdk.WorkloadPath, st sdk.DeploymentStatus) {
	now := &seen{desired: st.Desired, rollout: st.Rollout, stopped: st.Stopped, instances: map[string]int{}}
	if f := st.Failure; f != nil {
		now.failure = fmt.Sprintf("%s: %s", f.Reason, f.Message)
	}
	c := &Counts{Desired: st.Desired, Ready: st.Ready, Updated: st.Updated, Rollout: st.Rollout, Stopped: st.Stopped, Unmade: st.Unmade}
	for _, in := range st.Instances {
		if in.State == sdk.InstanceEnded {
			continue
		}
		n := -1
		if in.Restarts != nil {
			n = *in.Restarts
			if c.Restarts == nil {
				c.Restarts = new(int)
			}
			*c.Restarts += n
		}
		now.instances[in.Name] = n
		c.Instances = append(c.Instances, in)
	}
	r.mu.Lock()
	if !has(r.paths, p) { // it is gone meanwhile
		r.mu.Unlock()
		return
	}
	was := r.seen[p]
	r.seen[p] = now
	if was != nil {
		for in := range was.instances {
			if _, there := now.instances[in]; !there {
				delete(r.meters, meter{p, in})
			}
		}
	}
	r.mu.Unlock()
	r.put(Item{Target: r.target(p), Counts: c})
	if was != nil {
		r.compare(p, was, now)
	}
}

func (r *reader) compare(p sdk.WorkloadPath, was, now *seen) {
	if now.desired != nil && (was.desired == nil || *was.desired != *now.desired) {
		r.event(p, "", Event{Kind: Scaled, Count: *now.desired})
	}
	if was.rollout != now.rollout || was.stopped != now.stopped {
		r.event(p, "", Event{Kind: Rollout, Message: stands(now)})
	}
	if now.failure != "" && now.failure != was.failure {
		r.event(p, "", Event{Kind: Failed, Message: now.failure})
	}
	for _, in := range slices.Sorted(maps.Keys(now.instances)) {
		before, there := was.instances[in]
		switch n := now.instances[in]; {
		case !there:
			r.event(p, in, Event{Kind: Appeared})
		case before >= 0 && n > before:
			r.event(p, in, Event{Kind: Restarted, Count: n - before})
		}
	}
	for _, in := range slices.Sorted(maps.Keys(was.instances)) {
		if _, there := now.instances[in]; !there {
			r.event(p, in, Event{Kind: Gone})
		}
	}
}

func stands(s *seen) string {
	if s.stopped {
		return "stopped"
	}
	return string(s.rollout)
}

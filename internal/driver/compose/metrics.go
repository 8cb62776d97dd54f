package compose

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

const (
	opMetrics = "measure workload"
	// warms is how long the engine needs for two samples, which it takes once a
	// second.
	warms = 5 * time.Second
)

// The words of Warming.
const (
	warmFirst   = "the engine needs a second sample for a share of the processors"
	warmStopped = "it doesn't run"
	warmNone    = "no container is there"
)

// StreamMetrics implements sdk.MetricStreamer by the engine's stream of each
// container. Its first sample is of a single moment, with zeros for what needs
// two; it isn't given (F102).
func (p *provider) StreamMetrics(ctx context.Context, r sdk.StreamMetricsRequest) iter.Seq2[sdk.MetricItem, error] {
	return func(yield func(sdk.MetricItem, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		g := &gauge{p: p, r: r, items: make(chan sdk.MetricItem), told: map[string]string{}}
		end := make(chan error, 1)
		go func() {
			end <- g.run(ctx)
			close(g.items)
		}()
		for it := range g.items {
			if !yield(it, nil) {
				cancel()
				for range g.items {
				}
				return
			}
		}
		if err := <-end; err != nil {
			yield(sdk.MetricItem{}, err)
		}
	}
}

// gauge measures services.
type gauge struct {
	p     *provider
	r     sdk.StreamMetricsRequest
	items chan sdk.MetricItem

	mu sync.Mutex
	// told is what was last said of a service that isn't measured, by name.
	told map[string]string
	// restarts are by container.
	restarts map[string]int
}

func (g *gauge) run(ctx context.Context) error {
	var names []string
	for _, path := range g.r.Paths {
		name, err := g.p.serviceName(opMetrics, path)
		if err != nil {
			if err := g.give(ctx, sdk.MetricItem{Path: path, Failed: err}); err != nil {
				return err
			}
			continue
		}
		names = append(names, name)
	}
	c := &crew{p: g.p, op: opMetrics, work: g.measure}
	if len(names) == 1 {
		c.service = names[0]
	}
	c.seen = func(list []instance) { g.seen(ctx, names, list) }
	c.work = func(ctx context.Context, c instance) error {
		if !slices.Contains(names, c.service) {
			return nil
		}
		return g.measure(ctx, c)
	}
	return c.run(ctx)
}

func (g *gauge) give(ctx context.Context, it sdk.MetricItem) error {
	select {
	case g.items <- it:
		return nil
	case <-ctx.Done():
		return g.p.ended(ctx, opMetrics)
	}
}

// seen tells of services without a container, once for each change of that.
func (g *gauge) seen(ctx context.Context, names []string, list []instance) {
	restarts, there := map[string]int{}, map[string]bool{}
	for _, c := range list {
		restarts[c.id], there[c.service] = c.restarts, true
	}
	g.mu.Lock()
	g.restarts = restarts
	g.mu.Unlock()
	for _, name := range names {
		if there[name] {
			delete(g.told, name)
			continue
		}
		if g.told[name] != "" {
			continue
		}
		it := sdk.MetricItem{Path: sdk.WorkloadPath(name), Warming: warmNone}
		if _, err := g.p.found(ctx, opMetrics, name); err != nil {
			it.Warming, it.Failed = "", err
		}
		g.told[name] = warmNone
		if g.give(ctx, it) != nil {
			return
		}
	}
}

// measure gives the samples of one container until it is gone.
func (g *gauge) measure(ctx context.Context, c instance) error {
	path := sdk.WorkloadPath(c.service)
	var body io.ReadCloser
	release, err := g.p.client.Stream(ctx, opMetrics, func(ctx context.Context, api *client.Client) error {
		res, err := api.ContainerStats(ctx, c.id, client.ContainerStatsOptions{Stream: true})
		body = res.Body
		return err
	})
	if sdk.CodeOf(err) == sdk.NotFound {
		return nil
	}
	if err != nil {
		return g.give(ctx, sdk.MetricItem{Path: path, Instance: c.name, Failed: err})
	}
	defer release()
	defer func() { _ = body.Close() }()
	dec := json.NewDecoder(body)
	m := meter{interval: g.r.Interval}
	for {
		var x container.StatsResponse
		err := dec.Decode(&x)
		switch {
		case ctx.Err() != nil:
			return g.p.ended(ctx, opMetrics)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			// The container is gone, or the engine: the events tell of that.
			e := g.p.fail(sdk.Unavailable, opMetrics, "container %s: %w", c.name, err)
			return g.give(ctx, sdk.MetricItem{Path: path, Instance: c.name, Failed: e})
		}
		g.mu.Lock()
		n, known := g.restarts[c.id]
		g.mu.Unlock()
		it, ok := m.next(x)
		if !ok {
			continue
		}
		it.Path, it.Instance = path, c.name
		if it.Sample != nil && known {
			it.Sample.Restarts = &n
		}
		if err := g.give(ctx, it); err != nil {
			return err
		}
	}
}

// meter makes samples of what the engine tells.
type meter struct {
	interval time.Duration
	// last is the one that the next share of the processors counts from.
	last container.StatsResponse
	told string
}

// next returns an item, or nothing where there is none to give yet.
func (m *meter) next(x container.StatsResponse) (sdk.MetricItem, bool) {
	used := memory(x.MemoryStats)
	if x.Read.Year() <= 1 || used <= 0 {
		m.last = container.StatsResponse{}
		return m.warming(warmStopped)
	}
	was := m.last
	if was.Read.IsZero() || x.CPUStats.CPUUsage.TotalUsage < was.CPUStats.CPUUsage.TotalUsage {
		m.last = x
		return m.warming(warmFirst)
	}
	over := x.Read.Sub(was.Read)
	if over <= 0 || over < m.interval {
		return sdk.MetricItem{}, false
	}
	m.last, m.told = x, ""
	cpu := int64(float64(x.CPUStats.CPUUsage.TotalUsage-was.CPUStats.CPUUsage.TotalUsage) * 1000 / float64(over.Nanoseconds()))
	s := &sdk.MetricSample{At: x.Read, CPU: &cpu, Memory: &used}
	if x.Networks != nil {
		var in, out int64
		for _, n := range x.Networks {
			in += int64(n.RxBytes)
			out += int64(n.TxBytes)
		}
		s.Received, s.Sent = &in, &out
	}
	return sdk.MetricItem{Sample: s}, true
}

// warming says so once for each reason.
func (m *meter) warming(why string) (sdk.MetricItem, bool) {
	if m.told == why {
		return sdk.MetricItem{}, false
	}
	m.told = why
	return sdk.MetricItem{Warming: why}, true
}

// memory is what is in use, without the files that the kernel keeps and would give
// up: as `docker stats` counts, by cgroup v1's name of it or v2's.
// https://docs.docker.com/reference/cli/docker/container/stats/
func memory(x container.MemoryStats) int64 {
	used := x.Usage
	for _, name := range []string{"total_inactive_file", "inactive_file"} {
		if idle, ok := x.Stats[name]; ok && idle < used {
			return int64(used - idle)
		}
	}
	return int64(used)
}

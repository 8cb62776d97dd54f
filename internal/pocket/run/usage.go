package run

import (
	"context"
	"encoding/json"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// Usage is what a container has used.
type Usage struct {
	// CPU is processor time since its start, Memory bytes at the moment.
	CPU    time.Duration
	Memory int64
}

// Meter is a container that can be measured.
type Meter interface {
	// Usage measures; ok is false where nothing could be, as when it has ended.
	Usage(ctx context.Context) (u Usage, ok bool)
}

// Usage implements Meter: the processes of the group, with those that they have
// waited for.
func (p *process) Usage(context.Context) (Usage, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended { // its number may be another's
		return Usage{}, false
	}
	return groupUsage(p.cmd.Process.Pid)
}

// Usage implements Meter by the engine's own counts.
func (c *dockerContainer) Usage(ctx context.Context) (Usage, bool) {
	res, err := c.api.ContainerStats(ctx, c.id, client.ContainerStatsOptions{})
	if err != nil {
		return Usage{}, false
	}
	defer func() { _ = res.Body.Close() }() // it is read
	var s container.StatsResponse
	if err := json.NewDecoder(res.Body).Decode(&s); err != nil || s.MemoryStats.Usage == 0 {
		return Usage{}, false
	}
	return Usage{CPU: time.Duration(s.CPUStats.CPUUsage.TotalUsage), Memory: int64(s.MemoryStats.Usage)}, true
}

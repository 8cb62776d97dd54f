package compose

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"
)

// since adds to containers that the engine started again how long ago that was and
// with which code they had ended: a container that runs shows neither. It costs
// nothing where none was.
func (p *provider) since(ctx context.Context, op string, list []instance) error {
	again := func(c instance) bool { return c.running() && c.restarts > 0 }
	if !slices.ContainsFunc(list, again) {
		return nil
	}
	var now time.Time
	err := p.client.Call(ctx, op, func(ctx context.Context, api *client.Client) error {
		res, err := api.Info(ctx, client.InfoOptions{})
		now = stamp(res.Info.SystemTime)
		return err
	})
	if err != nil {
		return err
	}
	if now.IsZero() {
		now = p.clock.Now() // an engine that doesn't tell its time
	}
	for i := range list {
		c := &list[i]
		if !again(*c) {
			continue
		}
		if c.up = now.Sub(c.started); c.up >= steady {
			continue
		}
		if c.last, err = p.lastCode(ctx, op, *c); err != nil {
			return err
		}
	}
	return nil
}

// lastCode returns the code with which a container ended before it was started
// again, nil where the engine no longer knows: it keeps its last few hundred events.
// https://docs.docker.com/reference/cli/docker/system/events/
func (p *provider) lastCode(ctx context.Context, op string, c instance) (*int, error) {
	var code *int
	err := p.client.Call(ctx, op, func(ctx context.Context, api *client.Client) error {
		// Both bounds are the engine's own times, and past: the answer ends.
		res := api.Events(ctx, client.EventsListOptions{
			Since: c.finished.Add(-time.Second).Format(time.RFC3339Nano), Until: c.started.Format(time.RFC3339Nano),
			Filters: make(client.Filters).Add("type", string(events.ContainerEventType)).Add("event", string(events.ActionDie)).Add("container", c.id),
		})
		for {
			select {
			case m := <-res.Messages:
				if n, err := strconv.Atoi(m.Actor.Attributes["exitCode"]); err == nil {
					code = &n
				}
			case err := <-res.Err:
				if errors.Is(err, io.EOF) {
					return nil
				}
				return err
			}
		}
	})
	return code, err
}

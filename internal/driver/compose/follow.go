package compose

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

// settle is how long events are gathered before the containers are listed anew: a
// change of one service brings a dozen of them.
const settle = 50 * time.Millisecond

// crew follows the containers of services: one worker for each life of each, a
// life being from one start to the next.
type crew struct {
	p  *provider
	op string
	// service is the only one that is followed; empty is the whole project.
	service string
	// seen is told each listing, before its workers start.
	seen func(list []instance)
	// work follows one life; its error ends all.
	work func(ctx context.Context, c instance) error
}

// ending is a worker's.
type ending struct {
	c   instance
	err error
}

// run follows until ctx ends or something fails, and leaves nothing behind.
func (f *crew) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	changed, broken, release, err := f.p.changes(ctx, f.op, f.service)
	if err != nil {
		cancel()
		return err
	}
	var wg sync.WaitGroup
	ends := make(chan ending)
	defer func() {
		cancel()
		go func() {
			wg.Wait()
			close(ends)
		}()
		for range ends {
		}
		release()
	}()
	active, lived := map[string]bool{}, map[string]time.Time{}
	for {
		list, err := f.p.list(ctx, f.op, f.service, false)
		if err != nil {
			return err
		}
		f.seen(list)
		for _, c := range list {
			if c.started.IsZero() || active[c.id] || lived[c.id].Equal(c.started) {
				continue
			}
			active[c.id] = true
			wg.Go(func() { ends <- ending{c, f.work(ctx, c)} })
		}
		select {
		case <-ctx.Done():
			return f.p.ended(ctx, f.op)
		case err := <-broken:
			return err
		case e := <-ends:
			if e.err != nil {
				return e.err
			}
			delete(active, e.c.id)
			lived[e.c.id] = e.c.started
		case <-changed:
			if f.p.clock.Sleep(ctx, settle) != nil {
				return f.p.ended(ctx, f.op)
			}
		}
	}
}

// changes tells of every start, end and removal of a container of the project.
func (p *provider) changes(ctx context.Context, op, service string) (changed <-chan struct{}, broken <-chan error, release func(), err error) {
	opt := client.EventsListOptions{Filters: make(client.Filters).Add("type", string(events.ContainerEventType)).Add("label", labelProject+"="+p.cfg.Project)}
	if service != "" {
		opt.Filters.Add("label", labelService+"="+service)
	}
	for _, a := range []events.Action{events.ActionStart, events.ActionDie, events.ActionDestroy} {
		opt.Filters.Add("event", string(a))
	}
	var stream client.EventsResult
	leave, err := p.client.Stream(ctx, op, func(ctx context.Context, api *client.Client) error {
		stream = api.Events(ctx, opt)
		select {
		case err := <-stream.Err:
			return err
		default:
			return nil
		}
	})
	if err != nil {
		return nil, nil, nil, err
	}
	tell, fail := make(chan struct{}, 1), make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stream.Messages:
				select {
				case tell <- struct{}{}:
				default:
				}
			case err := <-stream.Err:
				if err == nil || errors.Is(err, io.EOF) {
					err = errors.New("the engine ended its events")
				}
				e := p.fail(sdk.Unavailable, op, "follow the containers: %w", err)
				e.Retryable = true
				fail <- e
				return
			}
		}
	})
	return tell, fail, func() {
		leave()
		wg.Wait()
	}, nil
}

package docker

import (
	"context"
	"errors"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

const opWatch = "watch jobs"

// WatchJobs implements sdk.JobWatcher by the engine's events. The engine keeps
// a few hundred of them, so that a watch can go on where the last one ended.
func (p *provider) WatchJobs(ctx context.Context, r sdk.WatchJobsRequest) iter.Seq2[sdk.WatchEvent, error] {
	return func(yield func(sdk.WatchEvent, error) bool) {
		opt := client.EventsListOptions{Filters: make(client.Filters).Add("type", string(events.ContainerEventType)).Add("label", sdk.LabelAttempt)}
		for _, a := range []events.Action{events.ActionStart, events.ActionDie, events.ActionOOM, events.ActionDestroy, events.ActionPause, events.ActionUnPause} {
			opt.Filters.Add("event", string(a))
		}
		if r.Owner != "" {
			opt.Filters.Add("label", sdk.LabelOwner+"="+r.Owner)
		}
		if r.Resume != "" {
			ns, err := strconv.ParseInt(r.Resume, 10, 64)
			if err != nil {
				yield(sdk.WatchEvent{}, p.fail(sdk.InvalidArgument, opWatch, err))
				return
			}
			opt.Since = engineStamp(time.Unix(0, ns))
		}
		var stream client.EventsResult
		release, err := p.client.Stream(ctx, opWatch, func(ctx context.Context, api *client.Client) error {
			stream = api.Events(ctx, opt)
			select {
			case err := <-stream.Err:
				return err
			default:
				return nil
			}
		})
		if err != nil {
			yield(sdk.WatchEvent{}, err)
			return
		}
		defer func() {
			release()
			// The client's goroutine ends with its error.
			for range stream.Err {
			}
		}()
		for {
			select {
			case m := <-stream.Messages:
				ev := sdk.WatchEvent{Resume: strconv.FormatInt(m.TimeNano, 10)}
				// A label that isn't an ID leaves the zero ID: any job may have changed.
				ev.AttemptID, _ = sdk.ParseID(m.Actor.Attributes[sdk.LabelAttempt])
				if !yield(ev, nil) {
					return
				}
			case err := <-stream.Err:
				if err := endOfStream(err); err != nil {
					yield(sdk.WatchEvent{}, p.streamError(ctx, opWatch, err))
				}
				return
			}
		}
	}
}

// endOfStream returns nil for a stream that simply ended.
func endOfStream(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// streamError classes the break of a stream that had been open.
func (p *provider) streamError(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return p.fail(sdk.CodeOf(ctx.Err()), op, ctx.Err())
	}
	if _, ok := errors.AsType[*sdk.Error](err); ok {
		return err
	}
	e := p.fail(sdk.Unavailable, op, err)
	e.Retryable = true
	return e
}

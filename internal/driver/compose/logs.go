package compose

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"sync"

	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

const opLogs = "read output"

// TailLogs implements sdk.LogTailer by the engine's logs of the containers. The
// output of a container that Compose made anew is gone with it.
func (p *provider) TailLogs(ctx context.Context, r sdk.TailLogsRequest) iter.Seq2[sdk.WorkloadLogItem, error] {
	return func(yield func(sdk.WorkloadLogItem, error) bool) {
		err := p.tail(ctx, r, yield)
		if err != nil && !errors.Is(err, errLeft) {
			yield(sdk.WorkloadLogItem{}, err)
		}
	}
}

// errLeft: the caller reads no more.
var errLeft = errors.New("left")

func (p *provider) tail(ctx context.Context, r sdk.TailLogsRequest, yield func(sdk.WorkloadLogItem, error) bool) error {
	name, err := p.serviceName(opLogs, r.Path)
	if err != nil {
		return err
	}
	s, err := p.found(ctx, opLogs, name)
	if err != nil {
		return err
	}
	var mine []instance
	for _, c := range s.list {
		if r.Instance == "" || r.Instance == c.name {
			mine = append(mine, c)
		}
	}
	if r.Instance != "" && len(mine) == 0 {
		e := p.fail(sdk.NotFound, opLogs, "service %s has no container %s", name, r.Instance)
		e.Field, e.Remedy = "instance", "`windlass svc status` lists them"
		return e
	}
	if r.Follow {
		return p.follow(ctx, name, mine, r, yield)
	}
	for _, c := range mine {
		err := p.records(ctx, c, r, position{}, r.Tail, func(x record) error {
			if !yield(item(c, x), nil) {
				return errLeft
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func item(c instance, x record) sdk.WorkloadLogItem {
	return sdk.WorkloadLogItem{Instance: c.name, Entry: &sdk.LogChunk{Time: x.stamp, Stream: x.stream, Data: x.data, LineEnd: sdk.LineEndKept}}
}

// follow reads the output of all containers through their restarts, and of those
// that come later. before are those that are there when it begins: of them alone
// the last lines are chosen.
func (p *provider) follow(ctx context.Context, name string, before []instance, r sdk.TailLogsRequest, yield func(sdk.WorkloadLogItem, error) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	items := make(chan sdk.WorkloadLogItem)
	var mu sync.Mutex
	at := map[string]*position{}
	old := map[string]bool{}
	for _, c := range before {
		old[c.id] = true
	}
	c := &crew{p: p, op: opLogs, service: name, seen: func([]instance) {}}
	c.work = func(ctx context.Context, c instance) error {
		if r.Instance != "" && r.Instance != c.name {
			return nil
		}
		mu.Lock()
		pos := at[c.id]
		tail := r.Tail
		if pos != nil || !old[c.id] {
			tail = nil
		}
		if pos == nil {
			pos = &position{}
			at[c.id] = pos
		}
		mu.Unlock()
		// Only one worker at a time follows a container, so pos is its own.
		return p.records(ctx, c, r, *pos, tail, func(x record) error {
			select {
			case items <- item(c, x):
				pos.took(x)
				return nil
			case <-ctx.Done():
				return p.ended(ctx, opLogs)
			}
		})
	}
	end := make(chan error, 1)
	go func() {
		end <- c.run(ctx)
		close(items)
	}()
	for it := range items {
		if !yield(it, nil) {
			cancel()
			for range items {
			}
			return errLeft
		}
	}
	return <-end
}

// records reads a container's log from a position on: what there is, or until the
// container stops where it is followed.
func (p *provider) records(ctx context.Context, c instance, r sdk.TailLogsRequest, from position, tail *int, give func(record) error) error {
	opt := client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Timestamps: true, Follow: r.Follow}
	since := r.Since
	if from.stamp.After(since) {
		since = from.stamp
	}
	if !since.IsZero() {
		opt.Since = fmt.Sprintf("%d.%09d", since.Unix(), since.Nanosecond())
	}
	if tail != nil {
		opt.Tail = strconv.Itoa(max(*tail, 0))
	}
	var body io.ReadCloser
	release, err := p.client.Stream(ctx, opLogs, func(ctx context.Context, api *client.Client) error {
		var err error
		body, err = api.ContainerLogs(ctx, c.id, opt)
		return err
	})
	if sdk.CodeOf(err) == sdk.NotFound {
		return nil // removed meanwhile
	}
	if err != nil {
		return err
	}
	defer release()
	defer func() { _ = body.Close() }()
	in := bufio.NewReaderSize(body, 64<<10)
	skip := skipper{to: from}
	for {
		x, err := readRecord(in, c.tty)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && ctx.Err() != nil:
			return p.ended(ctx, opLogs)
		case err != nil:
			return p.cut(ctx, c, err)
		case skip.skip(x), x.stamp.Before(r.Since):
			continue
		}
		if err := give(x); err != nil {
			return err
		}
	}
}

// cut is the error of a log that broke off, unless its container is gone.
func (p *provider) cut(ctx context.Context, c instance, err error) error {
	if ierr := p.inspect(ctx, opLogs, &instance{id: c.id}); sdk.CodeOf(ierr) == sdk.NotFound {
		return nil
	}
	code := sdk.Unavailable
	if errors.Is(err, errForm) {
		code = sdk.Internal
	}
	e := p.fail(code, opLogs, "container %s: %w", c.name, err)
	e.Retryable = code == sdk.Unavailable
	return e
}

package docker

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/moby/moby/client"

	"github.com/windlass-run/windlass/sdk"
)

// inputs are the connections over which jobs read their standard input from
// this process. A connection outlives the send that made it: where the reply to
// a start was lost the job may run, and the next send must not cut its input.
type inputs struct {
	mu     sync.Mutex
	open   map[sdk.ID]*input
	closed bool
	wg     sync.WaitGroup
}

// input is one job's. The nil input does nothing.
type input struct {
	all     *inputs
	attempt sdk.ID
	conn    client.HijackedResponse
	from    io.Reader
	once    sync.Once

	feed *feed
	// over is done once it is decided what becomes of feed.
	over sync.Once
}

// attach connects to the container's standard input. It must happen before the
// start, or a short job would find its input at an end.
func (s *send) attach(ctx context.Context, id string) (*input, error) {
	p, attempt := s.p, s.launch.AttemptID
	if in := p.inputs.get(attempt); in != nil {
		return in, nil
	}
	if s.stdin == nil {
		return nil, p.fail(sdk.InvalidArgument, opRun, fmt.Errorf("the launch has input (%s) and the call brought none", s.launch.Stdin))
	}
	feed, err := s.feeding()
	if err != nil {
		return nil, p.fail(sdk.FailedPrecondition, opRun, fmt.Errorf("note who feeds the job: %w", err))
	}
	var conn client.HijackedResponse
	err = p.client.Call(ctx, opRun, func(ctx context.Context, api *client.Client) error {
		res, err := api.ContainerAttach(ctx, id, client.ContainerAttachOptions{Stream: true, Stdin: true})
		conn = res.HijackedResponse
		return err
	})
	if err != nil {
		feed.done()
		return nil, err
	}
	in := &input{all: &p.inputs, attempt: attempt, conn: conn, from: s.stdin, feed: feed}
	if !p.inputs.add(in) {
		feed.done()
		conn.Close()
		return nil, p.fail(sdk.Unavailable, opRun, fmt.Errorf("the provider is closed"))
	}
	return in, nil
}

// begin copies the input in the background until it ends, the job does, or the
// provider is closed. It counts once.
func (in *input) begin() {
	if in == nil {
		return
	}
	in.once.Do(func() {
		in.all.wg.Add(1)
		go func() {
			defer in.all.wg.Done()
			// The engine sends nothing: it closes when the container has ended.
			_, _ = io.Copy(io.Discard, in.conn.Reader)
			in.close()
		}()
		// A reader can't be made to return, so nothing waits for this one.
		go func() {
			// A failed write means that the job reads no more.
			if _, err := io.Copy(in.conn.Conn, in.from); err == nil {
				_ = in.conn.CloseWrite()
			}
			in.fed()
		}()
	})
}

// fed says that there is nothing more to feed.
func (in *input) fed() { in.over.Do(in.feed.done) }

// close gives the connection up, which ends the job's input.
func (in *input) close() {
	if in == nil {
		return
	}
	in.fed()
	in.all.mu.Lock()
	if in.all.open[in.attempt] == in {
		delete(in.all.open, in.attempt)
	}
	in.all.mu.Unlock()
	in.conn.Close()
}

func (a *inputs) get(attempt sdk.ID) *input {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open[attempt]
}

func (a *inputs) add(in *input) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	if a.open == nil {
		a.open = map[sdk.ID]*input{}
	}
	a.open[in.attempt] = in
	return true
}

func (a *inputs) closeAll() {
	a.mu.Lock()
	a.closed = true
	open := a.open
	a.open = nil
	a.mu.Unlock()
	for _, in := range open {
		in.over.Do(in.feed.leave)
		in.conn.Close()
	}
	a.wg.Wait()
}

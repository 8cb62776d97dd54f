package runner

import (
	"context"
	"sync"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/sandboxpb"
)

// MaxChunk is the most bytes of one message.
const MaxChunk = 32 << 10

// ahead is how many pieces of output, of at most MaxChunk each, may wait for a
// caller that is slow to read. The rest waits on disk.
const ahead = 8

// piece is a part of one stream.
type piece struct {
	stderr bool
	data   []byte
}

// pass sends the job's output as it comes, and returns its row once the job has
// ended and its output is complete. whole is false when a part never came. An
// error means that the caller can't be told any more, or the log not be read.
func (j *job) pass(ctx context.Context, send func(*sandboxpb.SandboxExecChunk) error) (run ledger.Run, whole bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	pieces := make(chan piece, ahead)
	var all bool
	var failed error
	wg.Go(func() {
		defer close(pieces)
		all, failed = j.read(ctx, pieces)
	})
	if err := sendAll(pieces, send); err != nil {
		return run, false, err // while the reader still writes all and failed
	}
	if failed != nil {
		return run, false, failed
	}
	run, err = j.s.o.Engine.Wait(ctx, j.id, control.MilestoneDrained)
	return run, all, err
}

// read follows the job's log. What the platform itself says is not the job's
// output and stays in the log.
func (j *job) read(ctx context.Context, to chan<- piece) (whole bool, err error) {
	var render joblog.Renderer
	whole = true
	for it, err := range j.s.o.Engine.Follow(ctx, j.id, control.FollowOptions{Follow: true}) {
		switch {
		case err != nil:
			return false, err
		case it.Gap != nil:
			whole = false
		case it.Entry != nil && it.Entry.Stream != sdk.StreamSystem:
			data := render.Append(nil, it.Entry)
			for len(data) > 0 {
				n := min(len(data), MaxChunk)
				select {
				case to <- piece{it.Entry.Stream == sdk.StreamStderr, data[:n:n]}:
				case <-ctx.Done():
					return false, context.Cause(ctx)
				}
				data = data[n:]
			}
		}
	}
	return whole, nil
}

// sendAll sends pieces until there are no more.
func sendAll(pieces <-chan piece, send func(*sandboxpb.SandboxExecChunk) error) error {
	p, more := <-pieces
	for more {
		next, has := p.join(pieces)
		if err := send(p.chunk()); err != nil {
			return err
		}
		if p = next; !has {
			p, more = <-pieces
		}
	}
	return nil
}

// join adds to p what waits already, as long as it is of the same stream and
// fits one message. It returns the piece that it took and that doesn't.
func (p *piece) join(pieces <-chan piece) (next piece, has bool) {
	for len(p.data) < MaxChunk {
		select {
		case q, more := <-pieces:
			if !more {
				return piece{}, false
			}
			if q.stderr != p.stderr || len(p.data)+len(q.data) > MaxChunk {
				return q, true
			}
			p.data = append(p.data, q.data...)
		default:
			return piece{}, false
		}
	}
	return piece{}, false
}

func (p piece) chunk() *sandboxpb.SandboxExecChunk {
	if p.stderr {
		return &sandboxpb.SandboxExecChunk{Chunk: &sandboxpb.SandboxExecChunk_Stderr{Stderr: p.data}}
	}
	return &sandboxpb.SandboxExecChunk{Chunk: &sandboxpb.SandboxExecChunk_Stdout{Stdout: p.data}}
}

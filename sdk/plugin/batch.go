package plugin

import (
	"context"
	"iter"
	"sync"

	"google.golang.org/grpc"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// batchBytes is how many bytes of output may wait for the message that is being sent to
// be gone; the driver waits once there are as many.
const batchBytes = 64 << 10

// gathered is a message that takes items until it is sent.
type gathered[B, N any] interface {
	// Add takes an item. Where the message shares its bytes they must stay as they are.
	Add(B) (shares bool, err error)
	Size() int
	Message() *N
}

// output serves a method that gives output. An item is sent as soon as it is there; those
// that come while a message is being sent go together in the next.
func output[C, A, B, M, N any](stream grpc.ServerStreamingServer[N], s *Server, capability sdk.Capability[C], m M, decode func(M) (A, error),
	call func(C, context.Context, A) iter.Seq2[B, error], split func(B) (first, rest B, more bool), empty func() gathered[B, N],
) error {
	b := newBatch(stream.Send, empty)
	err := pull(stream, s, capability, m, decode, call, func(item B) error {
		for {
			part, rest, more := split(item)
			if err := b.add(part); err != nil {
				return wire.Status(stream.Context(), err)
			}
			if !more {
				return nil
			}
			item = rest
		}
	})
	// What came before the end, or before an error, arrives before it.
	if failed := b.end(); failed != nil {
		return failed
	}
	return err
}

// batch has items sent by a goroutine of its own, as many at once as are there. One
// goroutine adds to it.
type batch[B, N any] struct {
	send  func(*N) error
	empty func() gathered[B, N]
	done  chan struct{} // closed when nothing more is sent

	mu   sync.Mutex
	turn *sync.Cond // something below has changed
	next gathered[B, N]
	busy bool // a message is being sent
	over bool
	err  error
}

func newBatch[B, N any](send func(*N) error, empty func() gathered[B, N]) *batch[B, N] {
	b := &batch[B, N]{send: send, empty: empty, next: empty(), done: make(chan struct{})}
	b.turn = sync.NewCond(&b.mu)
	go b.run()
	return b
}

// add takes an item, which may be used again when it returns. It waits while too much is
// under way, and returns why nothing can be sent any more.
func (b *batch[B, N]) add(item B) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.next.Size() >= batchBytes && b.err == nil {
		b.turn.Wait()
	}
	first := b.next.Message() == nil
	shares, err := b.next.Add(item)
	if err != nil {
		return err
	}
	if first {
		b.turn.Broadcast()
	}
	for shares && (b.busy || b.next.Message() != nil) && b.err == nil {
		b.turn.Wait()
	}
	return b.err
}

// end waits until all is sent that was added, and returns why it couldn't be.
func (b *batch[B, N]) end() error {
	b.mu.Lock()
	b.over = true
	b.turn.Broadcast()
	b.mu.Unlock()
	<-b.done
	return b.err
}

func (b *batch[B, N]) run() {
	defer close(b.done)
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		for !b.over && (b.next.Message() == nil || b.err != nil) {
			b.turn.Wait()
		}
		m := b.next.Message()
		if m == nil || b.err != nil {
			return
		}
		b.next, b.busy = b.empty(), true
		b.turn.Broadcast()
		b.mu.Unlock()
		err := b.send(m)
		b.mu.Lock()
		b.busy, b.err = false, err
		b.turn.Broadcast()
	}
}

package docker

import (
	"context"
	"sync"
)

// background runs what outlives the call that began it, up to the provider's
// end.
type background struct {
	mu     sync.Mutex
	ends   map[int]context.CancelFunc
	next   int
	closed bool
	wg     sync.WaitGroup
}

// run starts f, unless the provider is closed. f's context ends with the
// provider.
func (b *background) run(f func(ctx context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	if b.ends == nil {
		b.ends = map[int]context.CancelFunc{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	id := b.next
	b.next++
	b.ends[id] = cancel
	b.wg.Go(func() {
		defer func() {
			cancel()
			b.mu.Lock()
			delete(b.ends, id)
			b.mu.Unlock()
		}()
		f(ctx)
	})
	return true
}

// close ends everything and waits for it.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	for _, end := range b.ends {
		end()
	}
	b.mu.Unlock()
	b.wg.Wait()
}

package pluginhost

import (
	"context"
	"sync"

	"google.golang.org/grpc"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// conn is the connection to a plugin, which outlives its process: a call finds the next
// one ready, with the provider open in it. No call is ever sent twice.
type conn struct {
	source Source
	want   Request

	lock  chan struct{} // held while lease and held are worked out
	lease *Lease

	// reopen opens the provider again in a process that is new; nil is nothing to open.
	reopen func(ctx context.Context, l *Lease) (sdk.Provider, error)
	// held is the provider as reopen gave it.
	held sdk.Provider

	mu      sync.Mutex
	closing bool
}

var _ grpc.ClientConnInterface = (*conn)(nil)

func newConn(source Source, want Request) *conn {
	return &conn{source: source, want: want, lock: make(chan struct{}, 1)}
}

// live returns the process that serves, with the provider open in it.
func (c *conn) live(ctx context.Context) (*Lease, error) {
	select {
	case c.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, unreached(ctx, c.want.Plugin.Name)
	}
	defer func() { <-c.lock }()
	if c.lease != nil {
		select {
		case <-c.lease.Done:
		default:
			return c.lease, nil
		}
		if c.isClosing() {
			return nil, ended(c.want.Plugin.Name, c.lease)
		}
		c.let()
	}
	if c.isClosing() {
		return nil, errClosed(c.want.Plugin.Name)
	}
	l, err := c.source.Process(ctx, c.want)
	if err != nil {
		return nil, err
	}
	if c.reopen != nil {
		if c.held, err = c.reopen(ctx, l); err != nil {
			l.Release()
			return nil, err
		}
	}
	c.lease = l
	return l, nil
}

// let gives up the process that was used; lock is held.
func (c *conn) let() {
	if c.held != nil {
		_ = c.held.Close() // its process has ended
		c.held = nil
	}
	c.lease.Release()
	c.lease = nil
}

func (c *conn) isClosing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing
}

// close keeps further processes from being started.
func (c *conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = true
}

// release gives up the process for good.
func (c *conn) release() {
	c.close()
	c.lock <- struct{}{}
	defer func() { <-c.lock }()
	if c.lease != nil {
		c.let()
	}
}

// Invoke implements grpc.ClientConnInterface.
func (c *conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	l, err := c.live(ctx)
	if err != nil {
		return wire.Status(ctx, err)
	}
	return watched{l, c.want.Plugin.Name}.Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (c *conn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	l, err := c.live(ctx)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	return watched{l, c.want.Plugin.Name}.NewStream(ctx, desc, method, opts...)
}

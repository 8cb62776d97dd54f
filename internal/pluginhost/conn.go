package pluginhost

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// slowTime is after how long a call without an answer the process is asked whether it
// answers anything, and again as often.
const slowTime = 2 * time.Second

// endTime is how long a call that was cut off waits to learn how the process ended.
const endTime = 100 * time.Millisecond

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
			return nil, c.ended(c.lease)
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
	defer c.watch(l)()
	return c.judge(ctx, l, method, l.Conn.Invoke(ctx, method, args, reply, opts...))
}

// watch doubts a process whose answer takes long, until the answer is there: a process
// that was stopped answers nothing, and a call may have minutes.
func (c *conn) watch(l *Lease) (answered func()) {
	done := make(chan struct{})
	t := time.AfterFunc(slowTime, func() {
		for {
			l.Doubt()
			select {
			case <-done:
				return
			case <-time.After(slowTime):
			}
		}
	})
	return func() {
		t.Stop()
		close(done)
	}
}

// NewStream implements grpc.ClientConnInterface.
func (c *conn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	l, err := c.live(ctx)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	s, err := l.Conn.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, c.judge(ctx, l, method, err)
	}
	return &stream{ClientStream: s, c: c, l: l, method: method, waits: path.Base(method) == "RunJob"}, nil
}

// stream judges how a stream ends.
type stream struct {
	grpc.ClientStream
	c      *conn
	l      *Lease
	method string
	// waits: an answer is due. Other streams may be silent for days.
	waits bool
}

func (s *stream) RecvMsg(m any) error {
	if s.waits {
		defer s.c.watch(s.l)()
	}
	err := s.ClientStream.RecvMsg(m)
	if r, ok := m.(*providerpb.RunJobResponse); !ok || r.GetResult() != nil {
		s.waits = false
	}
	if _, ok := status.FromError(err); err == nil || !ok {
		return err // also io.EOF, its end
	}
	return s.c.judge(s.Context(), s.l, s.method, err)
}

// judge looks at what became of a call: whether the process may have gone, and whether
// it was asked for what it hasn't.
func (c *conn) judge(ctx context.Context, l *Lease, method string, err error) error {
	st, _ := status.FromError(err)
	if err == nil || len(st.Details()) > 0 {
		return err // the plugin itself has answered
	}
	switch st.Code() {
	case codes.Unavailable:
		l.Doubt()
		select {
		case <-l.Done:
			return wire.Status(ctx, c.ended(l))
		case <-time.After(endTime):
		case <-ctx.Done():
		}
	case codes.DeadlineExceeded:
		l.Doubt()
	case codes.Unimplemented:
		return wire.Status(ctx, c.absent(method))
	}
	return err
}

// ended is the error of a call whose process has ended: what became of the call isn't
// known.
func (c *conn) ended(l *Lease) error {
	return &sdk.Error{Code: sdk.Unavailable, Op: "ask plugin " + c.want.Plugin.Name, ID: ErrEnded, Retryable: true, Err: fmt.Errorf("its process has ended: %w", l.Why())}
}

// absent is the error of a capability that a plugin named and hasn't.
func (c *conn) absent(method string) error {
	service, call, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	name := strings.TrimSuffix(service[strings.LastIndexByte(service, '.')+1:], "Service")
	return &sdk.Error{Code: sdk.Unimplemented, Op: "use " + name, ID: ErrContract,
		Err: fmt.Errorf("the plugin %s says that it has %s, and answers %s with Unimplemented", c.want.Plugin.Name, name, call)}
}

package plugin

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// callbacks asks the host over one stream.
type callbacks struct {
	sending sync.Mutex // held by send
	send    func(*pb.CallbacksResponse) error

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan *pb.CallbacksRequest
	ended   chan struct{}
}

// Callbacks keeps the stream of a session until the host ends it. Its header is sent
// at once, so that the host knows when it may open the provider.
func (p *provider) Callbacks(stream grpc.BidiStreamingServer[pb.CallbacksRequest, pb.CallbacksResponse]) error {
	ctx := stream.Context()
	name, err := sessionName(ctx)
	if err != nil {
		return wire.Status(ctx, err)
	}
	c := &callbacks{send: stream.Send, waiting: map[uint64]chan *pb.CallbacksRequest{}, ended: make(chan struct{})}
	defer c.end()
	p.s.mu.Lock()
	ses := p.s.at(name)
	if ses.callbacks != nil {
		p.s.mu.Unlock()
		return wire.Status(ctx, sdk.Errorf(sdk.AlreadyExists, "keep callbacks", "session %q has them already", name))
	}
	ses.callbacks = c
	c.sending.Lock() // no question comes before the header
	p.s.mu.Unlock()
	err = stream.SendHeader(metadata.MD{})
	c.sending.Unlock()
	defer func() {
		p.s.mu.Lock()
		defer p.s.mu.Unlock()
		ses.callbacks = nil
		if ses.provider == nil && !ses.opening && p.s.sessions[name] == ses {
			delete(p.s.sessions, name)
		}
	}()
	if err != nil {
		return err
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		for {
			m, err := stream.Recv()
			if err != nil {
				return // the host has gone, or answers no more
			}
			c.answer(m)
		}
	}()
	select {
	case <-left:
	case <-ses.closed:
	}
	return nil
}

// answer hands an answer to whoever waits for it; one that nobody waits for is dropped.
func (c *callbacks) answer(m *pb.CallbacksRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch := c.waiting[m.GetId()]; ch != nil {
		ch <- m
		delete(c.waiting, m.GetId())
	}
}

func (c *callbacks) resolve(ctx context.Context, ref sdk.SecretRef) (sdk.SecretValue, error) {
	ch := make(chan *pb.CallbacksRequest, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.waiting[id] = ch
	c.mu.Unlock()
	if err := c.ask(&pb.CallbacksResponse{Id: id, Question: &pb.CallbacksResponse_ResolveSecret{ResolveSecret: string(ref)}}); err != nil {
		c.withdraw(id)
		return sdk.SecretValue{}, wire.FromStatus(ctx, "resolve secret", err)
	}
	select {
	case m := <-ch:
		if m.GetError() != nil {
			return sdk.SecretValue{}, wire.DecodeError(m.GetError())
		}
		if _, ok := m.GetAnswer().(*pb.CallbacksRequest_Secret); !ok {
			return sdk.SecretValue{}, sdk.Errorf(sdk.Internal, "resolve secret", "the host's answer is empty")
		}
		return sdk.NewSecretValue(m.GetSecret()), nil
	case <-ctx.Done():
		if c.withdraw(id) {
			// A host that can't be told has left, and waits for nothing.
			_ = c.ask(&pb.CallbacksResponse{Id: id, Question: &pb.CallbacksResponse_Withdrawn{Withdrawn: true}})
		}
		return sdk.SecretValue{}, &sdk.Error{Code: sdk.CodeOf(ctx.Err()), Op: "resolve secret", Err: context.Cause(ctx)}
	case <-c.ended:
		return sdk.SecretValue{}, sdk.Errorf(sdk.Unavailable, "resolve secret", "the host has left")
	}
}

// end fails what waits, and lets nothing be sent on a stream that is over.
func (c *callbacks) end() {
	c.sending.Lock()
	defer c.sending.Unlock()
	close(c.ended)
}

func (c *callbacks) ask(m *pb.CallbacksResponse) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	select {
	case <-c.ended:
		return status.Error(codes.Unavailable, "the host has left")
	default:
		return c.send(m)
	}
}

// withdraw waits no more for an answer, and reports whether one was still due.
func (c *callbacks) withdraw(id uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, due := c.waiting[id]
	delete(c.waiting, id)
	return due
}

// resolver is the host's resolver, as a provider of a session sees it.
type resolver struct {
	s       *Server
	session string
}

var _ sdk.SecretResolver = (*resolver)(nil)

func (r *resolver) ResolveSecret(ctx context.Context, ref sdk.SecretRef) (sdk.SecretValue, error) {
	r.s.mu.Lock()
	var c *callbacks
	if ses := r.s.sessions[r.session]; ses != nil {
		c = ses.callbacks
	}
	r.s.mu.Unlock()
	if c == nil {
		return sdk.SecretValue{}, sdk.Errorf(sdk.FailedPrecondition, "resolve secret", "the host keeps no callbacks")
	}
	return c.resolve(ctx, ref)
}

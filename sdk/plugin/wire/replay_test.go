package wire_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// player is a plugin of a release: it refuses what that doesn't know, wants what it was
// asked then, and answers what it answered.
type player struct {
	t     testing.TB
	old   *release
	mu    sync.Mutex
	calls []*recorded // those that weren't played yet
}

// next takes the next call of a method.
func (p *player) next(method string) *recorded {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.calls, func(c *recorded) bool { return c.Method == method })
	if i < 0 {
		p.t.Errorf("%s was called, and wasn't then", method)
		return &recorded{Method: method}
	}
	c := p.calls[i]
	p.calls = slices.Delete(slices.Clone(p.calls), i, i+1)
	return c
}

// wants compares a request with the one of then.
func (p *player) wants(c *recorded, n int, m any) {
	data, err := proto.Marshal(m.(proto.Message))
	if err != nil || n >= len(c.Requests) {
		p.t.Errorf("%s: request %d of %d, %v", c.Method, n+1, len(c.Requests), err)
		return
	}
	d := p.old.method(c.Method).Input()
	got, want := p.old.read(p.t, d, data, true), p.old.read(p.t, d, c.Requests[n], true)
	if !proto.Equal(got, want) || hasUnknown(got.ProtoReflect()) {
		p.t.Errorf("%s was asked with\n%v, then with\n%v", c.Method, got, want)
	}
}

// hasUnknown reports whether a message has a field that its release doesn't know.
func hasUnknown(m protoreflect.Message) bool {
	found := len(m.GetUnknown()) > 0
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Message() == nil || fd.IsMap():
		case fd.IsList():
			for i := range v.List().Len() {
				found = found || hasUnknown(v.List().Get(i).Message())
			}
		default:
			found = found || hasUnknown(v.Message())
		}
		return !found
	})
	return found
}

func (p *player) Invoke(_ context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	c := p.next(method)
	p.wants(c, 0, args)
	if c.Status != nil {
		var st status.Status
		if err := proto.Unmarshal(c.Status, &st); err != nil {
			return err
		}
		return grpcstatus.ErrorProto(&st)
	}
	if len(c.Replies) == 0 {
		return sdk.Internal
	}
	return proto.Unmarshal(c.Replies[0], reply.(proto.Message))
}

func (p *player) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return &playedStream{ctx: ctx, p: p, c: p.next(method)}, nil
}

// playedStream gives the replies whatever it is sent.
type playedStream struct {
	ctx        context.Context
	p          *player
	c          *recorded
	sent, read int // by one goroutine each
}

func (s *playedStream) Header() (metadata.MD, error) { return metadata.MD{}, nil }
func (s *playedStream) Trailer() metadata.MD         { return metadata.MD{} }
func (s *playedStream) CloseSend() error             { return nil }
func (s *playedStream) Context() context.Context     { return s.ctx }

func (s *playedStream) SendMsg(m any) error {
	s.p.wants(s.c, s.sent, m)
	s.sent++
	return nil
}

func (s *playedStream) RecvMsg(m any) error {
	if s.read == len(s.c.Replies) {
		if s.c.Method == callbacks { // open as long as the provider is
			<-s.ctx.Done()
			return s.ctx.Err()
		}
		return io.EOF
	}
	s.read++
	return proto.Unmarshal(s.c.Replies[s.read-1], m.(proto.Message))
}

const callbacks = "/windlass.provider.v1.ProviderService/Callbacks"

// replay is a host of a release, which asks today's plugin as it did then, and reads its
// replies as it did.
func replay(t *testing.T, old *release, calls []*recorded, conn grpc.ClientConnInterface) {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), wire.SessionKey, sdk.ID{15: 7}.String()))
	defer cancel()
	var background sync.WaitGroup
	defer background.Wait()
	for _, c := range calls {
		d := old.method(c.Method)
		service, method, _ := strings.Cut(strings.TrimPrefix(c.Method, "/"), "/")
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
		if err != nil {
			t.Errorf("%s: %v", c.Method, err)
			continue
		}
		now := found.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(method))
		h := &oldHost{t: t, old: old, c: c, was: d, in: now.Input().FullName(), out: now.Output().FullName()}
		switch {
		case !d.IsStreamingClient() && !d.IsStreamingServer():
			h.unary(ctx, conn)
		case c.Method == callbacks:
			stream := h.stream(ctx, conn)
			if _, err := stream.Header(); err != nil {
				t.Fatal(err)
			}
			background.Go(func() { h.converse(stream) })
		default:
			h.whole(h.stream(ctx, conn))
		}
	}
	cancel()
}

// oldHost makes one call.
type oldHost struct {
	t       *testing.T
	old     *release
	c       *recorded
	was     protoreflect.MethodDescriptor
	in, out protoreflect.FullName // as today has them
}

func (h *oldHost) message(name protoreflect.FullName, data []byte) proto.Message {
	h.t.Helper()
	typ, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err != nil {
		h.t.Fatal(err)
	}
	m := typ.New().Interface()
	if err := proto.Unmarshal(data, m); err != nil {
		h.t.Fatal(err)
	}
	return m
}

// sees compares a reply as the old host reads it.
func (h *oldHost) sees(m proto.Message, want []byte) {
	h.t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		h.t.Error(err)
		return
	}
	got, then := h.old.read(h.t, h.was.Output(), data, false), h.old.read(h.t, h.was.Output(), want, false)
	if !proto.Equal(got, then) {
		h.t.Errorf("%s answers\n%v, then\n%v", h.c.Method, got, then)
	}
}

func (h *oldHost) unary(ctx context.Context, conn grpc.ClientConnInterface) {
	h.t.Helper()
	reply := h.message(h.out, nil)
	err := conn.Invoke(ctx, h.c.Method, h.message(h.in, h.c.Requests[0]), reply)
	if h.c.Status != nil {
		var then status.Status
		if e := proto.Unmarshal(h.c.Status, &then); e != nil || !proto.Equal(grpcstatus.Convert(err).Proto(), &then) {
			h.t.Errorf("%s fails with %v, then with %v", h.c.Method, err, &then)
		}
		return
	}
	if err != nil {
		h.t.Errorf("%s: %v", h.c.Method, err)
		return
	}
	h.sees(reply, h.c.Replies[0])
}

func (h *oldHost) stream(ctx context.Context, conn grpc.ClientConnInterface) grpc.ClientStream {
	h.t.Helper()
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, h.c.Method)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// converse answers each question.
func (h *oldHost) converse(s grpc.ClientStream) {
	for i, question := range h.c.Replies {
		m := h.message(h.out, nil)
		if err := s.RecvMsg(m); err != nil {
			h.t.Errorf("%s: %v", h.c.Method, err)
			return
		}
		h.sees(m, question)
		if err := s.SendMsg(h.message(h.in, h.c.Requests[i])); err != nil {
			h.t.Errorf("%s: %v", h.c.Method, err)
		}
	}
}

// whole sends all requests, and reads all replies. Output may be cut into messages
// otherwise than then: its items are compared.
func (h *oldHost) whole(s grpc.ClientStream) {
	h.t.Helper()
	for _, r := range h.c.Requests {
		if err := s.SendMsg(h.message(h.in, r)); err != nil {
			h.t.Errorf("%s: %v", h.c.Method, err)
		}
	}
	if err := s.CloseSend(); err != nil {
		h.t.Error(err)
	}
	var got []proto.Message
	for {
		m := h.message(h.out, nil)
		err := s.RecvMsg(m)
		if err == io.EOF { //nolint:errorlint // as grpc gives it
			break
		}
		if err != nil {
			h.t.Errorf("%s: %v", h.c.Method, err)
			return
		}
		got = append(got, m)
	}
	want := h.c.Replies
	if strings.HasPrefix(h.c.Method, "/windlass.") && strings.HasSuffix(h.c.Method, "Logs") {
		all := h.message(h.out, nil)
		for _, m := range got {
			proto.Merge(all, m) // lists are put together
		}
		got, want = []proto.Message{all}, [][]byte{slices.Concat(want...)}
	}
	if len(got) != len(want) {
		h.t.Errorf("%s gave %d replies, then %d", h.c.Method, len(got), len(want))
		return
	}
	for i, m := range got {
		h.sees(m, want[i])
	}
}

package client

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// closeTime bounds how long Close waits for the plugin.
const closeTime = 30 * time.Second

// Driver returns the driver that is served at the other end of conn. Its Open opens a
// session of its own for each provider; ids names them.
//
// No message of more than wire.MaxMessage is sent or taken, whatever conn allows.
func Driver(ctx context.Context, conn grpc.ClientConnInterface, ids sdk.IDSource) (sdk.Driver, error) {
	conn = bounded{conn}
	m, err := pb.NewProviderServiceClient(conn).Describe(ctx, &pb.DescribeRequest{})
	if err != nil {
		return sdk.Driver{}, wire.FromStatus(ctx, "describe plugin", err)
	}
	d, err := wire.DecodeDescribeResponse(m)
	if err != nil {
		return sdk.Driver{}, err
	}
	d.Open = func(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
		return open(ctx, conn, ids.NewID().String(), r)
	}
	return d, nil
}

// provider is a session of a plugin. It has the methods of every capability;
// AskCapability tells which of them are there.
type provider struct {
	conn    grpc.ClientConnInterface
	session string
	opened  wire.Opened
	// closed ends what goes on in the background.
	closed chan struct{}
	close  func() error
	tasks  *sync.WaitGroup
}

var (
	_ sdk.Provider = (*provider)(nil)
	_ sdk.Asker    = (*provider)(nil)
)

func open(ctx context.Context, conn grpc.ClientConnInterface, session string, r sdk.OpenRequest) (sdk.Provider, error) {
	p := &provider{conn: conn, session: session, closed: make(chan struct{}), tasks: &sync.WaitGroup{}}
	p.close = sync.OnceValue(p.end)
	client := pb.NewProviderServiceClient(conn)
	m, err := wire.EncodeOpenRequest(session, r)
	if err != nil {
		return nil, err
	}
	if err := p.answer(ctx, r.Secrets); err != nil {
		_ = p.close() // what failed before is told
		return nil, err
	}
	out, err := client.Open(ctx, m)
	if err != nil {
		err = wire.FromStatus(ctx, "open plugin", err)
	} else {
		p.opened, err = wire.DecodeOpenResponse(out)
	}
	if err != nil {
		_ = p.close()
		return nil, err
	}
	return p, nil
}

// in returns ctx with the session.
func (p *provider) in(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, wire.SessionKey, p.session)
}

// lasting returns a context for what outlives a call: it ends with the provider.
func (p *provider) lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(p.in(context.WithoutCancel(ctx)))
	p.tasks.Go(func() {
		select {
		case <-p.closed:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}

func (p *provider) Info() sdk.Info { return p.opened.Info }

func (p *provider) Check(ctx context.Context, _ sdk.CheckRequest) (sdk.CheckResult, error) {
	m, err := pb.NewProviderServiceClient(p.conn).Check(p.in(ctx), &pb.CheckRequest{})
	if err != nil {
		return sdk.CheckResult{}, wire.FromStatus(ctx, "check plugin", err)
	}
	return wire.DecodeCheckResponse(m)
}

func (p *provider) Close() error { return p.close() }

func (p *provider) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	_, err := pb.NewProviderServiceClient(p.conn).Close(p.in(ctx), &pb.CloseRequest{})
	close(p.closed)
	p.tasks.Wait()
	return wire.FromStatus(ctx, "close plugin", err)
}

func (p *provider) AskCapability(name string) any {
	if slices.Contains(p.opened.Capabilities, name) {
		return p
	}
	return nil
}

// answer answers the plugin's questions until the provider is closed. It returns once
// the plugin knows whom to ask.
func (p *provider) answer(ctx context.Context, secrets sdk.SecretResolver) error {
	lasting, cancel := p.lasting(ctx)
	stop := context.AfterFunc(ctx, cancel)
	stream, err := pb.NewProviderServiceClient(p.conn).Callbacks(lasting)
	if err == nil {
		_, err = stream.Header()
	}
	if err != nil || !stop() {
		cancel()
		return wire.FromStatus(ctx, "open plugin", err)
	}
	p.tasks.Go(func() {
		defer cancel()
		questions(lasting, stream, secrets)
	})
	return nil
}

// questions answers what comes on stream, each question on its own.
func questions(ctx context.Context, stream grpc.BidiStreamingClient[pb.CallbacksRequest, pb.CallbacksResponse], secrets sdk.SecretResolver) {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	asked := map[uint64]context.CancelFunc{}
	for {
		q, err := stream.Recv()
		if err != nil {
			return // the provider is closed, or the plugin has ended
		}
		id := q.GetId()
		ref, ok := q.GetQuestion().(*pb.CallbacksResponse_ResolveSecret)
		if !ok {
			mu.Lock()
			if withdraw := asked[id]; withdraw != nil {
				withdraw()
			}
			mu.Unlock()
			continue
		}
		one, withdraw := context.WithCancel(ctx)
		mu.Lock()
		asked[id] = withdraw
		mu.Unlock()
		wg.Go(func() {
			m := resolve(one, secrets, sdk.SecretRef(ref.ResolveSecret))
			m.Id = id
			mu.Lock()
			defer mu.Unlock()
			withdraw()
			delete(asked, id)
			_ = stream.Send(m) // a plugin that has ended asks for nothing
		})
	}
}

func resolve(ctx context.Context, secrets sdk.SecretResolver, ref sdk.SecretRef) *pb.CallbacksRequest {
	err := error(sdk.Errorf(sdk.Unimplemented, "resolve secret", "the provider was opened without secrets"))
	if secrets != nil {
		var v sdk.SecretValue
		if v, err = secrets.ResolveSecret(ctx, ref); err == nil {
			return &pb.CallbacksRequest{Answer: &pb.CallbacksRequest_Secret{Secret: v.Reveal()}}
		}
	}
	return &pb.CallbacksRequest{Answer: &pb.CallbacksRequest_Error{Error: wire.EncodeError(err)}}
}

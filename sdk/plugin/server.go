package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/windlass-run/windlass/sdk"
	pb "github.com/windlass-run/windlass/sdk/plugin/pluginpb/providerpb"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/workflowpb"
	"github.com/windlass-run/windlass/sdk/plugin/wire"
)

// Server serves one driver. It is safe for concurrent use.
type Server struct {
	driver   sdk.Driver
	manifest Manifest
	secrets  sdk.SecretResolver
	log      *slog.Logger
	clock    sdk.Clock
	stateDir string
	// register puts every service on a server; services are their names.
	register []func(grpc.ServiceRegistrar)
	services []string
	iac      *iacProvider

	mu       sync.Mutex
	sessions map[string]*session
}

// session is one provider that the host has open, from its Callbacks or its Open on.
type session struct {
	callbacks *callbacks   // nil while the host keeps none
	provider  sdk.Provider // nil until Open has returned
	opening   bool
	closed    chan struct{} // closed by Close
}

// Register registers the services of a driver on r: those that every plugin has, and
// those of the capabilities that the driver declares, on our wire and on the published
// one. A driver without a kind or Open, or that declares nothing, or what isn't a
// capability, is InvalidArgument.
func Register(r grpc.ServiceRegistrar, d sdk.Driver, options ...Option) (*Server, error) {
	s, err := newServer(d, options)
	if err != nil {
		return nil, err
	}
	s.registerOn(r)
	return s, nil
}

func newServer(d sdk.Driver, options []Option) (*Server, error) {
	if d.Kind == "" || d.Open == nil {
		return nil, sdk.Errorf(sdk.InvalidArgument, "register plugin", "the driver has no kind or no Open")
	}
	s := &Server{driver: d, manifest: Manifest{Name: d.Kind}, secrets: noSecrets{}, log: slog.New(slog.DiscardHandler), clock: sdk.SystemClock(),
		stateDir: stateFolder, sessions: map[string]*session{}}
	for _, o := range options {
		o(s)
	}
	s.iac = &iacProvider{s: s, gone: make(chan struct{})}
	if err := s.choose(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) registerOn(r grpc.ServiceRegistrar) {
	named := &recorder{ServiceRegistrar: r}
	for _, register := range s.register {
		register(named)
	}
	s.services = named.names
	workflowpb.RegisterPluginServiceServer(r, &pluginService{s: s})
}

// Close closes every provider that is open, for a process that ends. Jobs go on.
func (s *Server) Close() error {
	s.mu.Lock()
	names := make([]string, 0, len(s.sessions))
	for name := range s.sessions {
		names = append(names, name)
	}
	s.mu.Unlock()
	errs := []error{s.iac.close()}
	for _, name := range names {
		errs = append(errs, s.close(name))
	}
	return errors.Join(errs...)
}

func (s *Server) close(name string) error {
	s.mu.Lock()
	ses := s.sessions[name]
	if ses == nil {
		s.mu.Unlock()
		return nil // closed already, or never opened
	}
	delete(s.sessions, name)
	close(ses.closed)
	opened := ses.provider
	s.mu.Unlock()
	if opened == nil {
		return nil // an Open that goes on closes what it gets
	}
	return opened.Close()
}

// at returns the session of that name, made where it isn't there; mu is held.
func (s *Server) at(name string) *session {
	ses := s.sessions[name]
	if ses == nil {
		ses = &session{closed: make(chan struct{})}
		s.sessions[name] = ses
	}
	return ses
}

// sessionName reads which session a call is for.
func sessionName(ctx context.Context) (string, error) {
	if v := metadata.ValueFromIncomingContext(ctx, wire.SessionKey); len(v) == 1 && v[0] != "" {
		return v[0], nil
	}
	return "", sdk.Errorf(sdk.InvalidArgument, "find session", "the call has no metadata %s", wire.SessionKey)
}

// session returns the open provider that a call is for. A session that isn't open is
// FailedPrecondition: NotFound would say that a job isn't there.
func (s *Server) session(ctx context.Context) (*session, error) {
	name, err := sessionName(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ses := s.sessions[name]; ses != nil && ses.provider != nil {
		return ses, nil
	}
	return nil, sdk.Errorf(sdk.FailedPrecondition, "find session", "session %q is not open", name)
}

// of returns a capability of the provider that a call is for.
func of[C any](ctx context.Context, s *Server, c sdk.Capability[C]) (C, *session, error) {
	var none C
	ses, err := s.session(ctx)
	if err != nil {
		return none, nil, err
	}
	v, ok := sdk.Of(ses.provider, c)
	if !ok {
		return none, nil, absent(ses.provider, c)
	}
	return v, ses, nil
}

// absent is the error of using a capability that p lacks.
func absent[C any](p sdk.Provider, c sdk.Capability[C]) error {
	info := p.Info()
	return sdk.Absent(info.Name, info.Kind, c.String())
}

func isNil(p sdk.Provider) bool {
	if p == nil {
		return true
	}
	v := reflect.ValueOf(p)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// provider serves what every plugin has.
type provider struct {
	pb.UnimplementedProviderServiceServer
	s *Server
}

func (p *provider) Describe(ctx context.Context, _ *pb.DescribeRequest) (*pb.DescribeResponse, error) {
	m, err := wire.EncodeDescribeResponse(p.s.driver)
	return m, wire.Status(ctx, err)
}

func (p *provider) Open(ctx context.Context, m *pb.OpenRequest) (*pb.OpenResponse, error) {
	out, err := p.s.open(ctx, m)
	return out, wire.Status(ctx, err)
}

func (s *Server) open(ctx context.Context, m *pb.OpenRequest) (*pb.OpenResponse, error) {
	name, r, err := wire.DecodeOpenRequest(m)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	ses := s.at(name)
	if ses.opening || ses.provider != nil {
		s.mu.Unlock()
		return nil, sdk.Errorf(sdk.AlreadyExists, "open provider", "session %q is open already", name)
	}
	ses.opening = true
	s.mu.Unlock()

	r.Secrets = &resolver{s: s, session: name}
	opened, err := s.openDriver(ctx, r)
	var out *pb.OpenResponse
	if err == nil {
		if out, err = wire.EncodeOpenResponse(wire.Opened{Info: opened.Info(), Capabilities: sdk.CapabilityNames(opened), Hints: wire.Hints()}); err != nil {
			err = errors.Join(err, opened.Close())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ses.opening = false
	live := s.sessions[name] == ses
	switch {
	case err != nil:
		if live && ses.callbacks == nil {
			delete(s.sessions, name)
		}
		return nil, err
	case !live:
		return nil, errors.Join(sdk.Errorf(sdk.Canceled, "open provider", "session %q was closed meanwhile", name), opened.Close())
	}
	ses.provider = opened
	return out, nil
}

// openDriver opens a provider with a clock, IDs, log and executable of its own, and refuses one that
// can't do exactly what the driver declares: the services are registered by that.
func (s *Server) openDriver(ctx context.Context, r sdk.OpenRequest) (sdk.Provider, error) {
	r.Clock, r.Log = s.clock, s.log
	r.IDs = sdk.NewIDSource(r.Clock)
	// Where it isn't known, a driver that starts itself again says so.
	r.Executable, _ = os.Executable()
	r = r.Filled()
	opened, err := s.driver.Open(ctx, r)
	if err != nil {
		return nil, err
	}
	if isNil(opened) {
		return nil, sdk.Errorf(sdk.Internal, "open provider", "the driver's Open returned nothing")
	}
	declared, can := slices.Sorted(slices.Values(s.driver.Capabilities)), slices.Sorted(slices.Values(sdk.CapabilityNames(opened)))
	if !slices.Equal(declared, can) {
		err := sdk.Errorf(sdk.Internal, "open provider", "driver %s declares the capabilities %v, its provider has %v; its author corrects Driver.Capabilities", s.driver.Kind, declared, can)
		return nil, errors.Join(err, opened.Close())
	}
	return opened, nil
}

func (p *provider) Info(ctx context.Context, _ *pb.InfoRequest) (*pb.InfoResponse, error) {
	ses, err := p.s.session(ctx)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	m, err := wire.EncodeInfoResponse(ses.provider.Info())
	return m, wire.Status(ctx, err)
}

func (p *provider) Check(ctx context.Context, _ *pb.CheckRequest) (*pb.CheckResponse, error) {
	ses, err := p.s.session(ctx)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	res, err := ses.provider.Check(ctx, sdk.CheckRequest{})
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	m, err := wire.EncodeCheckResponse(res)
	return m, wire.Status(ctx, err)
}

func (p *provider) Close(ctx context.Context, _ *pb.CloseRequest) (*pb.CloseResponse, error) {
	name, err := sessionName(ctx)
	if err == nil {
		err = p.s.close(name)
	}
	if err != nil {
		return nil, wire.Status(ctx, fmt.Errorf("close provider: %w", err))
	}
	return &pb.CloseResponse{}, nil
}

package runner

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/sandboxpb"
)

// DefaultMaxJobs is how many jobs a server takes at a time if nothing else is
// said.
const DefaultMaxJobs = 8

// DefaultStartTimeout is how long a job may take to start if nothing else is said: the
// wire has no such bound of a caller's.
const DefaultStartTimeout = 10 * time.Minute

const (
	// maxRequest bounds a request, in bytes: a command, its variables, and no data.
	maxRequest = 1 << 20
	// maxHeaders bounds a call's headers, in bytes.
	maxHeaders = 16 << 10
	// maxStreams bounds the calls of one connection. More jobs than there is
	// room for are refused, not left waiting.
	maxStreams = 256
	// handshakeTime bounds how long a connection may take to say who it is.
	handshakeTime = 10 * time.Second
	// aliveEvery and aliveWithin find callers that went away without a word.
	aliveEvery, aliveWithin = 20 * time.Second, 10 * time.Second
	// pingsFrom is how often callers may ask whether the server is there.
	pingsFrom = 5 * time.Second
	// sayGoodbye bounds how long a stopping server goes on sending to callers
	// whose jobs are over.
	sayGoodbye = 5 * time.Second
)

// requestPrefix begins the request IDs of runs that a runner submits, so that
// the next one finds what a dead one left.
const requestPrefix = "runner:"

// Engine is what the server asks of internal/control.
type Engine interface {
	Submit(ctx context.Context, r control.SubmitRequest) (control.Submitted, error)
	Wait(ctx context.Context, id sdk.ID, until control.Milestone) (ledger.Run, error)
	Follow(ctx context.Context, id sdk.ID, o control.FollowOptions) iter.Seq2[control.FollowItem, error]
	Cancel(ctx context.Context, r control.CancelRequest) error
	Recover(ctx context.Context, provider string) (int, error)
}

var _ Engine = (*control.Engine)(nil)

// Runs reads the ledger's runs.
type Runs interface {
	Runs(ctx context.Context, f ledger.RunFilter) iter.Seq2[ledger.Run, error]
	Attempts(ctx context.Context, run sdk.ID) ([]ledger.Attempt, error)
}

// Options is what a server works with. All but Clients, MaxJobs, Mind, Log, IDs,
// Redact and Stopping is required, and ClientCAFile where no client has a token.
type Options struct {
	Engine Engine
	Runs   Runs
	// Provider runs the jobs.
	Provider string
	// StateDir holds the lock that keeps a second server of the provider out.
	StateDir string
	// Actor is who stops the server, for the record.
	Actor string
	// CertFile and KeyFile are the server's own, PEM. They are read again for
	// each connection, so that renewed ones are used.
	CertFile, KeyFile string
	// ClientCAFile has the CAs whose certificates let clients in.
	ClientCAFile string
	// Clients are those who may call. With none, whoever has a certificate of
	// ClientCAFile may, under the profile strict and without secrets.
	Clients []Client
	// MaxJobs bounds the jobs at a time; 0 is DefaultMaxJobs.
	MaxJobs int
	// StartTimeout ends a job that hasn't started by then; 0 is no such bound.
	StartTimeout time.Duration
	// Mind, when not nil, looks after a run until ctx ends: where its holder
	// dies, it finds another.
	Mind func(ctx context.Context, run sdk.ID)
	IDs  sdk.IDSource
	Log  *slog.Logger
	// Redact, when not nil, takes secret values out of what callers are told.
	Redact func(text string) string
	// Stopping, when not nil, is called once, as the server begins to stop: it waits
	// for so many jobs, without a bound.
	Stopping func(jobs int)
}

// Server runs jobs for its callers.
type Server struct {
	sandboxpb.UnimplementedSandboxExecServiceServer

	o      Options
	door   *door
	tls    *tls.Config
	places *places
	lock   *flock.Flock

	// goodbye is sayGoodbye but in tests.
	goodbye time.Duration
	// stopping is closed when the server takes no more jobs and cancels those
	// that it has.
	stopping chan struct{}
	stop     func()
	// jobs are those that aren't proven to be gone. None is added under a
	// closed stopping. count is their number.
	mu    sync.Mutex
	jobs  sync.WaitGroup
	count int
}

// Check returns what is wrong with the options that concern who may call, before
// anything is opened: a server that couldn't tell who calls is refused.
func Check(o Options) error {
	_, err := unlocked(o)
	return err
}

// New checks the options and takes the provider's place in the state folder.
func New(o Options) (*Server, error) {
	s, err := unlocked(o)
	if err != nil {
		return nil, err
	}
	s.lock = flock.New(filepath.Join(o.StateDir, "runner-"+o.Provider+".lock"), flock.SetPermissions(0o600))
	ok, err := s.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("serve runner: lock %s: %w", s.lock.Path(), err)
	}
	if !ok {
		return nil, errors.Join(&sdk.Error{Code: sdk.FailedPrecondition, Op: "serve runner", Provider: o.Provider, ID: ErrBusy,
			Err: errors.New("another runner serves it from this state folder"), Remedy: "stop that one, or set WINDLASS_STATE to another folder"}, s.lock.Close())
	}
	return s, nil
}

func unlocked(o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.IDs == nil {
		o.IDs = sdk.NewIDSource(sdk.SystemClock())
	}
	if o.MaxJobs <= 0 {
		o.MaxJobs = DefaultMaxJobs
	}
	s := &Server{o: o, places: newPlaces(o.MaxJobs), goodbye: sayGoodbye, stopping: make(chan struct{})}
	s.stop = sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.stopping)
	})
	var err error
	if s.door, err = newDoor(o.Clients, len(o.Clients) == 0 && o.ClientCAFile != ""); err != nil {
		return nil, &sdk.Error{Code: sdk.InvalidArgument, Op: "serve runner", ID: ErrClients, Err: err}
	}
	if err := s.checkDoor(); err != nil {
		return nil, err
	}
	if s.tls, err = s.serverTLS(); err != nil {
		return nil, err
	}
	return s, nil
}

// checkDoor refuses a server without a way to tell who calls, and clients whom
// none of its ways would let in.
func (s *Server) checkDoor() error {
	if s.o.ClientCAFile == "" && len(s.door.tokens) == 0 {
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "serve runner", ID: ErrNoDoor, Err: errors.New("nothing would tell who calls"),
			Remedy: "give it --client-ca for certificates, or --clients with tokens"}
	}
	if s.o.ClientCAFile != "" {
		return nil
	}
	var out []string
	for name, acc := range s.door.accounts {
		if len(acc.Token.Reveal()) == 0 {
			out = append(out, name)
		}
	}
	if len(out) == 0 {
		return nil
	}
	slices.Sort(out)
	return &sdk.Error{Code: sdk.FailedPrecondition, Op: "serve runner", ID: ErrNoDoor,
		Err: fmt.Errorf("without a token, and without a client CA for a certificate, nothing lets these clients in: %s", strings.Join(out, ", ")), Remedy: "give them tokens, or the runner --client-ca"}
}

// serverTLS is TLS 1.3 with the newest certificate on disk. A client's
// certificate is asked for where there is a CA, and is a must where nobody has a
// token.
func (s *Server) serverTLS() (*tls.Config, error) {
	pair, err := readPair(s.o.CertFile, s.o.KeyFile)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	c := &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		// A pair that is being replaced may not fit for a moment.
		if p, err := readPair(s.o.CertFile, s.o.KeyFile); err == nil {
			pair = p
		}
		p := pair
		return &p, nil
	}}
	if s.o.ClientCAFile == "" {
		return c, nil
	}
	if c.ClientCAs, err = readPool(s.o.ClientCAFile); err != nil {
		return nil, err
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	if len(s.door.tokens) > 0 {
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return c, nil
}

// Close gives the provider's place up. Serve must have returned, or never have
// been called.
func (s *Server) Close() error { return s.lock.Close() }

// Serve takes calls on lis, which it closes, until ctx ends. It then takes no
// more, cancels the jobs that it has, and returns when each is proven to be gone
// and nothing of it is left to do. What a server that died left behind is
// cancelled at first.
func (s *Server) Serve(ctx context.Context, lis net.Listener) error {
	if err := s.cancelLeft(ctx); err != nil {
		s.stop()
		s.jobs.Wait()
		if ctx.Err() != nil {
			err = nil // stopped before it began
		}
		return errors.Join(err, lis.Close())
	}
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(s.tls)), grpc.ConnectionTimeout(handshakeTime),
		grpc.MaxRecvMsgSize(maxRequest), grpc.MaxHeaderListSize(maxHeaders), grpc.MaxConcurrentStreams(maxStreams), grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: aliveEvery, Timeout: aliveWithin}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsFrom, PermitWithoutStream: true}))
	sandboxpb.RegisterSandboxExecServiceServer(g, s)
	h := health.NewServer()
	h.SetServingStatus(sandboxpb.SandboxExecService_ServiceDesc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(g, h)

	served := make(chan error, 1)
	go func() { served <- g.Serve(lis) }()
	var err error
	select {
	case <-ctx.Done():
	case err = <-served: // the listener failed
		served <- nil
	}
	h.Shutdown()
	s.stop()
	if s.o.Stopping != nil {
		s.o.Stopping(s.left())
	}
	s.jobs.Wait()
	// All jobs are gone. What is left is to tell the callers, if they listen.
	hard := time.AfterFunc(s.goodbye, g.Stop)
	g.GracefulStop()
	hard.Stop()
	if err := errors.Join(err, <-served); err != nil {
		return fmt.Errorf("serve runner: %w", err)
	}
	return nil
}

// begin counts a job in; false once the server is stopping.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.stopping:
		return false
	default:
		s.jobs.Add(1)
		s.count++
		return true
	}
}

// done counts a job out that begin counted in.
func (s *Server) done() {
	s.mu.Lock()
	s.count--
	s.mu.Unlock()
	s.jobs.Done()
}

// left is how many jobs aren't proven to be gone.
func (s *Server) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// cancelLeft cancels the jobs of a server that died: their callers are gone. It
// returns when all requests are on record; the server's end waits for the proof.
func (s *Server) cancelLeft(ctx context.Context) error {
	if _, err := s.o.Engine.Recover(ctx, s.o.Provider); err != nil {
		return fmt.Errorf("serve runner: %w", err)
	}
	for run, err := range s.o.Runs.Runs(ctx, ledger.RunFilter{Open: true, Provider: s.o.Provider}) {
		if err != nil {
			return fmt.Errorf("serve runner: %w", err)
		}
		if !strings.HasPrefix(run.RequestID, requestPrefix) || !s.begin() {
			continue
		}
		j := &job{s: s, id: run.ID, actor: s.o.Actor, log: s.o.Log.With("run", run.ID, "client", run.Actor)}
		j.log.Info("cancelling what a runner that died left")
		go func() {
			defer s.done()
			j.cancel(context.WithoutCancel(ctx), s.o.Actor, "the runner that served it has died")
		}()
	}
	return nil
}

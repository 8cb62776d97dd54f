package gcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudlogging"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudmonitoring"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudrun"
	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
	"github.com/windlass-run/windlass/internal/pocket/gcp/gsecrets"
	"github.com/windlass-run/windlass/internal/pocket/run"
)

// What Options have by default.
const (
	Project  = "pocket-project"
	Number   = "123456789012"
	Location = "europe-west1"
)

// Options configure a pocket Google Cloud. The zero value is a working one.
type Options struct {
	// Project is the ID of the only project, Number its number; both mean the
	// same in names. Location is the only one that there is.
	Project, Number, Location string
	// Now is the cloud's clock; nil means time.Now. States go on by real time,
	// or by virtual time under testing/synctest.
	Now func() time.Time
	// NewID returns 32 hexadecimal digits, new each time; nil means random
	// ones. It is used by several goroutines.
	NewID func() string
	// Executor runs containers; nil means processes of this machine. Close
	// closes it.
	Executor run.Executor
	// Token is what callers must show as their access token; empty lets
	// everybody in, with a token or without.
	Token string
	// Record keeps all requests and replies: for tests.
	Record bool
	// Seed chooses what a fault's share hits.
	Seed uint64
	// State is a folder in which all is kept between two servers, secrets too,
	// empty for none. Close writes it; tasks don't outlive their server.
	State string
}

// Server is a pocket Google Cloud.
type Server struct {
	o        Options
	faults   *fault.Plan
	calls    *fault.Recorder
	limits   limits
	executor run.Executor

	policy  *gapi.Policy
	run     *cloudrun.Service
	logging *cloudlogging.Service
	secrets *gsecrets.Service
	metrics *cloudmonitoring.Service

	grpc *grpc.Server
	rest *rest
	gke  *gkeService
	web  *http.Server

	listeners sync.WaitGroup
	closing   sync.Once
	closeErr  error
}

// New returns a server. It must be closed.
func New(o Options) (*Server, error) {
	o.Project, o.Number, o.Location = cmp.Or(o.Project, Project), cmp.Or(o.Number, Number), cmp.Or(o.Location, Location)
	if !regexp.MustCompile(`^[a-z][a-z0-9-]{4,28}[a-z0-9]$`).MatchString(o.Project) {
		return nil, fmt.Errorf("pocket gcp: project %q: want 6 to 30 lowercase letters, digits and hyphens", o.Project)
	}
	if !regexp.MustCompile(`^[0-9]{6,19}$`).MatchString(o.Number) {
		return nil, fmt.Errorf("pocket gcp: project number %q: want digits", o.Number)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = randomID
	}
	s := &Server{o: o, faults: fault.NewPlan(o.Seed), calls: fault.NewRecorder(o.Record), executor: o.Executor, policy: &gapi.Policy{}}
	if s.executor == nil {
		s.executor = run.NewProcesses(nil)
	}
	project := gapi.Project{ID: o.Project, Number: o.Number}
	s.logging = cloudlogging.New(cloudlogging.Options{Project: project, Policy: s.policy, Now: o.Now})
	s.secrets = gsecrets.New(gsecrets.Options{Project: project, Policy: s.policy, Now: o.Now})
	s.run = cloudrun.New(cloudrun.Options{Project: project, Policy: s.policy, Location: o.Location, Now: o.Now, NewID: o.NewID, Caller: "pocket@" + o.Project + ".iam.gserviceaccount.com",
		Executor: s.executor, Logs: s.logging, Secret: s.secrets.Value})
	s.metrics = cloudmonitoring.New(cloudmonitoring.Options{Project: project, Policy: s.policy, Location: o.Location, Now: o.Now, Source: s.run.Measurements})
	if err := s.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("pocket gcp: read its state: %w", err), s.executor.Close())
	}

	s.gke = &gkeService{clusters: map[string]GKECluster{}}
	s.grpc = grpc.NewServer(grpc.UnaryInterceptor(s.intercept), grpc.MaxRecvMsgSize(maxBody))
	s.run.Register(s.grpc)
	s.logging.Register(s.grpc)
	s.secrets.Register(s.grpc)
	s.metrics.Register(s.grpc)
	var err error
	if s.rest, err = newREST(s.grpc); err != nil {
		return nil, errors.Join(fmt.Errorf("pocket gcp: %w", err), s.executor.Close())
	}
	s.web = s.newHTTPServer()
	return s, nil
}

// newHTTPServer speaks HTTP/1.1 and, without TLS, HTTP/2.
func (s *Server) newHTTPServer() *http.Server {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		Protocols:         protocols,
		ReadHeaderTimeout: 30 * time.Second,
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
}

// Listen serves at an address like 127.0.0.1:0, until Close, and returns the
// real one.
func (s *Server) Listen(address string) (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		return "", fmt.Errorf("pocket gcp: %w", err)
	}
	s.listeners.Go(func() { _ = s.web.Serve(l) }) // it ends by Close
	return l.Addr().String(), nil
}

// Serve serves on a listener until Close, which makes it return nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("pocket gcp: %w", err)
	}
	return nil
}

// Close ends every task, every instance and every connection, and waits for them.
func (s *Server) Close() error {
	s.closing.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Server) close() error {
	s.run.Close()
	err := errors.Join(s.executor.Close(), s.web.Close())
	s.grpc.Stop()
	s.listeners.Wait()
	if e := s.save(); e != nil {
		err = errors.Join(err, fmt.Errorf("pocket gcp: write its state: %w", e))
	}
	return err
}

// Faults returns the plan of what goes wrong with calls. Actions are named
// "run:RunJob", "logging:ListLogEntries", "secretmanager:AccessSecretVersion",
// "monitoring:ListTimeSeries"; operations "run:GetOperation".
func (s *Server) Faults() *fault.Plan { return s.faults }

// Calls returns the record of calls. Bodies are the messages as JSON, however
// they came.
func (s *Server) Calls() *fault.Recorder { return s.calls }

// Policy returns what the caller may do, to take permissions away.
func (s *Server) Policy() *gapi.Policy { return s.policy }

// Run returns Cloud Run, for its knobs.
func (s *Server) Run() *cloudrun.Service { return s.run }

// Logging returns Cloud Logging, for its knobs.
func (s *Server) Logging() *cloudlogging.Service { return s.logging }

// Monitoring returns Cloud Monitoring, for its knobs.
func (s *Server) Monitoring() *cloudmonitoring.Service { return s.metrics }

// Secrets returns Secret Manager, to put secrets into.
func (s *Server) Secrets() *gsecrets.Service { return s.secrets }

// Rules returns the rules of all services.
func Rules() gapi.Table {
	return slices.Concat(cloudrun.Rules(), cloudlogging.Rules(), gsecrets.Rules(), cloudmonitoring.Rules(), gkeRules())
}

func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

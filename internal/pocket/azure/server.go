package azure

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/run"
)

// What Options have by default. The resource group is there from the start.
const (
	TenantID       = "11111111-2222-3333-4444-555555555555"
	SubscriptionID = "00000000-1111-2222-3333-444444444444"
	ResourceGroup  = "pocket"
	Location       = "westeurope"
	Vault          = "pocket"
	Store          = "pocket"
)

// maxBody bounds a request's body in bytes: Resource Manager's own limit. See
// https://learn.microsoft.com/en-us/azure/azure-resource-manager/management/azure-subscription-service-limits
const maxBody = 4 << 20

// Options configure a pocket Azure. The zero value is a working one.
type Options struct {
	// TenantID, SubscriptionID, ResourceGroup and Location are those that there
	// are; empty means the constants of these names.
	TenantID, SubscriptionID, ResourceGroup, Location string
	// Clients are the service principals by their client IDs. A nil map means
	// that any ID with any secret gets a token that allows everything.
	Clients map[string]Client
	// Now is the cloud's clock; nil means time.Now. States go on by real time,
	// or by virtual time under testing/synctest.
	Now func() time.Time
	// NewID returns 32 hexadecimal digits, new each time; nil means random
	// ones. It is used by several goroutines.
	NewID func() string
	// Executor runs containers; nil means processes of this machine. Close
	// closes it.
	Executor run.Executor
	// Record keeps all requests and replies: for tests.
	Record bool
	// Seed chooses what a fault's share hits.
	Seed uint64
	// State is a folder in which all is kept between two servers, secrets too,
	// empty for none. Close writes it; containers don't outlive their server.
	// The certificate of the server's authority lies there as CAFile.
	State string
}

// Server is a pocket Azure. It is an http.Handler, without TLS; Listen adds it.
type Server struct {
	o        Options
	faults   *fault.Plan
	calls    *fault.Recorder
	executor run.Executor
	routes   []route
	shapes   shapes
	identity *identity
	web      *http.Server

	mu         sync.Mutex
	resources  []*resourceGroup
	groups     []*group // by age
	operations map[string]*operation
	vaults     map[string]*vault
	stores     map[string]*configStore
	clusters   []ManagedCluster
	denied     []string
	limits     Limits
	creates    []time.Time // of the last hour
	deletes    []time.Time
	buckets    map[string]*bucket // by caller and kind of call
	knobs      Knobs
	mishaps    []*Mishap
	sessions   map[string]*session
	changes    map[string]int // by resource group and name
	closed     bool
	lives      sync.WaitGroup
	end        chan struct{} // closed by Close

	listeners sync.WaitGroup
	closing   sync.Once
	closeErr  error
}

// New returns a server. It must be closed.
func New(o Options) (*Server, error) {
	o.TenantID, o.SubscriptionID = cmp.Or(o.TenantID, TenantID), cmp.Or(o.SubscriptionID, SubscriptionID)
	o.ResourceGroup, o.Location = cmp.Or(o.ResourceGroup, ResourceGroup), cmp.Or(o.Location, Location)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = randomID
	}
	s := &Server{o: o, faults: fault.NewPlan(o.Seed), calls: fault.NewRecorder(o.Record), executor: o.Executor, routes: routes(),
		operations: map[string]*operation{}, vaults: map[string]*vault{}, stores: map[string]*configStore{}, buckets: map[string]*bucket{}, knobs: Knobs{}.filled(), sessions: map[string]*session{}, changes: map[string]int{}, end: make(chan struct{})}
	var err error
	if s.shapes, err = newShapes(); err != nil {
		return nil, fmt.Errorf("pocket azure: %w", err)
	}
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("pocket azure: read its state: %w", err)
	}
	if s.identity, err = s.newIdentity(); err != nil {
		return nil, fmt.Errorf("pocket azure: make its certificate: %w", err)
	}
	if len(s.resources) == 0 {
		s.resources = []*resourceGroup{{Name: o.ResourceGroup, Location: o.Location}}
	}
	// Also a server that is killed leaves its authority, which clients trust.
	if err := s.save(); err != nil {
		return nil, fmt.Errorf("pocket azure: write its state: %w", err)
	}
	if s.executor == nil {
		s.executor = run.NewProcesses(nil)
	}
	s.web = &http.Server{
		Handler: s,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{s.identity.leaf}, MinVersion: tls.VersionTLS12,
			// By HTTP/1.1 alone, so that a cut connection is one call's.
			NextProtos: []string{"http/1.1"}},
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ReadHeaderTimeout: 30 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // clients that don't trust it say so themselves
	}
	return s, nil
}

// Listen serves by HTTPS at an address like 127.0.0.1:0, until Close, and
// returns the real one.
func (s *Server) Listen(address string) (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		return "", fmt.Errorf("pocket azure: %w", err)
	}
	s.listeners.Go(func() { _ = s.web.ServeTLS(l, "", "") }) // it ends by Close
	return l.Addr().String(), nil
}

// Serve serves by HTTPS on a listener until Close, which makes it return nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.web.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("pocket azure: %w", err)
	}
	return nil
}

// TLS returns the configuration of a listener of one's own.
func (s *Server) TLS() *tls.Config { return s.web.TLSConfig.Clone() }

// CA returns the certificate of the authority that signed the server's own, as
// PEM. It is limited to names and addresses of loopback.
func (s *Server) CA() []byte { return slices.Clone(s.identity.ca) }

// Close ends every container and connection, waits for them, and saves the
// state.
func (s *Server) Close() error {
	s.closing.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Server) close() error {
	s.mu.Lock()
	s.closed = true
	close(s.end)
	s.mu.Unlock()
	s.lives.Wait()
	err := errors.Join(s.executor.Close(), s.web.Close())
	s.listeners.Wait()
	if e := s.save(); e != nil {
		err = errors.Join(err, fmt.Errorf("pocket azure: write its state: %w", e))
	}
	return err
}

// Faults returns the plan of what goes wrong with calls. Actions have the names
// that the APIs' own documents give to operations: "ContainerGroups_Get",
// "Containers_ListLogs", "GetSecret"; tokens are "Token" and "IdentityToken".
func (s *Server) Faults() *fault.Plan { return s.faults }

// Calls returns the record of calls. Bodies of calls for tokens aren't kept.
func (s *Server) Calls() *fault.Recorder { return s.calls }

// call is one call that is carried out.
type call struct {
	request *http.Request
	route   *route
	path    map[string]string
	body    []byte
	now     time.Time
	who     claims
	header  http.Header // the reply's
}

// result is what a call comes to. A nil value has no body.
type result struct {
	status int
	value  any
}

const requestHeader = "X-Ms-Request-Id"

// ServeHTTP answers one call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if key, ok := strings.CutPrefix(r.URL.Path, execPath); ok {
		s.serveSession(w, r, key)
		return
	}
	// Clients learn from it how far off their own clock is.
	w.Header().Set("Date", s.o.Now().UTC().Format(http.TimeFormat))
	id := uuid(randomID())
	c := &call{request: r, now: s.o.Now().UTC(), header: http.Header{"Content-Type": {"application/json; charset=utf-8"}, "Cache-Control": {"no-cache"},
		requestHeader: {id}, "X-Ms-Correlation-Request-Id": {id}}}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		write(w, planeARM.refuse(&Error{Status: http.StatusRequestEntityTooLarge, Code: "RequestContentTooLarge", Message: err.Error()}, c.header))
		return
	}
	c.body = body
	if !s.match(c) {
		write(w, planeOf(r.URL.Path).refuse(refuse(ruleRoute, "The requested resource does not support http method '%s', or there is none at '%s'.", r.Method, r.URL.Path), c.header))
		return
	}
	recorded := body
	if c.route.plane == planeToken {
		recorded = nil // it has a password
	}
	fault.Server{Plan: s.faults, Recorder: s.calls, Now: s.o.Now}.Serve(w, r, c.route.action, recorded, func() fault.Reply {
		s.mu.Lock()
		defer s.mu.Unlock()
		done, refused := s.do(c)
		if refused != nil {
			return c.route.plane.refuse(refused, c.header)
		}
		if done.value == nil {
			return fault.Reply{Status: done.status, Header: c.header}
		}
		data, err := encode(done.value)
		if err != nil {
			return c.route.plane.refuse(&Error{Status: http.StatusInternalServerError, Code: "InternalServerError", Message: err.Error()}, c.header)
		}
		return fault.Reply{Status: done.status, Header: c.header, Body: data}
	}, func(f fault.Refusal) fault.Reply {
		return c.route.plane.refuse(&Error{Status: cmp.Or(f.Status, http.StatusInternalServerError), Code: cmp.Or(f.Code, "InternalServerError"),
			Message: cmp.Or(f.Message, "Encountered internal server error.")}, c.header)
	})
}

// do checks who calls with what, and carries the call out. The lock is held.
func (s *Server) do(c *call) (result, *Error) {
	if e := s.admit(c); e != nil {
		return result{}, e
	}
	if s.closed && c.request.Method != http.MethodGet {
		return result{}, &Error{Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable", Message: "The pocket cloud is closed."}
	}
	return c.route.do(s, c)
}

func write(w http.ResponseWriter, reply fault.Reply) {
	for name, values := range reply.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(reply.Status)
	_, _ = w.Write(reply.Body) // a caller that has gone misses nothing that counts
}

// base is the address under which the caller reached the cloud.
func (c *call) base() string {
	scheme := "http"
	if c.request.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + c.request.Host
}

func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

func uuid(id string) string {
	return strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-")
}

package digitalocean

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/run"
)

// maxBody bounds a request's body in bytes.
const maxBody = 8 << 20

// Account is the UUID of a new server's account, and of its team. It is always the
// same: to callers that live on, a server that is started again is the cloud that
// they know.
const Account = "b8d95e7e-6bd4-4a7c-9d4f-0c3f5d6a2e10"

// Options configure a pocket DigitalOcean. The zero value is a working one.
type Options struct {
	// Tokens are those that the account knows, with their scopes, such as
	// "app:create"; nil scopes allow everything. A nil map means that any
	// token will do.
	Tokens map[string][]string
	// Now is the cloud's clock; nil means time.Now. Phases go on by real time,
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
	// State is a folder in which all is kept between two servers, empty for
	// none. Close writes it; jobs don't outlive their server.
	State string
}

// Server is a pocket DigitalOcean. It is an http.Handler.
type Server struct {
	o        Options
	mux      *http.ServeMux
	faults   *fault.Plan
	calls    *fault.Recorder
	executor run.Executor

	mu      sync.Mutex
	vault   *vault
	key     []byte
	account string
	apps    []*app // by age
	limits  Limits
	spent   map[string][]time.Time // by token: the calls of the last hour
	knobs   Knobs
	mishaps []*Mishap
	links   map[string]link // by token: addresses of logs
	sweep   time.Time       // when old links are dropped next
	closed  bool
	lives   sync.WaitGroup
	end     chan struct{} // closed by Close
}

// New returns a server. It must be closed.
func New(o Options) (*Server, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = randomID
	}
	s := &Server{o: o, mux: http.NewServeMux(), faults: fault.NewPlan(o.Seed), calls: fault.NewRecorder(o.Record), executor: o.Executor,
		key: newKey(), account: Account, spent: map[string][]time.Time{}, knobs: Knobs{Pace: DefaultPace()}, links: map[string]link{}, end: make(chan struct{})}
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("pocket digitalocean: %w", err)
	}
	var err error
	if s.vault, err = newVault(s.key); err != nil {
		return nil, fmt.Errorf("pocket digitalocean: %w", err)
	}
	if s.executor == nil {
		s.executor = run.NewProcesses(nil)
	}
	for _, r := range routes() {
		s.mux.HandleFunc(r.method+" "+r.pattern, func(w http.ResponseWriter, req *http.Request) { s.serve(w, req, r) })
	}
	s.mux.HandleFunc("GET "+livePath, s.serveLive)
	s.mux.HandleFunc("GET "+archivePath, s.serveArchive)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		header := s.header(w)
		write(w, refuse(ruleRoute, "The resource you were accessing could not be found.").reply(header.Get(requestHeader), header))
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reschedule()
	return s, nil
}

// Close ends every job, waits for it, and saves the state. Calls that come later
// are answered from what is left; nothing runs any more.
func (s *Server) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.end)
	}
	s.mu.Unlock()
	s.lives.Wait()
	return errors.Join(s.executor.Close(), s.save())
}

// Faults returns the plan of what goes wrong with calls. Actions have the names
// that the API's own document gives to operations: "apps_create".
func (s *Server) Faults() *fault.Plan { return s.faults }

// Calls returns the record of calls.
func (s *Server) Calls() *fault.Recorder { return s.calls }

// ServeHTTP answers one call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

const requestHeader = "X-Request-Id"

// header begins a reply's.
func (s *Server) header(w http.ResponseWriter) http.Header {
	// Clients learn from it how far off their own clock is.
	w.Header().Set("Date", s.o.Now().UTC().Format(http.TimeFormat))
	return http.Header{"Content-Type": {"application/json; charset=utf-8"}, requestHeader: {uuid(randomID())}}
}

// call is one call that is carried out.
type call struct {
	request *http.Request
	body    []byte
	query   url.Values
	now     time.Time
}

// path returns a part of the address.
func (c *call) path(name string) string { return c.request.PathValue(name) }

// serve answers a call of an operation.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, op route) {
	header := s.header(w)
	id := header.Get(requestHeader)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		write(w, (&Error{Status: http.StatusRequestEntityTooLarge, Message: err.Error()}).reply(id, header))
		return
	}
	fault.Server{Plan: s.faults, Recorder: s.calls, Now: s.o.Now}.Serve(w, r, op.action, body, func() fault.Reply {
		data, refused := s.done(&call{request: r, body: body, now: s.o.Now().UTC()}, op, header)
		if refused != nil {
			return refused.reply(id, header)
		}
		if data == nil {
			return fault.Reply{Status: http.StatusNoContent, Header: header}
		}
		body, err := withoutZeroTimes(data)
		if err != nil {
			return (&Error{Status: http.StatusInternalServerError, Message: err.Error()}).reply(id, header)
		}
		return fault.Reply{Status: http.StatusOK, Header: header, Body: body}
	}, func(f fault.Refusal) fault.Reply {
		return (&Error{Status: cmp.Or(f.Status, http.StatusInternalServerError), Message: cmp.Or(f.Message, "Server Error")}).reply(id, header)
	})
}

// done carries a call out and encodes what it answers: under the lock, since that
// is the server's own state; what more there is to do with it needs none.
func (s *Server) done(c *call, op route, header http.Header) ([]byte, *Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, refused := s.do(c, op, header)
	if refused != nil || value == nil {
		return nil, refused
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, &Error{Status: http.StatusInternalServerError, Message: fmt.Sprintf("pocket digitalocean: encode a reply: %v", err)}
	}
	return data, nil
}

// do checks who calls with what, and carries the call out. The lock is held.
func (s *Server) do(c *call, op route, header http.Header) (any, *Error) {
	token, ok := strings.CutPrefix(c.request.Header.Get("Authorization"), "Bearer ")
	scopes, known := s.o.Tokens[token]
	if !ok || token == "" || s.o.Tokens != nil && !known {
		return nil, refuse(ruleToken, "Unable to authenticate you")
	}
	if refused := s.take(token, c.now, header); refused != nil {
		return nil, refused
	}
	if scopes != nil && !slices.Contains(scopes, op.scope) {
		return nil, refuse(ruleScope, "You are missing the required permission %s.", op.scope)
	}
	query, err := url.ParseQuery(c.request.URL.RawQuery)
	if err != nil {
		return nil, refuse(ruleQuery, "the query is malformed: %v", err)
	}
	for name, values := range query {
		if !slices.Contains(op.query, name) {
			return nil, refuse(ruleQuery, "%s has no parameter %q", op.action, name)
		}
		if len(values) > 1 && name != "job_names" && name != "deployment_types" {
			return nil, refuse(ruleQuery, "parameter %q is given twice", name)
		}
	}
	if s.closed && op.method != http.MethodGet {
		return nil, &Error{Status: http.StatusServiceUnavailable, Message: "The pocket cloud is closed."}
	}
	c.query = query
	return op.do(s, c)
}

func write(w http.ResponseWriter, reply fault.Reply) {
	for name, values := range reply.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(reply.Status)
	_, _ = w.Write(reply.Body) // a caller that has gone misses nothing that counts
}

// Throttle is the refusal of a call beyond the API's rate.
func Throttle() *fault.Refusal {
	return &fault.Refusal{Status: http.StatusTooManyRequests, Message: "API Rate limit exceeded."}
}

func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

func uuid(id string) string {
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}

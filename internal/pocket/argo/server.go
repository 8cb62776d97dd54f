package argo

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/internal/pocket/run"
)

// Token is what Argo Server takes where [Options] name none.
const Token = "pocket-argo-token-0f6c2f"

// Options say how a cluster is made.
type Options struct {
	// Executor runs the containers; the server closes it.
	Executor run.Executor
	// Record keeps calls whole.
	Record bool
	// Seed chooses which calls a share of faults hits.
	Seed uint64
	// Access says who may call the API server, and Argo Server, which hands the
	// caller's token on. The zero value lets everybody call the API server.
	// https://argo-workflows.readthedocs.io/en/latest/argo-server-auth-mode/
	Access kube.Access
}

// Knobs change how Argo behaves, at any time.
type Knobs struct {
	// NoExitCode has the controller report no codes.
	NoExitCode bool
	// CollectPods has the controller delete each pod once it has ended.
	CollectPods bool
	// Asleep has the controller look at nothing.
	Asleep bool
	// Postponed keeps Workflows from being begun, with these words.
	Postponed string
	// Archive keeps Workflows that have ended beyond their deletion, for Argo Server.
	// https://argo-workflows.readthedocs.io/en/latest/workflow-archive/
	Archive bool
	// WaitEnds is how long Argo's own container takes to end once it is told to: what
	// the job does later is seen no more. Zero is 150 milliseconds.
	WaitEnds time.Duration
	// Unit is how long a second of a time to live takes; zero is a second.
	Unit time.Duration
}

// Server is an API server with Argo's controller, and Argo Server. It is safe for
// concurrent use.
type Server struct {
	cluster *kube.Server
	access  kube.Access
	serve   fault.Server

	// ctx ends with the server; all are what it waits for.
	ctx  context.Context //nolint:containedctx // the server's own life, ended by Close
	stop context.CancelFunc
	all  sync.WaitGroup

	mu    sync.Mutex
	knobs Knobs
	poke  chan struct{}
	// kept has the archived output of each Workflow, by UID; archive the Workflows that
	// were deleted after they had ended.
	kept    map[string][]byte
	archive map[string]*workflow
	// told is when each Workflow was first seen to be told to end.
	told map[string]time.Time
	// furthest is how far any stream of a Workflow's log has come, in bytes.
	furthest map[string]int
}

var (
	_ http.Handler = (*Server)(nil)
	_ io.Closer    = (*Server)(nil)
)

const plural = "workflows"

// New returns a cluster without objects.
func New(o Options) *Server {
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{ctx: ctx, stop: stop, poke: make(chan struct{}, 1), kept: map[string][]byte{}, archive: map[string]*workflow{}, furthest: map[string]int{}, told: map[string]time.Time{}}
	s.cluster = kube.New(kube.Options{Executor: emissary{o.Executor, s}, Record: o.Record, Seed: o.Seed, Access: o.Access, Kinds: map[string]kube.Kind{
		plural: {Group: "argoproj.io/v1alpha1", Name: "Workflow", New: func() metav1.Object { return &workflow{} }, Check: check},
	}})
	s.serve = fault.Server{Plan: s.cluster.Faults(), Recorder: s.cluster.Calls(), Now: time.Now}
	if s.access = o.Access; s.access == (kube.Access{}) {
		s.access.Token = Token
	}
	s.all.Go(s.control)
	return s
}

// Close ends what runs.
func (s *Server) Close() error {
	s.stop()
	s.all.Wait()
	return s.cluster.Close()
}

// Cluster is the API server.
func (s *Server) Cluster() *kube.Server { return s.cluster }

// ServeHTTP implements http.Handler: Argo Server's paths, and the Kubernetes API's.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c, ok := parse(r); ok {
		s.rest(w, r, c)
		return
	}
	s.cluster.ServeHTTP(w, r)
}

// TuneKnobs changes the knobs.
func (s *Server) TuneKnobs(f func(k *Knobs)) {
	s.mu.Lock()
	f(&s.knobs)
	s.mu.Unlock()
	s.wake()
}

func (s *Server) wake() {
	select {
	case s.poke <- struct{}{}:
	default: // it will look anyway
	}
}

func (s *Server) tuned() Knobs {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.knobs
}

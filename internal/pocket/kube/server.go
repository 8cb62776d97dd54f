package kube

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/run"
)

// Namespace is the only namespace that there is.
const Namespace = "jobs"

// Options say how a server is made.
type Options struct {
	// Executor runs the containers; the server closes it.
	Executor run.Executor
	// Record keeps calls whole.
	Record bool
	// Seed chooses which calls a share of faults hits.
	Seed uint64
	// Kinds are what is served besides, by the plural.
	Kinds map[string]Kind
	// Access says who may call; the zero value lets everybody in.
	Access Access
	// Whose, where it isn't nil, says it instead, as the webhook of a cloud does.
	Whose func(r *http.Request) Right
}

// Knobs change how the server behaves, at any time.
type Knobs struct {
	// Unit is how long a second of a pod's deadline takes; zero is a second.
	Unit time.Duration
	// StartDelay is how long a pod waits for its node.
	StartDelay time.Duration
	// Unschedulable keeps pods from a node, with these words of the scheduler.
	Unschedulable string
	// NoImage has no image be found, with this reason.
	NoImage string
	// OOMImage is an image in whose containers the kernel has always killed a process
	// for its memory, whatever their code.
	OOMImage string
	// FailsEarly calls a pod failed at its deadline, while its container still has its
	// grace, as a real kubelet may be seen to do.
	FailsEarly bool
	// WatchFor closes each watch after so long; zero leaves it open.
	WatchFor time.Duration
	// Forget has watches from before now answer 410, as a compacted server does:
	// those that are opened by an ERROR event instead where ForgetByEvent is set.
	Forget, ForgetByEvent bool
	// NodeClock is how far the node's clock is ahead of the API server's: stamps of logs
	// and the times of containers are its. NodeClockStep is added to it before each
	// line, so that a log takes long without a wait.
	NodeClock, NodeClockStep time.Duration
	// StderrEarly is by how much lines of stderr are stamped before they are written.
	StderrEarly time.Duration
	// LogCut cuts a log's streams after so many bytes that none has had before.
	LogCut int
	// Denied are rights that access reviews deny: "create jobs.batch". Of the rest
	// "get namespaces" and the like are denied in earnest.
	Denied []string
	// Terminating has the namespace be deleted for ever.
	Terminating bool
	// Quota refuses Jobs for a used up quota.
	Quota bool
}

// Server is the API server. It is safe for concurrent use.
type Server struct {
	serve fault.Server
	plan  *fault.Plan
	calls *fault.Recorder
	exec  run.Executor
	// access is who may call, life what tells this server's objects from another's.
	access func(r *http.Request) Right
	life   uint32

	// ctx ends with the server; all are what it waits for.
	ctx  context.Context //nolint:containedctx // the server's own life, ended by Close
	stop context.CancelFunc
	all  sync.WaitGroup

	mu      sync.Mutex
	knobs   Knobs
	version int64
	oldest  int64
	objects map[string]map[string]object
	history []event
	// changed is closed and made anew at each change.
	changed chan struct{}
	kinds   map[string]resource
	pods    map[string]*podLife
	logs    map[string]*podLog
	serial  int
	cuts    int
	// made counts the pods of each Job.
	made map[types.UID]int
}

var (
	_ http.Handler = (*Server)(nil)
	_ io.Closer    = (*Server)(nil)
)

// New returns a server without objects. Its versions are above those of a server that
// was there before, whose places are forgotten.
func New(o Options) *Server {
	ctx, stop := context.WithCancel(context.Background())
	version := time.Now().UnixMilli()
	s := &Server{plan: fault.NewPlan(o.Seed), calls: fault.NewRecorder(o.Record), exec: o.Executor, ctx: ctx, stop: stop,
		access: o.right(), life: rand.Uint32(), version: version, oldest: version, kinds: kindsOf(o.Kinds), objects: map[string]map[string]object{}, changed: make(chan struct{}), pods: map[string]*podLife{}, logs: map[string]*podLog{}, made: map[types.UID]int{}}
	s.serve = fault.Server{Plan: s.plan, Recorder: s.calls, Now: time.Now}
	return s
}

// right is who may call.
func (o Options) right() func(r *http.Request) Right {
	if o.Whose != nil {
		return o.Whose
	}
	return o.Access.Of
}

// Close ends what runs.
func (s *Server) Close() error {
	s.stop()
	err := s.exec.Close()
	s.all.Wait()
	return err
}

// Faults is the plan of faults; actions are named "jobs.create", "pods.log",
// "pods.watch".
func (s *Server) Faults() *fault.Plan { return s.plan }

// Calls records the calls.
func (s *Server) Calls() *fault.Recorder { return s.calls }

// TuneKnobs changes the knobs.
func (s *Server) TuneKnobs(f func(k *Knobs)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.knobs)
	if s.knobs.Forget {
		s.oldest, s.knobs.Forget = s.version+1, false
		s.version++
	}
	s.wake()
	for _, l := range s.pods {
		l.poke()
	}
}

// Throttle is the answer to a call too many.
// https://kubernetes.io/docs/concepts/cluster-administration/flow-control/
func Throttle() *fault.Refusal {
	return &fault.Refusal{Status: http.StatusTooManyRequests, Code: "TooManyRequests", Message: "too many requests, please try again later", RetryAfter: time.Second}
}

// wake tells watchers and followers of a change.
func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

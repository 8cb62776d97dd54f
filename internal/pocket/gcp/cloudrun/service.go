package cloudrun

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudlogging"
	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
	"github.com/windlass-run/windlass/internal/pocket/run"
)

// Options are what the service needs of its surroundings.
type Options struct {
	Project  gapi.Project
	Location string
	// Policy is what the caller may do; nil allows everything.
	Policy *gapi.Policy
	// Now is the cloud's clock.
	Now func() time.Time
	// NewID returns 32 hexadecimal digits, new each time; nil means random
	// ones.
	NewID func() string
	// Caller is the e-mail address of whoever calls.
	Caller string
	// Executor runs the containers. The service doesn't close it.
	Executor run.Executor
	// Logs gets what containers write; nil drops it.
	Logs *cloudlogging.Service
	// Secret reads a version of a secret, which is named by its ID or
	// projects/*/secrets/*.
	Secret func(secret, version string) ([]byte, error)
}

// Service is Cloud Run of one project and location.
type Service struct {
	o Options

	mu         sync.Mutex
	jobs       map[string]*job    // by ID
	services   map[string]*hosted // by ID
	operations []*operation       // by age
	byName     map[string]*operation
	knobs      Knobs
	mishaps    []*Mishap
	changes    int64 // for etags
	running    int   // executions that haven't ended
	closed     bool
	sampler    sampler
	lives      sync.WaitGroup
	end        chan struct{} // closed by Close
}

// job is a job with its executions.
type job struct {
	id         string
	view       *runpb.Job
	born       time.Time
	executions []*execution // by age
	deleting   bool
}

// execution is one run of a job.
type execution struct {
	id       string
	job      *job
	view     *runpb.Execution
	born     time.Time
	key      string // by which lists are sorted
	tasks    []*task
	mishap   Mishap
	pace     Pace
	grace    time.Duration
	parallel int           // 0 for as many as can be
	late     time.Duration // past a task's time-out
	op       *operation    // of RunJob

	cancelled bool
	cancel    chan struct{} // closed by the first cancellation
	done      chan struct{} // closed at the end
}

// task is one of an execution's tasks.
type task struct {
	index int
	view  *runpb.Task
}

// New returns the service.
func New(o Options) *Service {
	if o.NewID == nil {
		o.NewID = randomID
	}
	return &Service{o: o, jobs: map[string]*job{}, services: map[string]*hosted{}, byName: map[string]*operation{}, knobs: DefaultKnobs(), end: make(chan struct{})}
}

// Register offers the services of the API.
func (s *Service) Register(g grpc.ServiceRegistrar) {
	runpb.RegisterJobsServer(g, jobsAPI{s: s})
	runpb.RegisterExecutionsServer(g, executionsAPI{s: s})
	runpb.RegisterTasksServer(g, tasksAPI{s: s})
	runpb.RegisterServicesServer(g, servicesAPI{s: s})
	runpb.RegisterRevisionsServer(g, revisionsAPI{s: s})
	longrunningpb.RegisterOperationsServer(g, operationsAPI{s: s})
}

// The services are structs of their own, because some methods have the same
// name.
type (
	jobsAPI struct {
		runpb.UnimplementedJobsServer
		s *Service
	}
	executionsAPI struct {
		runpb.UnimplementedExecutionsServer
		s *Service
	}
	tasksAPI struct {
		runpb.UnimplementedTasksServer
		s *Service
	}
	servicesAPI struct {
		runpb.UnimplementedServicesServer
		s *Service
	}
	revisionsAPI struct {
		runpb.UnimplementedRevisionsServer
		s *Service
	}
	operationsAPI struct {
		longrunningpb.UnimplementedOperationsServer
		s *Service
	}
)

// Close ends every task and instance, as by a KILL, and waits until none is left.
// Calls that come later see ended executions, and RunJob is refused.
func (s *Service) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.end)
	}
	s.mu.Unlock()
	s.lives.Wait()
}

// live runs f in the background unless the service is closed. The lock is held.
func (s *Service) live(f func()) bool {
	if s.closed {
		return false
	}
	s.lives.Go(f)
	return true
}

// stamp is the time now.
func (s *Service) stamp() *timestamppb.Timestamp { return timestamppb.New(s.o.Now()) }

// etag returns a new one. The lock is held.
func (s *Service) etag() string {
	s.changes++
	return fmt.Sprintf("%q", fmt.Sprintf("%x-%x", s.o.Now().UnixMicro(), s.changes))
}

func (s *Service) uuid() string {
	id := s.o.NewID()
	return id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}

func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// pause lets time pass. It returns false at once when the service closes.
func (s *Service) pause(d time.Duration) bool {
	if d <= 0 {
		select {
		case <-s.end:
			return false
		default:
			return true
		}
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.end:
		return false
	}
}

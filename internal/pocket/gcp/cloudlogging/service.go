package cloudlogging

import (
	"sync"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"
	"google.golang.org/grpc"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// Options are what the service needs of its surroundings.
type Options struct {
	Project gapi.Project
	// Policy is what the caller may do; nil allows everything.
	Policy *gapi.Policy
	// Now is the cloud's clock.
	Now func() time.Time
}

// Service is Cloud Logging of one project.
type Service struct {
	loggingpb.UnimplementedLoggingServiceV2Server
	o Options

	mu      sync.Mutex
	knobs   Knobs
	entries []*entry // by position
	written int64
	window  time.Time // the minute whose reads are counted
	reads   int
}

// New returns the service.
func New(o Options) *Service { return &Service{o: o, knobs: DefaultKnobs()} }

// Register offers the service.
func (s *Service) Register(g grpc.ServiceRegistrar) {
	loggingpb.RegisterLoggingServiceV2Server(g, s)
}

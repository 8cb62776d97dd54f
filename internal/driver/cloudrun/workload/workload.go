// Package workload operates the services of Cloud Run for the driver cloudrun.
//
// Every change is one UpdateService of the service as it was just read, under that
// read's etag, with the operation's ID as an annotation: nothing can come between,
// and what this program doesn't know of the service stays as it is. The name of the
// template's revision is cleared, since the platform refuses any change under the
// name of a revision that is there, also one that makes none.
// https://github.com/googleapis/google-cloud-python/issues/14259
package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"sync"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"
	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"cloud.google.com/go/run/apiv2/runpb"

	"github.com/windlass-run/windlass/internal/cloud/gcp"
	"github.com/windlass-run/windlass/internal/cloud/gcp/logtail"
	"github.com/windlass-run/windlass/internal/driver/glance"
	"github.com/windlass-run/windlass/internal/driver/turn"
	"github.com/windlass-run/windlass/sdk"
)

// Annotations that are left on a service.
const (
	// annotationOp has the last operation's ID.
	annotationOp = "windlass.run/op"
	// annotationRestores is how many instances a start brings back, or "automatic"
	// with the bounds of the service's own autoscaling.
	annotationRestores = "windlass.run/restores"
	// annotationRestarted, of the template, names the operation that replaced the
	// instances.
	annotationRestarted = "windlass.run/restarted"
)

// Placement is what the provider's config and a spec's options say of where a
// service runs, and as whom.
type Placement struct {
	ServiceAccount string
	VPC            *runpb.VpcAccess
	Labels         map[string]string
}

// Region is where the services are.
type Region struct {
	// Provider is what errors are of.
	Provider string
	Session  *gcp.Session
	Services runpb.ServicesClient
	// Revisions are asked for why a service doesn't come up, and for the limits of
	// its containers.
	Revisions runpb.RevisionsClient
	Logs      loggingpb.LoggingServiceV2Client
	Metrics   monitoringpb.MetricServiceClient
	// Reads, Writes, LogReads and MetricReads are the budgets of calls.
	Reads, Writes, LogReads, MetricReads *gcp.Budget
	Reader                               *logtail.Reader
	// Late is how long a line of output waits for older ones.
	Late  time.Duration
	Clock sdk.Clock
	// Place reads a spec's options.
	Place func(options json.RawMessage) (Placement, []sdk.Problem)
}

// Workloads has the capabilities of live workloads. It is safe for concurrent use.
type Workloads struct {
	r      Region
	limits limits
	// recent are services as a status has just read them.
	recent glance.Glances[string, *runpb.Service]
}

var (
	_ sdk.WorkloadLister   = (*Workloads)(nil)
	_ sdk.WorkloadStatuser = (*Workloads)(nil)
	_ sdk.Starter          = (*Workloads)(nil)
	_ sdk.Stopper          = (*Workloads)(nil)
	_ sdk.Scaler           = (*Workloads)(nil)
	_ sdk.Restarter        = (*Workloads)(nil)
	_ sdk.Configurer       = (*Workloads)(nil)
	_ sdk.LogTailer        = (*Workloads)(nil)
	_ sdk.MetricStreamer   = (*Workloads)(nil)
)

// In returns the workloads of a region.
func In(r Region) *Workloads { return &Workloads{r: r} }

// warms is for how long a new instance may have no measurements: they are taken
// each minute, and can be read up to two minutes later.
// https://cloud.google.com/monitoring/api/metrics_gcp_p_z#gcp-run
const warms = 3 * time.Minute

// Guarantees is what live workloads on Cloud Run give. There is no exec: the API
// has none. A stop is the manual count of zero, by which Google tells to disable a
// service: https://cloud.google.com/run/docs/managing/services#disable
func Guarantees() sdk.WorkloadGuarantees {
	return sdk.WorkloadGuarantees{
		// A service is read by its name. That an answer is never stale is ours to
		// assume; where it were, the etag of a stale read would be refused.
		Ops:      sdk.OpGuarantee{By: sdk.OpOnObject},
		Compares: true,
		// A new revision gets the traffic once it is ready.
		// https://cloud.google.com/run/docs/rollouts-rollbacks-traffic-migration
		Restart:  sdk.RestartRolling,
		Stop:     sdk.StopZero,
		Failures: true,
		Warms:    warms,
	}
}

// serviceID is the form of a service's name.
// https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.services/create
var serviceID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z]([-a-z0-9]{0,47}[a-z0-9])?$`) })

// parse reads REGION/SERVICE, and refuses under a context that has ended.
func (w *Workloads) parse(ctx context.Context, op string, path sdk.WorkloadPath) (id string, err error) {
	if err := ctx.Err(); err != nil {
		return "", &sdk.Error{Code: sdk.CodeOf(err), Op: op, Provider: w.r.Provider, Err: err}
	}
	if err := path.Check(); err != nil {
		return "", err
	}
	seg := path.Segments()
	bad := func(remedy, format string, args ...any) error {
		e := w.fail(sdk.InvalidArgument, op, format, args...)
		e.Field, e.Remedy = "target", remedy
		return e
	}
	const asListed = "write PROVIDER/REGION/SERVICE as `windlass svc ls` prints it"
	switch {
	case len(seg) != 2:
		return "", bad(asListed, "%q is not REGION/SERVICE", path)
	case seg[0] != w.r.Session.Region:
		return "", bad("take a provider of that region", "%s is not in the region %s of provider %s", path, w.r.Session.Region, w.r.Provider)
	case !serviceID().MatchString(seg[1]):
		return "", bad(asListed, "%q is no name of a service: up to 49 lowercase letters, digits and hyphens, a letter first", seg[1])
	}
	return seg[1], nil
}

func (w *Workloads) pathOf(id string) sdk.WorkloadPath {
	return sdk.WorkloadPath(w.r.Session.Region + "/" + id)
}

func (w *Workloads) serviceName(id string) string { return w.r.Session.Location() + "/services/" + id }

func (w *Workloads) fail(code sdk.Code, op, format string, args ...any) *sdk.Error {
	return &sdk.Error{Code: code, Op: op, Provider: w.r.Provider, Err: fmt.Errorf(format, args...)}
}

// call makes a call when its budget allows.
func call[R any](ctx context.Context, w *Workloads, b *gcp.Budget, op string, f func(ctx context.Context) (R, error)) (R, error) {
	return turn.Call(ctx, w.r.Provider, w.r.Session, b, op, f)
}

// get reads a service. One that is being deleted is no longer there.
func (w *Workloads) get(ctx context.Context, op, id string) (*runpb.Service, error) {
	v, err := call(ctx, w, w.r.Reads, op, func(ctx context.Context) (*runpb.Service, error) {
		return w.r.Services.GetService(ctx, &runpb.GetServiceRequest{Name: w.serviceName(id)})
	})
	if err != nil {
		return nil, err
	}
	if v.GetDeleteTime() != nil {
		return nil, w.fail(sdk.NotFound, op, "the service %s is being deleted", id)
	}
	return v, nil
}

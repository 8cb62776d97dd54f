// Package cloudmonitoring is the pocket Cloud Monitoring, as far as the metrics of
// Cloud Run's services go: what their instances really used.
package cloudmonitoring

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"google.golang.org/genproto/googleapis/api/distribution"
	"google.golang.org/genproto/googleapis/api/metric"
	"google.golang.org/genproto/googleapis/api/monitoredres"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudrun"
	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// Options are what the service needs of its surroundings.
type Options struct {
	Project  gapi.Project
	Location string
	// Policy is what the caller may do; nil allows everything.
	Policy *gapi.Policy
	// Now is the cloud's clock.
	Now func() time.Time
	// Source gives what was measured between two times, oldest first.
	Source func(from, to time.Time) []cloudrun.Measurement
}

// Service is Cloud Monitoring of one project.
type Service struct {
	monitoringpb.UnimplementedMetricServiceServer
	o Options

	mu    sync.Mutex
	knobs Knobs
}

// Knobs make the service behave as it may.
type Knobs struct {
	// Delay is how long a point can't be read yet; the real one is up to two
	// minutes: https://cloud.google.com/monitoring/api/metrics_gcp_p_z#gcp-run
	Delay time.Duration
}

// New returns the service.
func New(o Options) *Service { return &Service{o: o} }

// Register offers the service.
func (s *Service) Register(g grpc.ServiceRegistrar) {
	monitoringpb.RegisterMetricServiceServer(g, s)
}

// SetKnobs changes the behaviour for what comes after.
func (s *Service) SetKnobs(k Knobs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.knobs = k
}

// The metrics of services that there are:
// https://cloud.google.com/monitoring/api/metrics_gcp_p_z#gcp-run
const (
	prefix    = "run.googleapis.com/container/"
	instances = prefix + "instance_count"
	cpu       = prefix + "cpu/utilizations"
	memory    = prefix + "memory/utilizations"
)

const revisionType = "cloud_run_revision"

// The sizes of pages: https://cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.timeSeries/list
const (
	standardPage = 100_000
	maxPage      = 100_000
)

// ListTimeSeries gives the points of one metric.
func (s *Service) ListTimeSeries(_ context.Context, r *monitoringpb.ListTimeSeriesRequest) (*monitoringpb.ListTimeSeriesResponse, error) {
	values, ok := gapi.Segments(r.Name, "projects/*")
	if !ok {
		return nil, refuse(ruleName, "Name must be projects/PROJECT, not %q.", r.Name)
	}
	if !s.o.Project.Is(values[0]) {
		return nil, gapi.PermissionDenied("monitoring.timeSeries.list", r.Name)
	}
	if err := s.o.Policy.Check("monitoring.timeSeries.list", r.Name); err != nil {
		return nil, err
	}
	if r.Aggregation != nil || r.SecondaryAggregation != nil || r.OrderBy != "" {
		return nil, refuse(ruleUnsupported, "The pocket cloud aligns, reduces and orders no time series.")
	}
	from, to := r.GetInterval().GetStartTime(), r.GetInterval().GetEndTime()
	if to == nil || from != nil && from.AsTime().After(to.AsTime()) || r.PageSize < 0 {
		return nil, refuse(ruleInterval, "Field interval.end_time is needed, and not before its start; page_size isn't negative.")
	}
	begin := to.AsTime().Add(-time.Nanosecond) // a start that is left out is the end
	if from != nil {
		begin = from.AsTime()
	}
	f, err := parseFilter(r.Filter)
	if err != nil {
		return nil, refuse(ruleFilter, "%v", err)
	}
	types := f["metric.type"]
	if types.single() == "" {
		return nil, refuse(ruleFilter, "Field filter must specify a single metric.type.")
	}
	list := s.series(types.single(), f, begin, to.AsTime())
	key := func(t *monitoringpb.TimeSeries) string {
		return t.Resource.Labels["service_name"] + "/" + t.Resource.Labels["revision_name"] + "/" + t.Metric.Labels["state"]
	}
	slices.SortFunc(list, func(a, b *monitoringpb.TimeSeries) int { return strings.Compare(key(a), key(b)) })
	page, next, err := gapi.Page(list, key, gapi.Size(r.PageSize, standardPage, maxPage, 0), r.PageToken, r.Name, r.Filter)
	if err != nil {
		return nil, err
	}
	if r.View == monitoringpb.ListTimeSeriesRequest_HEADERS {
		for _, t := range page {
			t.Points = nil
		}
	}
	return &monitoringpb.ListTimeSeriesResponse{TimeSeries: page, NextPageToken: next}, nil
}

// series makes the series of a metric, their newest points first.
func (s *Service) series(kind string, f filter, from, to time.Time) []*monitoringpb.TimeSeries {
	s.mu.Lock()
	delay := s.knobs.Delay
	s.mu.Unlock()
	if seen := s.o.Now().Add(-delay); to.After(seen) {
		to = seen
	}
	byKey := map[string]*monitoringpb.TimeSeries{}
	var out []*monitoringpb.TimeSeries
	all := s.o.Source(from, to)
	slices.Reverse(all)
	for _, m := range all {
		resource := map[string]string{"project_id": s.o.Project.ID, "location": s.o.Location, "service_name": m.Service, "revision_name": m.Revision, "configuration_name": m.Service}
		for _, p := range points(kind, m) {
			labels := map[string]string{}
			if p.state != "" {
				labels["state"] = p.state
			}
			if !f.fits(kind, labels, resource) {
				continue
			}
			key := m.Service + "/" + m.Revision + "/" + p.state
			t := byKey[key]
			if t == nil {
				t = &monitoringpb.TimeSeries{Metric: &metric.Metric{Type: kind, Labels: labels}, Resource: &monitoredres.MonitoredResource{Type: revisionType, Labels: resource},
					MetricKind: metric.MetricDescriptor_DELTA, ValueType: metric.MetricDescriptor_DISTRIBUTION}
				if kind == instances {
					t.MetricKind, t.ValueType = metric.MetricDescriptor_GAUGE, metric.MetricDescriptor_INT64
				}
				byKey[key] = t
				out = append(out, t)
			}
			at := timestamppb.New(m.At)
			t.Points = append(t.Points, &monitoringpb.Point{Interval: &monitoringpb.TimeInterval{StartTime: at, EndTime: at}, Value: p.value})
		}
	}
	return out
}

// point is a value, and what state of instances it is of.
type point struct {
	state string
	value *monitoringpb.TypedValue
}

// points are what a measurement says of a metric.
func points(kind string, m cloudrun.Measurement) []point {
	count := func(n int) *monitoringpb.TypedValue {
		return &monitoringpb.TypedValue{Value: &monitoringpb.TypedValue_Int64Value{Int64Value: int64(n)}}
	}
	switch kind {
	case instances:
		// Without requests all are idle.
		return []point{{"active", count(0)}, {"idle", count(m.Instances)}}
	case cpu:
		return spread(m.CPU)
	case memory:
		return spread(m.Memory)
	}
	return nil
}

// spread is the distribution of a metric over instances.
func spread(values []float64) []point {
	if len(values) == 0 {
		return nil
	}
	d := &distribution.Distribution{Count: int64(len(values)), Range: &distribution.Distribution_Range{Min: slices.MinFunc(values, cmp.Compare), Max: slices.MaxFunc(values, cmp.Compare)}}
	for _, v := range values {
		d.Mean += v / float64(len(values))
	}
	for _, v := range values {
		d.SumOfSquaredDeviation += (v - d.Mean) * (v - d.Mean)
	}
	return []point{{value: &monitoringpb.TypedValue{Value: &monitoringpb.TypedValue_DistributionValue{DistributionValue: d}}}}
}

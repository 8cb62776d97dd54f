package workload

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/windlass-run/windlass/internal/cloud/gcp"
	"github.com/windlass-run/windlass/sdk"
)

const (
	opMetrics = "measure services"

	// standardInterval is how often Cloud Run measures.
	// https://cloud.google.com/monitoring/api/metrics_gcp_p_z#gcp-run
	standardInterval = time.Minute
	// lookBack is how old the newest point may be: older ones tell of the past.
	lookBack = 5 * time.Minute
	// together is how many services one query is for: a filter has up to 2,048
	// characters in an address, and a service's name up to 49.
	together = 30

	metricInstances = "run.googleapis.com/container/instance_count"
	metricCPU       = "run.googleapis.com/container/cpu/utilizations"
	metricMemory    = "run.googleapis.com/container/memory/utilizations"
)

// StreamMetrics implements sdk.MetricStreamer. Cloud Monitoring has no measures of
// single instances, only how they are spread over all of a revision: a sample is of
// the whole service, the mean of its instances times their number.
func (w *Workloads) StreamMetrics(ctx context.Context, r sdk.StreamMetricsRequest) iter.Seq2[sdk.MetricItem, error] {
	return func(yield func(sdk.MetricItem, error) bool) {
		every := cmp.Or(r.Interval, standardInterval)
		last := map[sdk.WorkloadPath]time.Time{}
		for {
			if err := ctx.Err(); err != nil {
				yield(sdk.MetricItem{}, &sdk.Error{Code: sdk.CodeOf(err), Op: opMetrics, Provider: w.r.Provider, Err: err})
				return
			}
			for group := range slices.Chunk(r.Paths, together) {
				for _, it := range w.measure(ctx, group) {
					if it.Sample != nil && !it.Sample.At.After(last[it.Path]) {
						continue // told before
					}
					if it.Sample != nil {
						last[it.Path] = it.Sample.At
					}
					if ctx.Err() == nil && !yield(it, nil) {
						return
					}
				}
			}
			if ctx.Err() == nil {
				_ = w.r.Clock.Sleep(ctx, every) // its error is the context's
			}
		}
	}
}

// measure gives one item for each workload.
func (w *Workloads) measure(ctx context.Context, paths []sdk.WorkloadPath) []sdk.MetricItem {
	out := make([]sdk.MetricItem, len(paths))
	var names []string
	ids := make([]string, len(paths))
	for i, p := range paths {
		out[i].Path = p
		if ids[i], out[i].Failed = w.parse(ctx, opMetrics, p); out[i].Failed == nil {
			names = append(names, ids[i])
		}
	}
	if len(names) == 0 {
		return out
	}
	got, err := w.points(ctx, names)
	for i := range out {
		it := &out[i]
		switch {
		case it.Failed != nil:
		case err != nil:
			it.Failed = err
		default:
			if it.Sample, it.Failed = w.sample(ctx, ids[i], got); it.Sample == nil && it.Failed == nil {
				it.Warming, it.Failed = w.warming(ctx, ids[i])
			}
		}
	}
	return out
}

// warming says why a service has no sample yet.
func (w *Workloads) warming(ctx context.Context, id string) (string, error) {
	v, err := w.get(ctx, opMetrics, id)
	switch {
	case err != nil:
		return "", err
	case manual(v) && v.GetScaling().GetManualInstanceCount() == 0:
		return "the service has no instances", nil
	case !manual(v):
		return "Cloud Monitoring has no measures of the last minutes: the service may have no instances without requests", nil
	}
	return fmt.Sprintf("Cloud Monitoring has no measures yet: they come up to %s after an instance's start", warms), nil
}

// measured are the newest points of one revision.
type measured struct {
	service, revision string
	at                time.Time
	instances         int64
	// cpu and memory are the mean parts of the limits that an instance uses, by
	// container.
	cpu, memory map[string]float64
}

// points reads the newest points of services, by revision.
func (w *Workloads) points(ctx context.Context, names []string) (map[string]*measured, error) {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	now := w.r.Clock.Now()
	out := map[string]*measured{}
	for _, kind := range []string{metricInstances, metricCPU, metricMemory} {
		req := &monitoringpb.ListTimeSeriesRequest{Name: "projects/" + w.r.Session.Project, View: monitoringpb.ListTimeSeriesRequest_FULL,
			Interval: &monitoringpb.TimeInterval{StartTime: timestamppb.New(now.Add(-lookBack)), EndTime: timestamppb.New(now)},
			Filter: fmt.Sprintf(`metric.type = %q AND resource.type = "cloud_run_revision" AND resource.labels.location = %q AND resource.labels.service_name = one_of(%s)`,
				kind, w.r.Session.Region, strings.Join(quoted, ", "))}
		for {
			page, err := call(ctx, w, w.r.MetricReads, opMetrics, func(ctx context.Context) (*monitoringpb.ListTimeSeriesResponse, error) {
				return w.r.Metrics.ListTimeSeries(ctx, req)
			})
			if err != nil {
				return nil, err
			}
			for _, t := range page.GetTimeSeries() {
				take(out, kind, t)
			}
			if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
				break
			}
		}
	}
	return out, nil
}

// take adds a series' newest point. The counts are apart for instances that have
// requests, and that have none.
func take(out map[string]*measured, kind string, t *monitoringpb.TimeSeries) {
	if len(t.GetPoints()) == 0 {
		return
	}
	p := slices.MaxFunc(t.GetPoints(), func(a, b *monitoringpb.Point) int { return endOf(a).Compare(endOf(b)) })
	labels := t.GetResource().GetLabels()
	key := labels["service_name"] + "/" + labels["revision_name"]
	m := out[key]
	if m == nil {
		m = &measured{service: labels["service_name"], revision: labels["revision_name"], cpu: map[string]float64{}, memory: map[string]float64{}}
		out[key] = m
	}
	container := t.GetMetric().GetLabels()["container_name"]
	switch d := p.GetValue().GetDistributionValue(); {
	case kind == metricInstances:
		m.instances += p.GetValue().GetInt64Value()
	case d.GetCount() == 0:
	case kind == metricCPU:
		m.cpu[container] = d.GetMean()
	default:
		m.memory[container] = d.GetMean()
		if at := endOf(p); at.After(m.at) {
			m.at = at
		}
	}
}

func endOf(p *monitoringpb.Point) time.Time { return p.GetInterval().GetEndTime().AsTime() }

// sample sums up a service's revisions, nil where nothing was measured.
func (w *Workloads) sample(ctx context.Context, id string, got map[string]*measured) (*sdk.MetricSample, error) {
	var out *sdk.MetricSample
	add := func(to **int64, n float64) {
		if *to == nil {
			*to = new(int64)
		}
		**to += int64(n)
	}
	for _, m := range got {
		if m.service != id || m.instances == 0 || len(m.memory) == 0 {
			continue
		}
		size, err := w.limits.of(ctx, w, m)
		if sdk.CodeOf(err) == sdk.NotFound {
			continue // the revision has gone since
		}
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = &sdk.MetricSample{}
		}
		if m.at.After(out.At) {
			out.At = m.at
		}
		for name, part := range m.memory {
			if used := part * float64(size.of(name).memory) * float64(m.instances); used > 0 {
				add(&out.Memory, used)
			}
		}
		for name, part := range m.cpu {
			add(&out.CPU, part*float64(size.of(name).cpu)*float64(m.instances))
		}
	}
	if out != nil && out.Memory == nil {
		return nil, nil // without limits nothing can be said
	}
	return out, nil
}

// sizes are the limits of a revision's containers, by name.
type sizes map[string]limit

// limit is in thousandths of a core, and bytes.
type limit struct{ cpu, memory int64 }

// of returns a container's. A single one may go without its name.
func (s sizes) of(name string) limit {
	l, ok := s[name]
	if !ok && len(s) == 1 {
		for _, l := range s {
			return l
		}
	}
	return l
}

// limits remembers those of revisions, which never change. The zero value is ready.
type limits struct {
	mu sync.Mutex
	m  map[string]sizes
}

// maxLimits bounds the memory: past it all is read anew.
const maxLimits = 10_000

func (l *limits) of(ctx context.Context, w *Workloads, m *measured) (sizes, error) {
	key := m.service + "/" + m.revision
	l.mu.Lock()
	known, ok := l.m[key]
	l.mu.Unlock()
	if ok {
		return known, nil
	}
	rev, err := call(ctx, w, w.r.Reads, opMetrics, func(ctx context.Context) (*runpb.Revision, error) {
		return w.r.Revisions.GetRevision(ctx, &runpb.GetRevisionRequest{Name: w.serviceName(m.service) + "/revisions/" + m.revision})
	})
	if err != nil {
		return nil, err
	}
	out := sizes{}
	for _, c := range rev.GetContainers() {
		have := c.GetResources().GetLimits()
		out[c.GetName()] = limit{cpu: gcp.Quantity(have["cpu"], 1000), memory: gcp.Quantity(have["memory"], 1)}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m == nil || len(l.m) >= maxLimits {
		l.m = map[string]sizes{}
	}
	l.m[key] = out
	return out, nil
}

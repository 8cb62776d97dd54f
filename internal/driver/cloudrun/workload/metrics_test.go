package workload

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"cloud.google.com/go/run/apiv2/runpb"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/api/distribution"
	"google.golang.org/genproto/googleapis/api/metric"
	"google.golang.org/genproto/googleapis/api/monitoredres"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/windlass-run/windlass/internal/cloud/gcp"
	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// monitor is Cloud Monitoring and Cloud Run of two services, web and its like.
type monitor struct {
	runpb.ServicesClient
	runpb.RevisionsClient
	monitoringpb.MetricServiceClient
	// points gives the points of a metric, by revision.
	points func(kind string) map[string]*monitoringpb.TypedValue
	at     func() time.Time
	fails  error
	// revisions counts reads of revisions.
	revisions int
}

func (m *monitor) ListTimeSeries(_ context.Context, r *monitoringpb.ListTimeSeriesRequest, _ ...grpc.CallOption) (*monitoringpb.ListTimeSeriesResponse, error) {
	if m.fails != nil {
		return nil, m.fails
	}
	kind, _, _ := strings.Cut(strings.TrimPrefix(r.Filter, `metric.type = "`), `"`)
	out := &monitoringpb.ListTimeSeriesResponse{}
	for revision, v := range m.points(kind) {
		at, old := timestamppb.New(m.at()), timestamppb.New(m.at().Add(-time.Minute))
		none := &monitoringpb.TypedValue{Value: &monitoringpb.TypedValue_DistributionValue{DistributionValue: &distribution.Distribution{}}}
		out.TimeSeries = append(out.TimeSeries, &monitoringpb.TimeSeries{Metric: &metric.Metric{Type: kind},
			Resource: &monitoredres.MonitoredResource{Labels: map[string]string{"service_name": "web", "revision_name": revision}},
			Points:   []*monitoringpb.Point{{Interval: &monitoringpb.TimeInterval{EndTime: at}, Value: v}, {Interval: &monitoringpb.TimeInterval{EndTime: old}, Value: none}}})
	}
	return out, nil
}

func (m *monitor) GetService(_ context.Context, r *runpb.GetServiceRequest, _ ...grpc.CallOption) (*runpb.Service, error) {
	if strings.HasSuffix(r.Name, "/none") {
		return nil, status.Error(codes.NotFound, "there is none")
	}
	n := int32(2)
	return &runpb.Service{Name: r.Name, Scaling: &runpb.ServiceScaling{ScalingMode: runpb.ServiceScaling_MANUAL, ManualInstanceCount: &n}}, nil
}

func (m *monitor) GetRevision(_ context.Context, r *runpb.GetRevisionRequest, _ ...grpc.CallOption) (*runpb.Revision, error) {
	m.revisions++
	limits := map[string]string{"cpu": "1000m", "memory": "512Mi"}
	if strings.HasSuffix(r.Name, "/web-2") {
		limits = map[string]string{"cpu": "2", "memory": "1Gi"}
	}
	return &runpb.Revision{Name: r.Name, Containers: []*runpb.Container{{Name: "main", Resources: &runpb.ResourceRequirements{Limits: limits}}}}, nil
}

func count(n int64) *monitoringpb.TypedValue {
	return &monitoringpb.TypedValue{Value: &monitoringpb.TypedValue_Int64Value{Int64Value: n}}
}

func mean(v float64) *monitoringpb.TypedValue {
	return &monitoringpb.TypedValue{Value: &monitoringpb.TypedValue_DistributionValue{DistributionValue: &distribution.Distribution{Count: 6, Mean: v}}}
}

// measuring opens workloads on a monitor.
func measuring(t *testing.T, m *monitor) *Workloads {
	t.Helper()
	session, err := gcp.Open(t.Context(), gcp.Settings{Provider: "prod", Project: "my-project", Region: "europe-west1", Endpoint: "http://127.0.0.1:1", Credentials: map[string]string{"GOOGLE_OAUTH_ACCESS_TOKEN": "x"}})
	if err != nil {
		t.Fatal(err)
	}
	var b gcp.Budgets
	budget := func(family string) *gcp.Budget { return b.For(session, "", family, 1_000_000, 1000) }
	return In(Region{Provider: "prod", Session: session, Services: m, Revisions: m, Metrics: m, Reads: budget("read"), MetricReads: budget("metric"), Clock: sdk.SystemClock()})
}

// TestF102Warming: as long as Cloud Monitoring has no points the service is warming;
// then all its revisions are summed up, each by its own limits. A point is told once,
// and no instances are no sample rather than zeros.
func TestF102Warming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stage, begun := 0, time.Now()
		m := &monitor{at: func() time.Time { return begun.Add(time.Duration(max(stage, 2)) * time.Minute) }}
		m.points = func(kind string) map[string]*monitoringpb.TypedValue {
			switch {
			case stage == 0 || stage == 5:
				return nil
			case stage == 4 && kind == metricInstances:
				return map[string]*monitoringpb.TypedValue{"web-1": count(0)}
			case kind == metricInstances:
				return map[string]*monitoringpb.TypedValue{"web-1": count(2), "web-2": count(1)}
			case kind == metricCPU:
				return map[string]*monitoringpb.TypedValue{"web-1": mean(0.25), "web-2": mean(0.1)}
			}
			return map[string]*monitoringpb.TypedValue{"web-1": mean(0.5), "web-2": mean(0.25)}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		const web, none, elsewhere = "europe-west1/web", "europe-west1/none", "us-east1/web"
		var got []string
		for it, err := range measuring(t, m).StreamMetrics(ctx, sdk.StreamMetricsRequest{Paths: []sdk.WorkloadPath{web, none, elsewhere}}) {
			if err != nil {
				if !errors.Is(err, sdk.Canceled) {
					t.Errorf("it ends with %v", err)
				}
				break
			}
			switch it.Path {
			case none:
				if !errors.Is(it.Failed, sdk.NotFound) {
					t.Errorf("what isn't there: %+v", it)
				}
				continue
			case elsewhere: // the last of each round
				if !errors.Is(it.Failed, sdk.InvalidArgument) {
					t.Errorf("another region: %+v", it)
				}
				if stage++; stage == 2 {
					stage = 3 // the time of the points has changed
				}
				if stage > 5 {
					cancel()
				}
				continue
			}
			switch {
			case it.Warming != "":
				got = append(got, "warming")
			case it.Sample != nil:
				got = append(got, "sample")
				s := it.Sample
				if *s.CPU != 2*250+1*200 || *s.Memory != 2*(256<<20)+1*(256<<20) || s.Received != nil || s.Restarts != nil || it.Instance != "" || !s.At.Equal(m.at()) {
					t.Errorf("sample CPU %d memory %d at %s", *s.CPU, *s.Memory, s.At)
				}
			}
		}
		if want := []string{"warming", "sample", "sample", "warming", "warming"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if m.revisions != 2 {
			t.Errorf("revisions were read %d times, they never change", m.revisions)
		}
	})
}

// TestMetricsFail: where Cloud Monitoring doesn't answer each service says so, and the
// stream goes on.
func TestMetricsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &monitor{fails: status.Error(codes.Unavailable, "not now"), at: time.Now, points: func(string) map[string]*monitoringpb.TypedValue { return nil }}
		n := 0
		for it, err := range measuring(t, m).StreamMetrics(t.Context(), sdk.StreamMetricsRequest{Paths: []sdk.WorkloadPath{"europe-west1/web"}}) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == 1 && !errors.Is(it.Failed, sdk.Unavailable) {
				t.Errorf("got %+v", it)
			}
			m.fails = nil
			if n == 2 {
				if it.Warming == "" {
					t.Errorf("then %+v", it)
				}
				break
			}
		}
	})
}

// TestRestores: what a stop notes is read back, and nothing else is.
func TestRestores(t *testing.T) {
	for _, r := range []restores{{manual: true, count: 3}, {manual: true}, {}, {min: 2, max: 7}} {
		if got, err := parseRestores(r.String()); err != nil || got != r {
			t.Errorf("%+v is read back as %+v, %v", r, got, err)
		}
	}
	for _, text := range []string{"", "-1", "automatic", "automatic 1", "automatic -1 2", "3 4", "99999999999"} {
		if got, err := parseRestores(text); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

// FuzzRestores: whatever stands in the annotation, what is read is written the same.
func FuzzRestores(f *testing.F) {
	f.Add("3")
	f.Add("automatic 0 5")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseRestores(text)
		if err != nil {
			return
		}
		if again, err := parseRestores(r.String()); err != nil || again != r {
			t.Errorf("%q: %+v, then %+v, %v", text, r, again, err)
		}
	})
}

package gcp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/logging/apiv2/loggingpb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/genproto/googleapis/api/metric"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudmonitoring"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudrun"
	"github.com/windlass-run/windlass/internal/testwait"
)

// serviceOf is a service of so many instances that run a command.
func serviceOf(n int32, argv ...string) *runpb.Service {
	return &runpb.Service{Scaling: &runpb.ServiceScaling{ScalingMode: runpb.ServiceScaling_MANUAL, ManualInstanceCount: &n},
		Template: &runpb.RevisionTemplate{Containers: []*runpb.Container{{Image: "app", Command: argv[:1], Args: argv[1:]}}}}
}

func (c *cloud) services() runpb.ServicesClient { return runpb.NewServicesClient(c.conn) }

// host makes a service and waits until it serves.
func (c *cloud) host(t testing.TB, id string, v *runpb.Service) *runpb.Service {
	t.Helper()
	op, err := c.services().CreateService(t.Context(), &runpb.CreateServiceRequest{Parent: parent, ServiceId: id, Service: v})
	if err != nil {
		t.Fatal(err)
	}
	out := &runpb.Service{}
	c.result(t, op, out)
	return out
}

// patch changes a service, and waits until it is so.
func (c *cloud) patch(t testing.TB, name string, edit func(v *runpb.Service)) *runpb.Service {
	t.Helper()
	v := proto.CloneOf(c.service(t, name))
	edit(v)
	out := &runpb.Service{}
	c.result(t, c.send(t, &runpb.UpdateServiceRequest{Service: v}), out)
	return out
}

func (c *cloud) send(t testing.TB, r *runpb.UpdateServiceRequest) *longrunningpb.Operation {
	t.Helper()
	op, err := c.services().UpdateService(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return op
}

func (c *cloud) service(t testing.TB, name string) *runpb.Service {
	t.Helper()
	v, err := c.services().GetService(t.Context(), &runpb.GetServiceRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// lines are what a service's instances have written, by instance.
func (c *cloud) lines(t testing.TB, id string) map[string][]string {
	t.Helper()
	out, err := c.logs.ListLogEntries(t.Context(), &loggingpb.ListLogEntriesRequest{ResourceNames: []string{"projects/" + Project},
		Filter: `resource.type="cloud_run_revision" AND resource.labels.service_name="` + id + `" AND logName:"stdout"`})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, e := range out.Entries {
		got[e.Labels["instanceId"]] = append(got[e.Labels["instanceId"]], e.Resource.Labels["revision_name"]+": "+e.GetTextPayload())
	}
	return got
}

// running waits until a service has so many instances.
func (c *cloud) running(t testing.TB, id string, n int) {
	t.Helper()
	testwait.Until(t, long, "instances of "+id, func() bool { return c.Run().Instances(id) == n })
}

func newHostCloud(t testing.TB, o Options) *cloud {
	c := newCloud(t, o)
	c.Run().TuneKnobs(func(k *cloudrun.Knobs) {
		k.Grace, k.Pace.Ready, k.Pace.Restart, k.Sample = 200*time.Millisecond, 10*time.Millisecond, 10*time.Millisecond, 20*time.Millisecond
	})
	return c
}

// TestService goes through a service's life: its instances run with the platform's
// variables, are as many as the manual count says, and are replaced by a new
// revision; what is the same makes none, unless forced.
func TestService(t *testing.T) {
	c := newHostCloud(t, Options{})
	v := c.host(t, "web", serviceOf(2, "sh", "-c", "echo $K_SERVICE $K_REVISION $K_CONFIGURATION $PORT; exec sleep 60"))
	first := short(v.LatestReadyRevision)
	if v.Reconciling || v.TerminalCondition.State != runpb.Condition_CONDITION_SUCCEEDED || v.ObservedGeneration != 1 || v.Generation != 1 || v.LatestReadyRevision != v.LatestCreatedRevision ||
		!strings.HasPrefix(first, "web-00001-") || v.Uri == "" || len(v.TrafficStatuses) != 1 || len(v.Conditions) != 2 {
		t.Fatalf("the service is %v", v)
	}
	c.running(t, "web", 2)
	testwait.Until(t, long, "a line of each instance", func() bool {
		got := c.lines(t, "web")
		for _, l := range got {
			if want := first + ": web " + first + " web 8080"; len(l) != 1 || l[0] != want {
				t.Fatalf("got %q, want %q", l, want)
			}
		}
		return len(got) == 2
	})
	// The count alone makes no revision.
	n := int32(3)
	v = c.patch(t, v.Name, func(v *runpb.Service) { v.Scaling.ManualInstanceCount = &n })
	if short(v.LatestReadyRevision) != first || v.Generation != 2 {
		t.Errorf("scaled: %v", v)
	}
	c.running(t, "web", 3)
	op := c.send(t, &runpb.UpdateServiceRequest{Service: v, ForceNewRevision: true})
	c.result(t, op, v)
	second := short(v.LatestReadyRevision)
	if !strings.HasPrefix(second, "web-00002-") {
		t.Errorf("forced: %v", v)
	}
	v = c.patch(t, v.Name, func(v *runpb.Service) { v.Template.Containers[0].Env = []*runpb.EnvVar{{Name: "A"}} })
	third := short(v.LatestReadyRevision)
	c.running(t, "web", 3)
	list, err := runpb.NewRevisionsClient(c.conn).ListRevisions(t.Context(), &runpb.ListRevisionsRequest{Parent: v.Name})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range list.Revisions {
		names = append(names, short(r.Name))
		if serves := short(r.Name) == third; (r.GetScalingStatus().GetDesiredMinInstanceCount() == 3) != serves {
			t.Errorf("revision %v", r)
		}
	}
	if !slices.Equal(names, []string{third, second, first}) {
		t.Errorf("revisions %q", names)
	}
	gone, err := runpb.NewRevisionsClient(c.conn).DeleteRevision(t.Context(), &runpb.DeleteRevisionRequest{Name: list.Revisions[2].Name})
	if err != nil || !gone.Done {
		t.Errorf("delete a revision: %v, %v", gone, err)
	}
	remove, err := c.services().DeleteService(t.Context(), &runpb.DeleteServiceRequest{Name: v.Name})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.services().UpdateService(t.Context(), &runpb.UpdateServiceRequest{Service: v}); err == nil {
		t.Error("a service that is being deleted was changed")
	}
	c.done(t, remove)
	if _, err := c.services().GetService(t.Context(), &runpb.GetServiceRequest{Name: v.Name}); status.Code(err) != codes.NotFound {
		t.Errorf("a deleted service: %v", err)
	}
	c.running(t, "web", 0)
}

// TestServiceMask: a mask names what changes, and nothing else does; validate_only
// changes nothing.
func TestServiceMask(t *testing.T) {
	c := newHostCloud(t, Options{})
	v := c.host(t, "web", serviceOf(0, "sleep", "60"))
	other := serviceOf(1, "sleep", "61")
	other.Name, other.Labels = v.Name, map[string]string{"a": "b"}
	out := &runpb.Service{}
	c.result(t, c.send(t, &runpb.UpdateServiceRequest{Service: other, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels", "scaling.manual_instance_count"}}}), out)
	if out.Labels["a"] != "b" || out.Scaling.GetManualInstanceCount() != 1 || out.Template.Containers[0].Args[0] != "60" || out.Scaling.ScalingMode != runpb.ServiceScaling_MANUAL {
		t.Errorf("the service is %v", out)
	}
	c.done(t, c.send(t, &runpb.UpdateServiceRequest{Service: other, ValidateOnly: true}))
	if now := c.service(t, v.Name); now.Generation != out.Generation || now.Template.Containers[0].Args[0] != "60" {
		t.Errorf("validated alone: %v", now)
	}
}

// TestServiceTraffic divides the count among the revisions that get traffic; a
// revision that isn't there fails the routes.
func TestServiceTraffic(t *testing.T) {
	c := newHostCloud(t, Options{})
	v := c.host(t, "web", serviceOf(3, "sleep", "60"))
	first := short(v.LatestReadyRevision)
	const latest, named = runpb.TrafficTargetAllocationType_TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST, runpb.TrafficTargetAllocationType_TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION
	v = c.patch(t, v.Name, func(v *runpb.Service) {
		v.Template.Containers[0].Args = []string{"61"}
		v.Traffic = []*runpb.TrafficTarget{{Type: named, Revision: first, Percent: 70}, {Type: latest, Percent: 30}}
	})
	counts := func() (out [2]int32) {
		for i, name := range []string{first, short(v.LatestReadyRevision)} {
			r, err := runpb.NewRevisionsClient(c.conn).GetRevision(t.Context(), &runpb.GetRevisionRequest{Name: v.Name + "/revisions/" + name})
			if err != nil {
				t.Fatal(err)
			}
			out[i] = r.GetScalingStatus().GetDesiredMinInstanceCount()
		}
		return out
	}
	if got := counts(); got != [2]int32{3, 0} && got != [2]int32{2, 1} {
		t.Errorf("instances %v", got)
	}
	c.running(t, "web", 3)
	op := c.send(t, &runpb.UpdateServiceRequest{Service: func() *runpb.Service {
		v := proto.CloneOf(v)
		v.Traffic = []*runpb.TrafficTarget{{Type: named, Revision: "web-none", Percent: 100}}
		return v
	}()})
	if op = c.done(t, op); op.GetError() == nil {
		t.Errorf("traffic to a revision that isn't there: %v", op)
	}
	if now := c.service(t, v.Name); now.TerminalCondition.State != runpb.Condition_CONDITION_FAILED || now.ObservedGeneration == now.Generation {
		t.Errorf("the service is %v", now)
	}
}

// TestServiceFails: a revision that doesn't come up fails the change, with its
// reason, and what served before goes on. The next change can mend it.
func TestServiceFails(t *testing.T) {
	c := newHostCloud(t, Options{})
	v := c.host(t, "web", serviceOf(1, "sleep", "60"))
	good := v.LatestReadyRevision
	ready := func(d time.Duration) { c.Run().TuneKnobs(func(k *cloudrun.Knobs) { k.Pace.Ready = d }) }
	ready(time.Hour) // what is to end does so before
	for what, k := range map[string]struct {
		args   []string
		image  bool
		common runpb.Condition_CommonReason
		reason runpb.Condition_RevisionReason
	}{
		"exits": {args: []string{"no number"}, reason: runpb.Condition_HEALTH_CHECK_CONTAINER_ERROR},
		"image": {args: []string{"62"}, image: true, common: runpb.Condition_CONTAINER_MISSING},
	} {
		remove := func() {}
		if k.image {
			remove = c.Run().Strike(cloudrun.Mishap{Job: "web", Stage: cloudrun.StageImage})
		}
		bad := proto.CloneOf(c.service(t, v.Name))
		bad.Template.Containers[0].Args = k.args
		op := c.done(t, c.send(t, &runpb.UpdateServiceRequest{Service: bad}))
		remove()
		now := c.service(t, v.Name)
		if op.GetError() == nil || now.Reconciling || now.TerminalCondition.State != runpb.Condition_CONDITION_FAILED || now.TerminalCondition.GetReason() != runpb.Condition_REVISION_FAILED ||
			now.LatestReadyRevision != good || now.LatestCreatedRevision == good || now.ObservedGeneration == now.Generation {
			t.Errorf("%s: %v, %v", what, op, now)
		}
		r, err := runpb.NewRevisionsClient(c.conn).GetRevision(t.Context(), &runpb.GetRevisionRequest{Name: now.LatestCreatedRevision})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(r.Conditions, func(x *runpb.Condition) bool { return x.Type == "Ready" })
		if ready := r.Conditions[i]; ready.GetReason() != k.common || ready.GetRevisionReason() != k.reason {
			t.Errorf("%s: %v", what, ready)
		}
		c.running(t, "web", 1)
	}
	ready(10 * time.Millisecond)
	if v = c.patch(t, v.Name, func(v *runpb.Service) { v.Template.Containers[0].Args = []string{"63"} }); v.LatestReadyRevision == good {
		t.Errorf("mended: %v", v)
	}
}

// TestServiceRestarts: an instance that ends by itself is replaced.
func TestServiceRestarts(t *testing.T) {
	c := newHostCloud(t, Options{})
	end := filepath.Join(t.TempDir(), "end")
	c.host(t, "web", serviceOf(1, "sh", "-c", "echo up; while [ ! -e "+end+" ]; do sleep 0.01; done"))
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, long, "a third instance", func() bool { return len(c.lines(t, "web")) >= 3 })
}

// TestServiceAutomatic: without requests automatic scaling keeps the minimum.
func TestServiceAutomatic(t *testing.T) {
	c := newHostCloud(t, Options{})
	v := serviceOf(0, "sleep", "60")
	v.Scaling = nil
	v = c.host(t, "web", v)
	c.running(t, "web", 0)
	v = c.patch(t, v.Name, func(v *runpb.Service) { v.Scaling.MinInstanceCount = 2 })
	c.running(t, "web", 2)
	c.patch(t, v.Name, func(v *runpb.Service) { v.Template.Scaling.MinInstanceCount = 3 })
	c.running(t, "web", 3)
}

// TestServiceKept: services outlive their server, and run again on the next.
func TestServiceKept(t *testing.T) {
	o := Options{State: t.TempDir()}
	before := newHostCloud(t, o)
	v := before.host(t, "web", serviceOf(2, "sleep", "60"))
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	c := newHostCloud(t, o)
	c.running(t, "web", 2)
	if now := c.service(t, v.Name); now.Generation != 1 || now.LatestReadyRevision != v.LatestReadyRevision || now.Uid != v.Uid {
		t.Errorf("the service is %v", now)
	}
}

// TestMonitoring: what instances use can be read, as parts of their limits, once
// the delay is over; another project's can't.
func TestMonitoring(t *testing.T) {
	c := newHostCloud(t, Options{})
	v := c.host(t, "web", serviceOf(2, "sh", "-c", "while :; do :; done"))
	series := func(kind string) []*monitoringpb.TimeSeries {
		t.Helper()
		out, err := monitoringpb.NewMetricServiceClient(c.conn).ListTimeSeries(t.Context(), &monitoringpb.ListTimeSeriesRequest{Name: "projects/" + Project,
			Filter:   `metric.type = "run.googleapis.com/container/` + kind + `" AND resource.labels.service_name = one_of("web", "other")`,
			Interval: &monitoringpb.TimeInterval{StartTime: timestamppb.New(time.Now().Add(-time.Hour)), EndTime: timestamppb.Now()}})
		if err != nil {
			t.Fatal(err)
		}
		return out.TimeSeries
	}
	testwait.Until(t, long, "both instances measured", func() bool {
		list := series("cpu/utilizations")
		return len(list) == 1 && list[0].Points[0].Value.GetDistributionValue().GetCount() == 2
	})
	used := series("cpu/utilizations")[0]
	if d := used.Points[0].Value.GetDistributionValue(); d.Mean <= 0 || used.MetricKind != metric.MetricDescriptor_DELTA || used.Resource.Labels["revision_name"] != short(v.LatestReadyRevision) {
		t.Errorf("CPU: %v", used)
	}
	if d := series("memory/utilizations")[0].Points[0].Value.GetDistributionValue(); d.Mean <= 0 || d.Mean >= 1 {
		t.Errorf("memory: %v", d)
	}
	counts := map[string]int64{}
	for _, s := range series("instance_count") {
		counts[s.Metric.Labels["state"]] = s.Points[0].Value.GetInt64Value()
	}
	if counts["idle"] != 2 || counts["active"] != 0 {
		t.Errorf("instances: %v", counts)
	}
	c.Monitoring().SetKnobs(cloudmonitoring.Knobs{Delay: time.Hour})
	if late := series("instance_count"); len(late) != 0 {
		t.Errorf("within the delay: %v", late)
	}
	_, err := monitoringpb.NewMetricServiceClient(c.conn).ListTimeSeries(t.Context(), &monitoringpb.ListTimeSeriesRequest{Name: "projects/other-project", Filter: `metric.type="a"`})
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("another project: %v", err)
	}
}

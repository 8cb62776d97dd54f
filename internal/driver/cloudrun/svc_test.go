package cloudrun

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/protobuf/proto"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	pocket "github.com/windlass-run/windlass/internal/pocket/gcp"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudrun"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/pocket/run/runtest"
	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/plugintest"
	"github.com/windlass-run/windlass/sdk/providertest"
	"github.com/windlass-run/windlass/sdk/workloadtest"
)

// TestWorkloadSuite is the suite of live workloads.
func TestWorkloadSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds: left out by -short")
	}
	workloadtest.Run(t, newServices(t).harness())
}

// TestWorkloadsOverWire runs what a plugin's wire between can spoil; all of it where
// testneed.WireEnv says so.
func TestWorkloadsOverWire(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds: left out by -short")
	}
	s := newServices(t)
	h := s.harness()
	d := plugintest.Through(t, Driver())
	h.Open = func(t workloadtest.T) sdk.Provider {
		p, err := d.Open(t.Context(), s.Request())
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		return p
	}
	if !testneed.WholeWireSuite() {
		h.Only = []string{"list", "status", "status-absent", "scale", "stop-start", "start-spec", "start-broken", "expect", "dry-run", "autoscaler", "lost-reply", "throttled", "config", "logs", "metrics-absent"}
	}
	workloadtest.Run(t, h)
}

// services is a pocket cloud with services.
type services struct {
	*world
	tt workloadtest.T
	p  *provider // calls the API itself
}

func newServices(t *testing.T) *services {
	w := newWorld(t, pocket.Options{Executor: runtest.Contained{Executor: run.NewProcesses(nil)}}, map[string]any{"log_late": "20ms", "metric_rate": 1000000})
	w.cloud.Run().TuneKnobs(func(k *cloudrun.Knobs) { k.Pace.Ready, k.Sample = 10*time.Millisecond, 50*time.Millisecond })
	return &services{world: w, tt: providertest.Testing(t), p: w.Open()}
}

// up is what a service runs: it says a line, and goes on.
func up() *runpb.RevisionTemplate {
	return &runpb.RevisionTemplate{Containers: []*runpb.Container{{Image: "app", Command: []string{"sh"}, Args: []string{"-c", "echo up; exec sleep 1000"}}}}
}

func byHand(n int32) *runpb.ServiceScaling {
	return &runpb.ServiceScaling{ScalingMode: runpb.ServiceScaling_MANUAL, ManualInstanceCount: &n}
}

func (s *services) name(id string) string { return s.p.session.Location() + "/services/" + id }

func (s *services) path(id string) sdk.WorkloadPath {
	return sdk.WorkloadPath(pocket.Location + "/" + id)
}

// deploy makes a service as anybody could, and waits until it is ready.
func (s *services) deploy(t workloadtest.T, v *runpb.Service) sdk.WorkloadPath {
	t.Helper()
	id := "w-" + strings.ToLower(sdk.NewIDSource(sdk.SystemClock()).NewID().Short())
	s.removed(t, id)
	op, err := runpb.NewServicesClient(s.p.run).CreateService(t.Context(), &runpb.CreateServiceRequest{Parent: s.p.session.Location(), ServiceId: id, Service: v})
	if err != nil {
		t.Fatalf("create %s: %v", id, err)
	}
	s.done(t, op)
	return s.path(id)
}

// removed deletes a service when the test is over.
func (s *services) removed(t workloadtest.T, id string) {
	t.Cleanup(func() {
		// It may never have been made.
		_, _ = runpb.NewServicesClient(s.p.run).DeleteService(context.WithoutCancel(t.Context()), &runpb.DeleteServiceRequest{Name: s.name(id)})
	})
}

// done waits for an operation.
func (s *services) done(t workloadtest.T, op *longrunningpb.Operation) {
	t.Helper()
	for !op.GetDone() {
		var err error
		if op, err = longrunningpb.NewOperationsClient(s.p.run).WaitOperation(t.Context(), &longrunningpb.WaitOperationRequest{Name: op.GetName()}); err != nil {
			t.Fatalf("wait: %v", err)
		}
	}
	if op.GetError() != nil {
		t.Fatalf("operation: %v", op.GetError())
	}
}

// get reads a service.
func (s *services) get(t workloadtest.T, path sdk.WorkloadPath) *runpb.Service {
	t.Helper()
	v, err := runpb.NewServicesClient(s.p.run).GetService(t.Context(), &runpb.GetServiceRequest{Name: s.name(path.Name())})
	if err != nil {
		t.Fatalf("get %s: %v", path, err)
	}
	return v
}

// update changes a service as anybody could, and waits until it is so.
func (s *services) update(t workloadtest.T, path sdk.WorkloadPath, edit func(v *runpb.Service)) {
	t.Helper()
	v := proto.CloneOf(s.get(t, path))
	v.Etag = ""
	edit(v)
	op, err := runpb.NewServicesClient(s.p.run).UpdateService(t.Context(), &runpb.UpdateServiceRequest{Service: v})
	if err != nil {
		t.Fatalf("update %s: %v", path, err)
	}
	s.done(t, op)
}

// changes counts the calls about a service that were carried out.
func (s *services) changes(_ workloadtest.T, path sdk.WorkloadPath) int {
	n := 0
	for _, c := range append(s.cloud.Calls().Calls("run:CreateService"), s.cloud.Calls().Calls("run:UpdateService")...) {
		var r struct {
			ServiceID string `json:"serviceId"`
			Service   struct{ Name string }
		}
		if json.Unmarshal(c.Request, &r) == nil && c.Status == 200 && (r.ServiceID == path.Name() || r.Service.Name == s.name(path.Name())) {
			n++
		}
	}
	return n
}

func (s *services) harness() workloadtest.Harness {
	hit := func(n int, e fault.Effect) {
		s.cloud.Faults().Add(fault.Rule{Action: "run:UpdateService", Count: n, Effect: e})
	}
	spec := func(t workloadtest.T) (sdk.WorkloadPath, sdk.DeploymentSpec) {
		id, one := "s-"+strings.ToLower(sdk.NewIDSource(sdk.SystemClock()).NewID().Short()), 1
		s.removed(t, id)
		return s.path(id), sdk.DeploymentSpec{Name: id, Image: "app:2", Command: sdk.Argv{"sh", "-c", "echo up; exec sleep 1000"}, Replicas: &one, Ports: []sdk.Port{{Port: 80}}}
	}
	return workloadtest.Harness{
		Open: func(workloadtest.T) sdk.Provider { return s.Open() },
		Make: func(t workloadtest.T, replicas int) sdk.WorkloadPath {
			return s.deploy(t, &runpb.Service{Template: up(), Scaling: byHand(int32(replicas))}) //nolint:gosec // a few
		},
		Changes: s.changes,
		Spec:    spec,
		Broken: func(t workloadtest.T) (sdk.WorkloadPath, sdk.DeploymentSpec) {
			path, d := spec(t)
			t.Cleanup(s.cloud.Run().Strike(cloudrun.Mishap{Job: d.Name, Stage: cloudrun.StageImage}))
			return path, d
		},
		Absent: s.path("none"),
		Autoscale: func(t workloadtest.T, path sdk.WorkloadPath, minimum, maximum int) {
			s.update(t, path, func(v *runpb.Service) {
				v.Scaling = &runpb.ServiceScaling{ScalingMode: runpb.ServiceScaling_AUTOMATIC, MinInstanceCount: int32(minimum), MaxInstanceCount: int32(maximum)} //nolint:gosec // a few
			})
		},
		Line: func(string) string { return "up\n" },
		Faults: workloadtest.Faults{
			LoseReply: func(workloadtest.T, workloadtest.Op) { hit(1, fault.Effect{Drop: true}) },
			Refuse:    func(workloadtest.T, workloadtest.Op) { hit(1, fault.Effect{Reset: true}) },
			Throttle:  func(_ workloadtest.T, _ workloadtest.Op, n int) { hit(n, fault.Effect{Refuse: pocket.Throttle()}) },
			Calls:     func(workloadtest.T, workloadtest.Op) int { return s.Count("run:UpdateService") },
		},
		Eventually: drivertest.Patience, Poll: 10 * time.Millisecond,
	}
}

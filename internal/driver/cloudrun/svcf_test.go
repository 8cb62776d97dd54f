package cloudrun

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/run/apiv2/runpb"
	"google.golang.org/protobuf/proto"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/gcp/cloudrun"
	"github.com/windlass-run/windlass/sdk"
)

// op is a request of a new operation.
func op(path sdk.WorkloadPath) sdk.OpRequest {
	return sdk.OpRequest{OpID: sdk.NewIDSource(sdk.SystemClock()).NewID(), Path: path}
}

// settled waits for the end of the newest rollout.
func (s *services) settled(path sdk.WorkloadPath) sdk.DeploymentStatus {
	s.T.Helper()
	var st sdk.DeploymentStatus
	s.Eventually("end of the rollout of "+string(path), func() bool {
		res, err := s.p.WorkloadStatus(s.T.Context(), sdk.WorkloadStatusRequest{Path: path})
		if err != nil {
			s.T.Fatal(err)
		}
		st = res.Status
		return st.Rollout == sdk.RolloutComplete || st.Rollout == sdk.RolloutFailed
	})
	return st
}

// has waits until a service has so many instances.
func (s *services) has(path sdk.WorkloadPath, n int) {
	s.T.Helper()
	s.Eventually("instances", func() bool { return s.cloud.Run().Instances(path.Name()) == n })
}

// TestF97NamedRevision: a service whose template names a revision, as the console
// and gcloud leave it, can be scaled, stopped, started, configured and restarted. The
// platform refuses every such change under that name.
func TestF97NamedRevision(t *testing.T) {
	s := newServices(t)
	path := s.deploy(s.tt, &runpb.Service{Template: up(), Scaling: byHand(1)})
	name := func() {
		t.Helper()
		s.update(s.tt, path, func(v *runpb.Service) {
			v.Template.Revision = path.Name() + "-r" + strings.ToLower(sdk.NewIDSource(sdk.SystemClock()).NewID().Short())
		})
	}
	for what, verb := range map[string]func() error{
		"scale": func() error {
			_, err := s.p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: op(path), Replicas: 2})
			return err
		},
		"restart": func() error {
			_, err := s.p.RestartWorkload(t.Context(), sdk.RestartWorkloadRequest{Op: op(path)})
			return err
		},
		"config": func() error {
			_, err := s.p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: op(path), Set: map[string]string{"A": "x"}})
			return err
		},
	} {
		name()
		if err := verb(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if st := s.settled(path); st.Rollout != sdk.RolloutComplete {
			t.Errorf("%s: %+v", what, st)
		}
	}
	name()
	if _, err := s.p.StopWorkload(t.Context(), sdk.StopWorkloadRequest{Op: op(path)}); err != nil {
		t.Fatal(err)
	}
	s.has(path, 0)
	if g := s.p.Info().Guarantees.Workload; g.Stop != sdk.StopZero {
		t.Errorf("the guarantee of a stop is %q", g.Stop)
	}
	if _, err := s.p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: op(path)}); err != nil {
		t.Fatal(err)
	}
	s.has(path, 2)
}

// TestF97Conflict: a change that comes between read and call is seen anew, with all
// guards; the one that was read is never sent over it.
func TestF97Conflict(t *testing.T) {
	s := newServices(t)
	path := s.deploy(s.tt, &runpb.Service{Template: up(), Scaling: byHand(1)})
	// between changes the service after a scale has read it and before its call
	// arrives.
	between := func(r sdk.ScaleWorkloadRequest, edit func(v *runpb.Service)) error {
		entered, release := s.cloud.Faults().Hold("run:UpdateService")
		defer release()
		done := make(chan error, 1)
		go func() {
			_, err := s.p.ScaleWorkload(t.Context(), r)
			done <- err
		}()
		<-entered
		s.cloud.Faults().Clear() // holds no other call
		s.update(s.tt, path, edit)
		release()
		return <-done
	}
	before := s.changes(s.tt, path)
	if err := between(sdk.ScaleWorkloadRequest{Op: op(path), Replicas: 2}, func(v *runpb.Service) { v.Labels = map[string]string{"theirs": "1"} }); err != nil {
		t.Fatal(err)
	}
	if v := s.get(s.tt, path); v.GetLabels()["theirs"] != "1" || v.GetScaling().GetManualInstanceCount() != 2 {
		t.Errorf("the service is %v", v)
	}
	if n := s.changes(s.tt, path) - before; n != 2 {
		t.Errorf("%d changes for theirs and ours", n)
	}
	s.settled(path)
	two, req := 2, op(path)
	req.Expect.Replicas = &two
	err := between(sdk.ScaleWorkloadRequest{Op: req, Replicas: 3}, func(v *runpb.Service) { v.Scaling = byHand(5) })
	var e *sdk.Error
	if !errors.As(err, &e) || e.ID != sdk.ErrExpect {
		t.Errorf("after a change of the count: %v", err)
	}
	if n := s.get(s.tt, path).GetScaling().GetManualInstanceCount(); n != 5 {
		t.Errorf("%d instances are to be there", n)
	}
	// Conflicts without an end are given up, and nothing was changed.
	s.cloud.Faults().Add(fault.Rule{Action: "run:UpdateService", Effect: fault.Effect{Refuse: &fault.Refusal{Code: "ABORTED", Message: "Conflict for resource"}}})
	if _, err := s.p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: op(path), Replicas: 3}); !errors.Is(err, sdk.Aborted) {
		t.Errorf("conflicts without an end: %v", err)
	}
}

// TestGlance: a change right behind a status is one call; where the status is of
// before somebody else's change, that one stands, and what it makes of ours is told.
func TestGlance(t *testing.T) {
	s := newServices(t)
	path := s.deploy(s.tt, &runpb.Service{Template: up(), Scaling: byHand(1)})
	look := func() {
		t.Helper()
		if _, err := s.p.WorkloadStatus(t.Context(), sdk.WorkloadStatusRequest{Path: path}); err != nil {
			t.Fatal(err)
		}
	}
	scale := func(n int) sdk.OpResult {
		t.Helper()
		r, err := s.p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: op(path), Replicas: n})
		if err != nil {
			t.Fatal(err)
		}
		return r.Op
	}
	s.settled(path)
	look()
	reads, writes := s.Count("run:GetService"), s.Count("run:UpdateService")
	scale(2)
	if r, w := s.Count("run:GetService")-reads, s.Count("run:UpdateService")-writes; r != 0 || w != 1 {
		t.Errorf("%d reads and %d writes behind a status", r, w)
	}
	look()
	s.update(s.tt, path, func(v *runpb.Service) { v.Scaling, v.Labels = byHand(3), map[string]string{"theirs": "1"} })
	if r := scale(3); r.Changed {
		t.Error("a scale to what is there says that something changed")
	}
	look()
	s.update(s.tt, path, func(v *runpb.Service) { v.Labels = map[string]string{"theirs": "2"} })
	if r := scale(3); r.Changed {
		t.Error("a scale to what is there says that something changed")
	}
	look()
	s.update(s.tt, path, func(v *runpb.Service) { v.Labels = map[string]string{"theirs": "3"} })
	scale(1)
	if v := s.get(s.tt, path); v.GetLabels()["theirs"] != "3" || v.GetScaling().GetManualInstanceCount() != 1 {
		t.Errorf("the service is %v", v)
	}
}

// TestF95Automatic: the autoscaler's service is stopped when told, and a start gives
// it back to the autoscaler with its bounds.
func TestF95Automatic(t *testing.T) {
	s := newServices(t)
	path := s.deploy(s.tt, &runpb.Service{Template: up(), Scaling: &runpb.ServiceScaling{MinInstanceCount: 2, MaxInstanceCount: 7}})
	s.has(path, 2)
	req := op(path)
	req.AgainstAutoscaler = true
	r, err := s.p.StopWorkload(t.Context(), sdk.StopWorkloadRequest{Op: req})
	if err != nil || r.Restores != nil || len(r.Op.Warnings) == 0 {
		t.Fatalf("stop: %+v, %v", r, err)
	}
	s.has(path, 0)
	if st := s.settled(path); !st.Stopped || st.Autoscaler != nil {
		t.Errorf("stopped: %+v", st)
	}
	if _, err := s.p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: op(path)}); err != nil {
		t.Fatal(err)
	}
	s.has(path, 2)
	if st := s.settled(path); st.Stopped || st.Desired != nil || st.Autoscaler == nil || st.Autoscaler.Min != 2 || st.Autoscaler.Max != 7 {
		t.Errorf("started: %+v", st)
	}
}

// TestDisabled: what another tool has disabled is started with a number alone.
func TestDisabled(t *testing.T) {
	s := newServices(t)
	path := s.deploy(s.tt, &runpb.Service{Template: up(), Scaling: byHand(0)})
	var e *sdk.Error
	if _, err := s.p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: op(path)}); !errors.As(err, &e) || e.Code != sdk.FailedPrecondition || !strings.Contains(e.Remedy, "--replicas") {
		t.Errorf("start: %v", err)
	}
	if r, err := s.p.StopWorkload(t.Context(), sdk.StopWorkloadRequest{Op: op(path)}); err != nil || r.Op.Changed {
		t.Errorf("stop: %+v, %v", r, err)
	}
	two := 2
	if _, err := s.p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: op(path), Replicas: &two}); err != nil {
		t.Fatal(err)
	}
	s.has(path, 2)
}

// TestPinnedTraffic: where traffic goes to a named revision, a restart and a change of
// settings would reach nobody, and are refused; traffic is never touched.
func TestPinnedTraffic(t *testing.T) {
	s := newServices(t)
	path := s.deploy(s.tt, &runpb.Service{Template: up(), Scaling: byHand(1)})
	s.update(s.tt, path, func(v *runpb.Service) {
		rev := v.LatestReadyRevision[strings.LastIndexByte(v.LatestReadyRevision, '/')+1:]
		v.Traffic = []*runpb.TrafficTarget{{Type: runpb.TrafficTargetAllocationType_TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION, Revision: rev, Percent: 100}}
	})
	before := s.changes(s.tt, path)
	_, restart := s.p.RestartWorkload(t.Context(), sdk.RestartWorkloadRequest{Op: op(path)})
	_, config := s.p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: op(path), Set: map[string]string{"A": "x"}})
	for what, err := range map[string]error{"restart": restart, "config": config} {
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != sdk.FailedPrecondition || !strings.Contains(e.Remedy, "--to-latest") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := s.changes(s.tt, path) - before; n != 0 {
		t.Errorf("%d changes", n)
	}
	if st := s.settled(path); len(st.Warnings) != 1 {
		t.Errorf("warnings %q", st.Warnings)
	}
	was := s.get(s.tt, path).GetTraffic()
	if _, err := s.p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: op(path), Replicas: 2}); err != nil {
		t.Fatal(err)
	}
	if is := s.get(s.tt, path).GetTraffic(); len(is) != 1 || is[0].GetRevision() != was[0].GetRevision() || is[0].GetPercent() != 100 {
		t.Errorf("the traffic is %v, was %v", is, was)
	}
}

// TestRestartIsARevision: a restart makes one revision, which is what the one before
// was, and leaves the traffic as it was set, tags too.
func TestRestartIsARevision(t *testing.T) {
	s := newServices(t)
	path := s.deploy(s.tt, &runpb.Service{Template: up(), Scaling: byHand(1)})
	s.update(s.tt, path, func(v *runpb.Service) {
		rev := v.LatestReadyRevision[strings.LastIndexByte(v.LatestReadyRevision, '/')+1:]
		v.Traffic = []*runpb.TrafficTarget{{Type: runpb.TrafficTargetAllocationType_TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST, Percent: 100},
			{Type: runpb.TrafficTargetAllocationType_TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION, Revision: rev, Tag: "before"}}
	})
	was := s.get(s.tt, path)
	if _, err := s.p.RestartWorkload(t.Context(), sdk.RestartWorkloadRequest{Op: op(path)}); err != nil {
		t.Fatal(err)
	}
	if st := s.settled(path); st.Rollout != sdk.RolloutComplete {
		t.Errorf("the rollout is %+v", st)
	}
	is := s.get(s.tt, path)
	if is.GetLatestReadyRevision() == was.GetLatestReadyRevision() || s.Count("run:UpdateService") != 2 {
		t.Errorf("the revision is %s, was %s, after %d changes", is.GetLatestReadyRevision(), was.GetLatestReadyRevision(), s.Count("run:UpdateService"))
	}
	for what, same := range map[string]bool{
		"traffic":    slices.EqualFunc(is.GetTraffic(), was.GetTraffic(), func(a, b *runpb.TrafficTarget) bool { return proto.Equal(a, b) }),
		"scaling":    proto.Equal(is.GetScaling(), was.GetScaling()),
		"containers": slices.EqualFunc(is.GetTemplate().GetContainers(), was.GetTemplate().GetContainers(), func(a, b *runpb.Container) bool { return proto.Equal(a, b) }),
	} {
		if !same {
			t.Errorf("the %s changed: from %v to %v", what, was, is)
		}
	}
}

// TestServiceSecrets: settings are variables and references to Secret Manager; no value
// of a secret is read, sent or left on the service. Other schemes are refused.
func TestServiceSecrets(t *testing.T) {
	s := newServices(t)
	if _, err := s.cloud.Secrets().Put("password", []byte("canary-5d1e")); err != nil {
		t.Fatal(err)
	}
	template := up()
	template.Containers[0].Args[1] = `echo "$MODE $PASSWORD" | tr a-y b-z; exec sleep 1000`
	path := s.deploy(s.tt, &runpb.Service{Template: template, Scaling: byHand(1)})
	r, err := s.p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: op(path), Set: map[string]string{"MODE": "fast"}, Secrets: map[string]sdk.SecretRef{"PASSWORD": "secret://gcp-sm/password"}})
	if err != nil || !r.Op.Changed {
		t.Fatalf("config: %+v, %v", r, err)
	}
	s.settled(path)
	s.Eventually("output of an instance that has both", func() bool {
		for it, err := range s.p.TailLogs(t.Context(), sdk.TailLogsRequest{Path: path}) {
			if err != nil {
				t.Fatal(err)
			}
			if it.Entry != nil && string(it.Entry.Data) == "gbtu dbobsz-5e1f" {
				return true
			}
		}
		return false
	})
	if raw, err := json.Marshal(s.get(s.tt, path)); err != nil || strings.Contains(string(raw), "canary") {
		t.Errorf("the service is %s", raw)
	}
	if s.Count("secretmanager:AccessSecretVersion") != 0 {
		t.Error("the driver read the secret")
	}
	for ref, code := range map[sdk.SecretRef]sdk.Code{"secret://env/X": sdk.Unimplemented, "secret://gcp-sm/password#key": sdk.Unimplemented, "secret://gcp-sm/a.b": sdk.InvalidArgument, "secret://gcp-sm/none": sdk.InvalidArgument} {
		if _, err := s.p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: op(path), Secrets: map[string]sdk.SecretRef{"PASSWORD": ref}}); !errors.Is(err, code) {
			t.Errorf("%s: %v, want %s", ref, err, code)
		}
	}
	for _, name := range []string{"PORT", "K_SERVICE"} {
		if _, err := s.p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: op(path), Set: map[string]string{name: "1"}}); !errors.Is(err, sdk.InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Settings that somebody else changed are others.
	s.update(s.tt, path, func(v *runpb.Service) {
		v.Template.Containers[0].Env = append(v.Template.Containers[0].Env, &runpb.EnvVar{Name: "THEIRS", Values: &runpb.EnvVar_Value{Value: "1"}})
	})
	again, err := s.p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: op(path), Set: map[string]string{"MODE": "fast"}})
	if err != nil || again.Op.Changed || again.Revision == r.Revision {
		t.Errorf("config: %+v, %v", again, err)
	}
}

// TestServiceRefusals: what Cloud Run can't do of a spec is refused before anything is
// made, each field by its name.
func TestServiceRefusals(t *testing.T) {
	s := newServices(t)
	path := s.path("web")
	good := func() sdk.DeploymentSpec { return sdk.DeploymentSpec{Name: "web", Image: "app"} }
	for field, change := range map[string]func(d *sdk.DeploymentSpec){
		"ports":             func(d *sdk.DeploymentSpec) { d.Ports = []sdk.Port{{Port: 80}, {Port: 81}} },
		"ports[0].protocol": func(d *sdk.DeploymentSpec) { d.Ports = []sdk.Port{{Port: 80, Protocol: sdk.ProtocolUDP}} },
		"ports[0].name":     func(d *sdk.DeploymentSpec) { d.Ports = []sdk.Port{{Port: 80, Name: "web"}} },
		"resources.cpu":     func(d *sdk.DeploymentSpec) { d.Resources.CPU = 500 },
		"resources.memory":  func(d *sdk.DeploymentSpec) { d.Resources.Memory = 1 << 20 },
		"health.command":    func(d *sdk.DeploymentSpec) { d.Health = &sdk.HealthCheck{Command: sdk.Argv{"true"}} },
		"health.interval":   func(d *sdk.DeploymentSpec) { d.Health = &sdk.HealthCheck{TCP: true, Port: 80, Interval: 1500e6} },
		"command[1]":        func(d *sdk.DeploymentSpec) { d.Command = sdk.Argv{"a", "\xff"} },
		"env.PORT":          func(d *sdk.DeploymentSpec) { d.Env = sdk.Env{"PORT": "1"} },
		"config.K_SERVICE":  func(d *sdk.DeploymentSpec) { d.Config = map[string]string{"K_SERVICE": "1"} },
		"secrets.S":         func(d *sdk.DeploymentSpec) { d.Secrets = map[string]sdk.SecretRef{"S": "secret://file/x"} },
		"options.connector": func(d *sdk.DeploymentSpec) { d.Options = json.RawMessage(`{"connector":"x"}`) },
	} {
		d := good()
		change(&d)
		_, err := s.p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: op(path), Spec: &d})
		var e *sdk.Error
		if !errors.As(err, &e) || e.Field != field || !sdk.IsClear(err) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for path, code := range map[sdk.WorkloadPath]sdk.Code{"moon1/web": sdk.InvalidArgument, "web": sdk.InvalidArgument, "a/b/c": sdk.InvalidArgument, s.path("Web"): sdk.InvalidArgument} {
		if _, err := s.p.WorkloadStatus(t.Context(), sdk.WorkloadStatusRequest{Path: path}); !errors.Is(err, code) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if n := s.Count("run:CreateService"); n != 0 {
		t.Errorf("%d services were made", n)
	}
}

// TestServiceSpec: all of a spec reaches the service.
func TestServiceSpec(t *testing.T) {
	s := newServices(t)
	one := 1
	d := sdk.DeploymentSpec{Name: "web", Image: "app", Command: sdk.Argv{"sh", "-c", "exec sleep 1000"}, Env: sdk.Env{"A": "1"}, Config: map[string]string{"B": "2"}, Replicas: &one,
		Ports: []sdk.Port{{Port: 8081, Name: "h2c"}}, Resources: sdk.Limits{CPU: 2000, Memory: 1 << 30}, Options: json.RawMessage(`{"service_account":"me@x.iam.gserviceaccount.com","labels":{"team":"a"},"network":"n"}`)}
	if r, err := s.p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: op(s.path("web")), Spec: &d}); err != nil || r.Op.Generation != "1" || r.Op.Rollout != "1" {
		t.Fatalf("%+v, %v", r, err)
	}
	if st := s.settled(s.path("web")); st.Rollout != sdk.RolloutComplete {
		t.Errorf("%+v", st)
	}
	v := s.get(s.tt, s.path("web"))
	c := v.GetTemplate().GetContainers()[0]
	if c.GetImage() != "app" || c.GetCommand()[0] != "sh" || len(c.GetArgs()) != 2 || len(c.GetEnv()) != 2 || c.GetPorts()[0].GetContainerPort() != 8081 || c.GetPorts()[0].GetName() != "h2c" ||
		c.GetResources().GetLimits()["cpu"] != "2000m" || c.GetResources().GetLimits()["memory"] != "1024Mi" || !c.GetResources().GetCpuIdle() ||
		v.GetTemplate().GetServiceAccount() != "me@x.iam.gserviceaccount.com" || v.GetLabels()["team"] != "a" || v.GetTemplate().GetVpcAccess().GetNetworkInterfaces()[0].GetNetwork() != "n" ||
		v.GetScaling().GetManualInstanceCount() != 1 {
		t.Errorf("the service is %v", v)
	}
	// Without a number the service is the autoscaler's, as everybody else's.
	d.Name, d.Replicas = "auto", nil
	if _, err := s.p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: op(s.path("auto")), Spec: &d}); err != nil {
		t.Fatal(err)
	}
	if st := s.settled(s.path("auto")); st.Autoscaler == nil || st.Autoscaler.Max != 100 || st.Desired != nil {
		t.Errorf("%+v", st)
	}
}

// TestServiceFailures: why a service doesn't come up is told by the platform's own
// reason.
func TestServiceFailures(t *testing.T) {
	s := newServices(t)
	s.cloud.Run().TuneKnobs(func(k *cloudrun.Knobs) { k.Pace.Ready = drivertest.Patience }) // it ends before
	one := 1
	d := sdk.DeploymentSpec{Name: "web", Image: "app", Command: sdk.Argv{"false"}, Replicas: &one}
	if _, err := s.p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: op(s.path("web")), Spec: &d}); err != nil {
		t.Fatal(err)
	}
	if st := s.settled(s.path("web")); st.Failure == nil || st.Failure.Reason != sdk.ReasonFailedToStart || st.Failure.At.IsZero() || !strings.Contains(st.Failure.Message, "failed to start and listen") {
		t.Errorf("%+v", st.Failure)
	}
}

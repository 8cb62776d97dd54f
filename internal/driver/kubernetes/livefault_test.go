package kubernetes

import (
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/windlass-run/windlass/sdk"
)

func (l *scriptedLive) deployment(t *testing.T, path sdk.WorkloadPath) *appsv1.Deployment {
	t.Helper()
	l.api.mu.Lock()
	defer l.api.mu.Unlock()
	d, ok := l.api.objects["deployments"][l.ns+"/"+path.Name()].(*appsv1.Deployment)
	if !ok {
		t.Fatalf("there is no %s", path)
	}
	return d.DeepCopy()
}

func (l *live) configure(t *testing.T, p *provider, path sdk.WorkloadPath, set map[string]string) sdk.ApplyConfigResult {
	t.Helper()
	r, err := p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: l.op(path), Set: set})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestF85LiveSecretsStayInSecrets: a secret's value stands in a Secret of the
// workload's own, and in nothing else that is sent, answered or told.
func TestF85LiveSecretsStayInSecrets(t *testing.T) {
	l := newScriptedLive(t)
	p, path := l.provider(t), l.make(1)
	const canary = "canary-value-31cc"
	r := sdk.ApplyConfigRequest{Op: l.op(path), Secrets: map[string]sdk.SecretRef{"TOKEN": l.secrets.Set("TOKEN", []byte(canary)), "OTHER": "secret://k8s/shared/key"}}
	dry := r
	dry.Op.DryRun = true
	planned, err := p.ApplyConfig(t.Context(), dry)
	if err != nil || len(planned.Op.Calls) != 2 {
		t.Fatalf("dry run: %+v, %v", planned, err)
	}
	res, err := p.ApplyConfig(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))} {
		for _, c := range l.calls.Calls("") {
			if !strings.HasPrefix(c.Action, "secrets.") && strings.Contains(string(c.Request)+string(c.Reply), form) {
				t.Errorf("%s has the value", c.Action)
			}
		}
		if strings.Contains(fmtOf(planned, res), form) {
			t.Error("the result has the value")
		}
	}
	env := l.deployment(t, path).Spec.Template.Spec.Containers[0].Env
	got := map[string]string{}
	for _, e := range env {
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
			got[e.Name] = e.ValueFrom.SecretKeyRef.Name + "/" + e.ValueFrom.SecretKeyRef.Key
		}
	}
	if got["OTHER"] != "shared/key" || !strings.HasSuffix(got["TOKEN"], "/TOKEN") || len(got) != 2 {
		t.Errorf("the variables are %v", got)
	}
	// The same again changes nothing; another value does.
	again, err := p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: l.op(path), Secrets: r.Secrets})
	if err != nil || again.Op.Changed || again.Revision != res.Revision {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	l.secrets.Set("TOKEN", []byte("rotated"))
	if again, err = p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: l.op(path), Secrets: r.Secrets}); err != nil || !again.Op.Changed || again.Revision == res.Revision {
		t.Errorf("another value: %+v, %v", again, err)
	}
}

// TestF92ExecWithoutEnd: an exec whose end the server never told has no code.
func TestF92ExecWithoutEnd(t *testing.T) {
	l := newScriptedLive(t)
	p, path := l.provider(t), l.make(1)
	l.api.mu.Lock()
	l.api.silent = true
	l.api.mu.Unlock()
	res, err := p.ExecWorkload(t.Context(), sdk.ExecWorkloadRequest{Op: l.op(path), Command: sdk.Argv{"true"}})
	if err != nil || res.ExitCode != nil || !strings.Contains(res.Why, "before the command's end was told") || res.Instance == "" {
		t.Errorf("got %+v, %v", res, err)
	}
	l.api.mu.Lock()
	l.api.silent = false
	l.api.mu.Unlock()
	res, err = p.ExecWorkload(t.Context(), sdk.ExecWorkloadRequest{Op: l.op(path), Command: sdk.Argv{"/no/such/program"}})
	if err != nil || res.ExitCode != nil || !strings.Contains(res.Why, "/no/such/program") {
		t.Errorf("a command that isn't there: %+v, %v", res, err)
	}
}

// TestF95UnseenAutoscaler: where autoscalers can't be read a count isn't changed
// unless told, and the status says so.
func TestF95UnseenAutoscaler(t *testing.T) {
	l := newScriptedLive(t)
	p, path := l.provider(t), l.make(1)
	l.api.mu.Lock()
	l.api.denied = []string{"horizontalpodautoscalers"}
	l.api.mu.Unlock()
	st, err := p.WorkloadStatus(t.Context(), sdk.WorkloadStatusRequest{Path: path})
	if err != nil || !strings.Contains(strings.Join(st.Status.Warnings, ""), "horizontalpodautoscalers") {
		t.Errorf("status: %+v, %v", st.Status.Warnings, err)
	}
	r := sdk.ScaleWorkloadRequest{Op: l.op(path), Replicas: 3}
	if _, err := p.ScaleWorkload(t.Context(), r); !errors.Is(err, sdk.PermissionDenied) {
		t.Errorf("scale: %v", err)
	}
	r.Op.AgainstAutoscaler = true
	if res, err := p.ScaleWorkload(t.Context(), r); err != nil || !res.Op.Changed {
		t.Errorf("scale as told: %+v, %v", res, err)
	}
}

// TestF99StopAndAutoscaler: an autoscaler rests while there are no replicas, which is
// said; a start brings back what was there, and it goes on.
func TestF99StopAndAutoscaler(t *testing.T) {
	l := newScriptedLive(t)
	p, path := l.provider(t), l.make(4)
	l.api.add("horizontalpodautoscalers", l.ns, l.autoscaler(path, 2, 9))
	op := l.op(path)
	op.AgainstAutoscaler = true
	stop, err := p.StopWorkload(t.Context(), sdk.StopWorkloadRequest{Op: op})
	if err != nil || stop.Restores == nil || *stop.Restores != 4 || !strings.Contains(strings.Join(stop.Op.Warnings, ""), "does nothing while the count is 0") {
		t.Fatalf("stop: %+v, %v", stop, err)
	}
	start, err := p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: l.op(path)})
	if err != nil || !strings.Contains(strings.Join(start.Op.Warnings, ""), "between 2 and 9") {
		t.Fatalf("start: %+v, %v", start, err)
	}
	if d := l.deployment(t, path); *d.Spec.Replicas != 4 || d.Annotations["windlass.run/restores"] != "" {
		t.Errorf("started with %d, %v", *d.Spec.Replicas, d.Annotations)
	}
	// Without replicas for another reason nothing is noted.
	op = l.op(path)
	op.AgainstAutoscaler = true
	if _, err := p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: op}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: l.op(path)}); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("start of what has none: %v", err)
	}
	two := 2
	if res, err := p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: l.op(path), Replicas: &two}); err != nil || !res.Op.Changed {
		t.Errorf("start with two: %+v, %v", res, err)
	}
}

// TestF102Warming: until there is a measurement nothing is given as one; a cluster
// without a metrics API says so.
func TestF102Warming(t *testing.T) {
	l := newScriptedLive(t)
	p, path := l.provider(t), l.make(1)
	const rounds = 3
	l.api.mu.Lock()
	l.api.unmeasured = rounds
	l.api.mu.Unlock()
	warming := 0
	for it, err := range p.StreamMetrics(t.Context(), sdk.StreamMetricsRequest{Paths: []sdk.WorkloadPath{path}, Interval: time.Millisecond}) {
		switch {
		case err != nil || it.Failed != nil:
			t.Fatal(err, it.Failed)
		case it.Warming != "":
			warming++
			continue
		}
		if m := it.Sample; *m.CPU != 2 || *m.Memory != 2<<20 || m.Received != nil || m.Restarts == nil {
			t.Errorf("the sample is %+v", m)
		}
		break
	}
	if warming != rounds {
		t.Errorf("warming %d times, want %d", warming, rounds)
	}
	l.api.mu.Lock()
	l.api.unmeasured = -1
	l.api.mu.Unlock()
	for it, err := range p.StreamMetrics(t.Context(), sdk.StreamMetricsRequest{Paths: []sdk.WorkloadPath{path}}) {
		if err != nil {
			t.Fatal(err)
		}
		if !errors.Is(it.Failed, sdk.FailedPrecondition) || !strings.Contains(it.Failed.Error(), "metrics API") {
			t.Errorf("without a metrics API: %+v", it)
		}
		break
	}
}

// TestOtherWriter: a change that meets another writer is decided again on what is
// there then, and made once; it doesn't go on for ever.
func TestOtherWriter(t *testing.T) {
	l := newScriptedLive(t)
	p, path := l.provider(t), l.make(1)
	busy := func(n int) {
		l.api.mu.Lock()
		defer l.api.mu.Unlock()
		l.api.busy = n
	}
	busy(3)
	before := l.changes(path)
	if res, err := p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: l.op(path), Replicas: 2}); err != nil || !res.Op.Changed {
		t.Errorf("%+v, %v", res, err)
	}
	if n := l.changes(path) - before; n != 1 {
		t.Errorf("%d changes", n)
	}
	busy(1000)
	if _, err := p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: l.op(path), Replicas: 3}); !errors.Is(err, sdk.Aborted) {
		t.Errorf("got %v", err)
	}
}

// TestChangeOfWhatWasLookedAt: a change that follows a look is bound to what that saw,
// and reads nothing again. Where somebody came between, it is decided anew.
func TestChangeOfWhatWasLookedAt(t *testing.T) {
	l := newScriptedLive(t)
	p, path := l.provider(t), l.make(1)
	look := func() sdk.DeploymentStatus {
		t.Helper()
		res, err := p.WorkloadStatus(t.Context(), sdk.WorkloadStatusRequest{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		return res.Status
	}
	look()
	reads := l.calls.Count("deployments.get")
	if _, err := p.RestartWorkload(t.Context(), sdk.RestartWorkloadRequest{Op: l.op(path)}); err != nil {
		t.Fatal(err)
	}
	if n := l.calls.Count("deployments.get") - reads; n != 0 {
		t.Errorf("%d reads behind the look", n)
	}
	if _, err := p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: l.op(path), Replicas: 2}); err != nil {
		t.Fatal(err)
	}
	if n := l.calls.Count("deployments.get") - reads; n != 1 {
		t.Errorf("%d reads, want that of the second change", n)
	}
	// Another provider changes it behind our look.
	other := l.provider(t)
	before := look()
	if _, err := other.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: l.op(path), Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	op := l.op(path)
	op.Expect.Generation = before.Generation
	if _, err := p.RestartWorkload(t.Context(), sdk.RestartWorkloadRequest{Op: op}); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("what was expected isn't there any more: %v", err)
	}
	look()
	if _, err := other.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: l.op(path), Replicas: 4}); err != nil {
		t.Fatal(err)
	}
	if res, err := p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: l.op(path), Replicas: 3}); err != nil || !res.Op.Changed {
		t.Errorf("to the count that was seen: %+v, %v", res.Op, err)
	}
}

// TestKeepsWhatItDeclared: a change leaves what earlier ones declared as it is, and
// what others declared alone.
func TestKeepsWhatItDeclared(t *testing.T) {
	l := newScriptedLive(t)
	p, path := l.provider(t), l.make(1)
	l.configure(t, p, path, map[string]string{"A": "1", "B": "2"})
	if _, err := p.RestartWorkload(t.Context(), sdk.RestartWorkloadRequest{Op: l.op(path)}); err != nil {
		t.Fatal(err)
	}
	scaled, err := p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: l.op(path), Replicas: 3})
	if err != nil || !strings.Contains(strings.Join(scaled.Op.Warnings, ""), "kubectl declares the count too") {
		t.Fatalf("%+v, %v", scaled, err)
	}
	if _, err := p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: l.op(path), Unset: []string{"A"}}); err != nil {
		t.Fatal(err)
	}
	d := l.deployment(t, path)
	var names []string
	for _, e := range d.Spec.Template.Spec.Containers[0].Env {
		names = append(names, e.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"B", "OWN"}) || *d.Spec.Replicas != 3 || d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "" {
		t.Errorf("variables %v, %d replicas, annotations %v", names, *d.Spec.Replicas, d.Spec.Template.Annotations)
	}
	for what, r := range map[string]sdk.ApplyConfigRequest{"set": {Set: map[string]string{"OWN": "mine"}}, "unset": {Unset: []string{"OWN"}}} {
		r.Op = l.op(path)
		if _, err := p.ApplyConfig(t.Context(), r); !errors.Is(err, sdk.FailedPrecondition) {
			t.Errorf("%s a variable of somebody else: %v", what, err)
		}
	}
}

// TestSettingsOfOldTemplates: as many stay as the cluster keeps old templates, the one
// that is used among them.
func TestSettingsOfOldTemplates(t *testing.T) {
	l := newScriptedLive(t)
	p, path := l.provider(t), l.make(1)
	for i := range 13 {
		if res := l.configure(t, p, path, map[string]string{"N": strings.Repeat("x", i+1)}); len(res.Op.Warnings) > 0 {
			t.Errorf("warnings: %q", res.Op.Warnings)
		}
	}
	l.api.mu.Lock()
	n := len(l.api.objects["configmaps"])
	l.api.mu.Unlock()
	if n != 11 {
		t.Errorf("%d ConfigMaps are left, want 11", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out strings.Builder
	if _, err := p.ExecWorkload(ctx, sdk.ExecWorkloadRequest{Op: l.op(path), Command: shellCommand(`printf %s "$N"`), Stdout: &out}); err != nil || len(out.String()) != 13 {
		t.Errorf("the pod sees %q, %v", out.String(), err)
	}
}

// TestDaemonSetHasNoCount: what has no count can be neither scaled nor stopped, and it
// runs.
func TestDaemonSetHasNoCount(t *testing.T) {
	l := newScriptedLive(t)
	p := l.provider(t)
	l.kind = "daemonset"
	name := l.name()
	l.api.add("daemonsets", l.ns, l.manifest(name, 0))
	path := l.path(name)
	if _, err := p.ScaleWorkload(t.Context(), sdk.ScaleWorkloadRequest{Op: l.op(path), Replicas: 1}); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("scale: %v", err)
	}
	if _, err := p.StopWorkload(t.Context(), sdk.StopWorkloadRequest{Op: l.op(path)}); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("stop: %v", err)
	}
	if res, err := p.StartWorkload(t.Context(), sdk.StartWorkloadRequest{Op: l.op(path)}); err != nil || res.Op.Changed {
		t.Errorf("start: %+v, %v", res, err)
	}
	if res, err := p.RestartWorkload(t.Context(), sdk.RestartWorkloadRequest{Op: l.op(path)}); err != nil || !res.Op.Changed || res.Op.Rollout == "" {
		t.Errorf("restart: %+v, %v", res, err)
	}
}

// TestListsOwnNamespace: who may not list all namespaces sees the provider's own.
func TestListsOwnNamespace(t *testing.T) {
	l := newScriptedLive(t)
	p, path := l.provider(t), l.make(1)
	l.api.mu.Lock()
	l.api.narrow = true
	l.api.mu.Unlock()
	var got []sdk.WorkloadPath
	for it, err := range p.ListWorkloads(t.Context(), sdk.ListWorkloadsRequest{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, it.Path)
	}
	if !slices.Equal(got, []sdk.WorkloadPath{path}) {
		t.Errorf("listed %v", got)
	}
}

// TestNoWorkloadAPI: an API server that serves no Deployments has none, and a listing
// of several providers isn't broken by it.
func TestNoWorkloadAPI(t *testing.T) {
	w := newWorld(t, nil)
	for it, err := range w.Open().ListWorkloads(t.Context(), sdk.ListWorkloadsRequest{}) {
		t.Errorf("%+v, %v", it, err)
	}
}

// TestReplacesNoPod: where the strategy leaves pods as they are, a restart and a change
// of settings are refused before anything is changed; one that ends all pods first says
// so.
func TestReplacesNoPod(t *testing.T) {
	for _, k := range []struct {
		name, kind string
		spec       map[string]any
		want       string
	}{
		{"OnDelete", "statefulset", map[string]any{"updateStrategy": map[string]any{"type": "OnDelete"}}, "OnDelete"},
		{"a partition", "statefulset", map[string]any{"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"partition": 2}}}, "partition 2"},
		{"OnDelete of a DaemonSet", "daemonset", map[string]any{"updateStrategy": map[string]any{"type": "OnDelete"}}, "OnDelete"},
		{"paused", "deployment", map[string]any{"paused": true}, "paused"},
		{"Recreate", "deployment", map[string]any{"strategy": map[string]any{"type": "Recreate"}}, ""},
	} {
		l := newScriptedLive(t)
		l.kind = k.kind
		p, name := l.provider(t), l.name()
		m := l.manifest(name, 3)
		maps.Copy(m["spec"].(map[string]any), k.spec) //nolint:forcetypeassert // it was made so
		l.api.add(k.kind+"s", l.ns, m)
		path, before := l.path(name), l.api.serve.Recorder.Count(k.kind+"s.patch")
		restart, rerr := p.RestartWorkload(t.Context(), sdk.RestartWorkloadRequest{Op: l.op(path)})
		if k.want == "" {
			if rerr != nil || !strings.Contains(strings.Join(restart.Op.Warnings, "\n"), "all its pods end before new ones start") {
				t.Errorf("%s: %+v, %v", k.name, restart, rerr)
			}
			continue
		}
		_, cerr := p.ApplyConfig(t.Context(), sdk.ApplyConfigRequest{Op: l.op(path), Set: map[string]string{"A": "x"}})
		for what, err := range map[string]error{"restart": rerr, "config": cerr} {
			if !errors.Is(err, sdk.FailedPrecondition) || !strings.Contains(err.Error(), k.want) {
				t.Errorf("%s of one with %s: %v", what, k.name, err)
			}
		}
		if n := l.api.serve.Recorder.Count(k.kind+"s.patch") - before; n != 0 {
			t.Errorf("%s: %d changes", k.name, n)
		}
	}
}

//go:build linux

package argo

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/internal/testneed/cluster"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// realNamespace is the only one that the cluster's workflow controller looks at.
const realNamespace = "argo"

// real is a real cluster with Argo, and providers on it that reach the API server
// through a gate, where calls are recorded and go wrong.
type real struct {
	*world
	cluster *cluster.Cluster
}

func newReal(t testing.TB, c *cluster.Cluster) *real {
	t.Helper()
	target, err := url.Parse(c.Server)
	if err != nil {
		t.Fatal(err)
	}
	gate := pocket.NewGate(target, c.Client().Transport)
	return &real{cluster: c, world: &world{calls: gate.Calls(), World: drivertest.New[*provider](t, drivertest.Setup{
		Driver:       Driver,
		Config:       map[string]any{"rate": 1000, "log_stall": "10s"},
		Credentials:  map[string]string{"KUBECONFIG": kubeconfig(t, drivertest.Serve(t, gate), realNamespace)},
		Faults:       gate.Faults(),
		Calls:        gate.Calls(),
		Throttle:     pocket.Throttle(),
		NoEntrypoint: true,
		Patience:     patience,
	})}}
}

// canMark lets jobs leave marks: their folder is a volume.
func (w *real) canMark() sdk.Mount {
	t := w.T
	t.Helper()
	name := "marks-" + strings.ToLower(filepath.Base(filepath.Dir(w.MarkDir()))+filepath.Base(w.MarkDir()))
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name)
	if err := os.Chmod(w.MarkDir(), 0o777); err != nil {
		t.Fatal(err)
	}
	size := map[string]any{"storage": "1Gi"}
	w.cluster.Do(t, http.MethodPost, "/api/v1/persistentvolumes", map[string]any{"metadata": map[string]any{"name": name}, "spec": map[string]any{
		"capacity": size, "accessModes": []string{"ReadWriteMany"}, "hostPath": map[string]any{"path": w.MarkDir()}, "persistentVolumeReclaimPolicy": "Retain",
		"claimRef": map[string]any{"namespace": realNamespace, "name": name}}}, nil)
	w.cluster.Do(t, http.MethodPost, "/api/v1/namespaces/"+realNamespace+"/persistentvolumeclaims", map[string]any{"metadata": map[string]any{"name": name}, "spec": map[string]any{
		"accessModes": []string{"ReadWriteMany"}, "storageClassName": "", "volumeName": name, "resources": map[string]any{"requests": size}}}, nil)
	t.Cleanup(func() {
		for _, path := range []string{"/api/v1/namespaces/" + realNamespace + "/persistentvolumeclaims/" + name, "/api/v1/persistentvolumes/" + name} {
			r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodDelete, w.cluster.Server+path, http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := w.cluster.Client().Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			_ = resp.Body.Close()
		}
	})
	return sdk.Mount{Type: sdk.MountVolume, Source: name, Target: w.MarkDir()}
}

func (w *real) cleanUp(p *provider, h sdk.JobHandle) {
	w.T.Helper()
	if _, err := p.CleanupJob(w.T.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
		w.T.Error(err)
	}
	for o, err := range p.ListOwned(w.T.Context(), sdk.ListOwnedRequest{Owner: p.owner}) {
		w.T.Errorf("left: %+v, %v", o, err)
	}
}

func code(st sdk.JobStatusResult) string {
	if st.ExitCode == nil {
		return "none"
	}
	return fmt.Sprint(*st.ExitCode)
}

// TestReal holds the driver against a real cluster with Argo's own controller and
// executor. Its parts mostly wait, and share a namespace: each has an owner of its own.
func TestReal(t *testing.T) {
	t.Parallel()
	c := cluster.Join(t, cluster.Argo)
	type check struct {
		name string
		run  func(t *testing.T, c *cluster.Cluster)
	}
	checks := []check{{"exit codes", realExitCodes}, {"cancel", realCancel}, {"cancel early", realCancelEarly}, {"deadline", realDeadline}, {"oom", realOOM},
		{"TTL", realTTL}, {"text", realText}, {"delete in flight", realDelete}}
	// What these name stands above, with more of what Argo says, or is Kubernetes' own,
	// which the tests of that driver have.
	own := []string{"exit-codes", "signal", "cancel-running", "oom", "secret-delivered", "stdin-none", "workdir", "log-text", "log-empty"}
	for i, names := range drivertest.RealShards(t, shards, own...) {
		checks = append(checks, check{fmt.Sprintf("suite %d of %d", i+1, shards), realSuite(names)})
	}
	for _, k := range checks {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			k.run(t, c)
		})
	}
}

// realExitCodes: the code is the process's own; a program that isn't there has Argo's
// 64. The output is the job's, and Argo's lines are told apart.
func realExitCodes(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	for _, k := range []struct {
		spec  sdk.JobSpec
		want  string
		state sdk.JobState
		text  string
	}{
		{shell("echo out; echo err >&2"), "0", sdk.StateSucceeded, "err\nout\n"},
		{shell("echo seven; exit 7"), "7", sdk.StateFailed, "seven\n"},
		{shell("nosuchprogram"), "127", sdk.StateFailed, "/bin/sh: nosuchprogram: not found\n"},
		{shell("kill -9 $$"), "137", sdk.StateFailed, ""},
		{sdk.JobSpec{Image: "busybox:local", Entrypoint: sdk.Argv{"/nosuchprogram"}}, "64", sdk.StateFailed, ""},
	} {
		h := w.Run(p, w.Plan(p, k.spec))
		st := w.Ended(p, h)
		if st.State != k.state || code(st) != k.want || st.Launches != 1 || st.StartedAt.IsZero() || st.EndedAt.IsZero() {
			t.Errorf("%q: got %s %s, code %s, %d launches, %s to %s: %v", k.spec.Args, st.State, st.Reason, code(st), st.Launches, st.StartedAt, st.EndedAt, st.Raw)
		}
		if st.Raw["node.exit_code"] != k.want {
			t.Errorf("%q: Argo's own code is %q", k.spec.Args, st.Raw["node.exit_code"])
		}
		job, system := w.texts(p, h, true)
		if k.text == "err\nout\n" && job == "out\nerr\n" {
			job = k.text // two streams, in either order
		}
		if job != k.text || !strings.Contains(system, "argo=true") && !strings.Contains(system, "Error: ") {
			t.Errorf("%q: the job's output is %q, Argo's %q", k.spec.Args, job, system)
		}
		w.cleanUp(p, h)
	}
}

// realCancel: a Workflow that is terminated ends by TERM, with its true code and its
// whole output; one that ignores TERM by KILL after the grace.
func realCancel(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	grace := 3 * time.Second
	for script, want := range map[string]string{
		"trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.1; done": "5",
		"trap '' TERM; echo up; while :; do sleep 0.1; done":                 "137",
	} {
		spec := shell(script)
		spec.Grace = &grace
		h := w.Run(p, w.Plan(p, spec))
		w.Running(p, h)
		w.Eventually("output", func() bool { return strings.Contains(w.now(p, h), "up\n") })
		res, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h})
		if err != nil || !res.Accepted {
			t.Fatalf("cancel: %+v, %v", res, err)
		}
		st := w.Ended(p, h)
		if st.State != sdk.StateCancelled || code(st) != want {
			t.Errorf("got %s %s, code %s, want %s: %v", st.State, st.Reason, code(st), want, st.Raw)
		}
		text := "up\nbye\n"
		if want == "137" {
			text = "up\n"
		}
		// Argo's TERM reaches the shell's child too, of which the shell tells.
		if job := strings.ReplaceAll(w.own(p, h), "Terminated\n", ""); job != text {
			t.Errorf("the output is %q", job)
		}
		w.cleanUp(p, h)
	}
}

// now is what the job has written so far.
func (w *world) now(p *provider, h sdk.JobHandle) string {
	w.T.Helper()
	job, _ := w.texts(p, h, false)
	return job
}

// realCancelEarly: a job that can't start is proven never to have run.
func realCancelEarly(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	for name, k := range map[string]struct {
		change func(s *sdk.JobSpec)
		reason sdk.Reason
	}{
		"image":         {func(s *sdk.JobSpec) { s.Image = "nowhere.invalid/none:1" }, sdk.ReasonImagePull},
		"unschedulable": {func(s *sdk.JobSpec) { s.Options = []byte(`{"node_selector":{"disk":"none"}}`) }, sdk.ReasonUnschedulable},
	} {
		spec := shell("true")
		k.change(&spec)
		h := w.Run(p, w.Plan(p, spec))
		w.Eventually("reason of "+name, func() bool { st := w.Status(p, h); return st.State == sdk.StatePending && st.Reason == k.reason })
		if _, err := p.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil {
			t.Fatal(err)
		}
		if st := w.Ended(p, h); st.State != sdk.StateCancelled || st.Launches != 0 || st.ExitCode != nil {
			t.Errorf("%s: %s after %d launches, code %s: %v", name, st.State, st.Launches, code(st), st.Raw)
		}
		if job, _ := w.texts(p, h, true); job != "" {
			t.Errorf("%s: the output is %q", name, job)
		}
		w.cleanUp(p, h)
	}
}

// realDeadline: the pod has the deadline that was planned, and the kubelet ends it by
// that; the code and the output stay.
func realDeadline(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	spec := shell("trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.1; done")
	spec.Timeout = time.Minute
	l := w.Plan(p, spec)
	h := w.Run(p, l)
	w.Running(p, h)
	w.Eventually("output", func() bool { return strings.Contains(w.now(p, h), "up\n") })
	pods, err := p.podsOf(t.Context(), "look", h)
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	if d := pods[0].Spec.ActiveDeadlineSeconds; d == nil || time.Duration(*d)*time.Second != l.NativeDeadline {
		t.Errorf("the pod's deadline is %v, planned were %s", d, l.NativeDeadline)
	}
	// Only what is over sooner is fit for a test.
	c.Do(t, http.MethodPatch, "/api/v1/namespaces/"+realNamespace+"/pods/"+pods[0].Name, map[string]any{"spec": map[string]any{"activeDeadlineSeconds": 1}}, nil)
	st := w.Ended(p, h)
	if st.State != sdk.StateFailed || st.Reason != sdk.ReasonTimedOut || code(st) != "5" {
		t.Errorf("got %s %s, code %s: %v", st.State, st.Reason, code(st), st.Raw)
	}
	if job := strings.ReplaceAll(w.own(p, h), "Terminated\n", ""); job != "up\nbye\n" {
		t.Errorf("the output is %q", job)
	}
	w.cleanUp(p, h)
}

func realOOM(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	spec := shell("echo up; x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done")
	spec.Memory = 64 << 20
	h := w.Run(p, w.Plan(p, spec))
	if st := w.Ended(p, h); st.State != sdk.StateFailed || st.Reason != sdk.ReasonOOMKilled || !st.OOMObserved || code(st) != "137" {
		t.Errorf("got %s %s, code %s: %v", st.State, st.Reason, code(st), st.Raw)
	}
	w.cleanUp(p, h)
}

// realTTL: Argo deletes a Workflow that nobody cleans up.
func realTTL(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	spec := shell("true")
	spec.TTL = 5 * time.Second
	h := w.Run(p, w.Plan(p, spec))
	if st := w.Ended(p, h); code(st) != "0" {
		t.Errorf("the code is %s: %v", code(st), st.Raw)
	}
	w.Eventually("end of the Workflow", func() bool {
		_, err := p.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h})
		return sdk.CodeOf(err) == sdk.NotFound
	})
	w.Eventually("end of the pod", func() bool {
		pods, err := p.podsOf(t.Context(), "look", h)
		return err == nil && len(pods) == 0
	})
}

// realText: what looks like Argo's or Kubernetes' variables reaches the program as it
// was typed.
func realText(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	spec := shell(`printf '%s\n' "$@"; printf '%s\n' "$V"`)
	want := []string{"{{workflow.name}}", "{{=1+1}}", "{{", "{{{x}}}", "$(HOME)", "$$", "{", "}}", `a "b" 'c' \d`, "é家🚀", "two\nlines"}
	spec.Args = append(append(spec.Args, "sh"), want...)
	spec.Env = sdk.Env{"V": "{{pod.name}} $(HOME)"}
	h := w.Run(p, w.Plan(p, spec))
	if st := w.Ended(p, h); st.State != sdk.StateSucceeded {
		t.Fatalf("the job is %s: %s", st.State, st.Message)
	}
	if got := w.own(p, h); got != strings.Join(append(want, spec.Env["V"]), "\n")+"\n" {
		t.Errorf("the program got %q", got)
	}
	w.cleanUp(p, h)
}

// realDelete: a Workflow that is deleted while it runs is gone with its pod.
func realDelete(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	grace := 2 * time.Second
	spec := shell("sleep 1000")
	spec.Grace = &grace
	h := w.Run(p, w.Plan(p, spec))
	w.Running(p, h)
	for o, err := range p.ListOwned(t.Context(), sdk.ListOwnedRequest{Owner: p.owner}) {
		if err != nil {
			t.Fatal(err)
		}
		if !o.Live {
			t.Errorf("a running Workflow isn't live: %+v", o)
		}
		if _, err := p.RemoveOwned(t.Context(), sdk.RemoveOwnedRequest{Object: o}); err != nil {
			t.Error(err)
		}
	}
	if pods, err := p.podsOf(t.Context(), "look", h); err != nil || len(pods) > 0 {
		t.Errorf("%d pods are left, %v", len(pods), err)
	}
}

// shards is in how many parts the suite runs at once.
const shards = 6

// realSuite is the part of the suite of the contract that has these checks.
func realSuite(names []string) func(t *testing.T, c *cluster.Cluster) {
	return func(t *testing.T, c *cluster.Cluster) {
		w := newReal(t, c)
		marks := w.canMark()
		h := w.Harness(drivertest.Hooks{Action: actionOf, PutSecret: w.putSecret, Left: w.left, Vanish: w.vanish, Relabel: relabel})
		h.Exposed = func(providertest.T, sdk.JobHandle) map[string][]byte { return w.exposed() }
		behave := h.Behave
		h.Behave = func(t providertest.T, b providertest.Behaviour) (sdk.JobSpec, error) {
			spec, err := behave(t, b)
			spec.Mounts = append(spec.Mounts, marks)
			return spec, err
		}
		h.Second, h.Poll, h.Eventually, h.Only = time.Second, 300*time.Millisecond, patience, names
		h.Parallel = 4 // each is a pod of four containers
		// Argo's executor is the first process of the job's container: within 64 MiB the
		// kernel finds none that is bigger, and kills it in place of a child.
		h.Memory = 256 << 20
		providertest.Run(t, h)
	}
}

//go:build linux

package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	pocket "github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/internal/testneed/cluster"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
)

// patience is for a machine that has other things to do than to run a cluster.
const patience = 5 * time.Minute

// real is a namespace of a real cluster with providers on it.
type real struct {
	*world
	cluster *cluster.Cluster
	ns      string
}

// newReal makes a namespace. Its providers reach the API server as anybody does.
func newReal(t testing.TB, c *cluster.Cluster) *real {
	t.Helper()
	ns := c.Namespace(t)
	data, err := os.ReadFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return realWorld(t, c, ns, writeKubeconfig(t, data), fault.NewPlan(0), fault.NewRecorder(false))
}

// newGated makes a namespace whose providers reach the API server through a gate,
// where calls are recorded and go wrong.
func newGated(t testing.TB, c *cluster.Cluster) *real {
	t.Helper()
	ns := c.Namespace(t)
	target, err := url.Parse(c.Server)
	if err != nil {
		t.Fatal(err)
	}
	gate := pocket.NewGate(target, c.Client().Transport)
	data, err := os.ReadFile(kubeconfig(t, drivertest.Serve(t, gate), ns))
	if err != nil {
		t.Fatal(err)
	}
	return realWorld(t, c, ns, writeKubeconfig(t, data), gate.Faults(), gate.Calls())
}

func writeKubeconfig(t testing.TB, data []byte) string {
	t.Helper()
	file := t.TempDir() + "/kubeconfig"
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func realWorld(t testing.TB, c *cluster.Cluster, ns, kubeconfig string, plan *fault.Plan, calls *fault.Recorder) *real {
	t.Helper()
	w := drivertest.New[*provider](t, drivertest.Setup{
		Driver:      Driver,
		Config:      map[string]any{"rate": 1000, "log_stall": "10s", "namespace": ns},
		Credentials: map[string]string{"KUBECONFIG": kubeconfig},
		Faults:      plan,
		Calls:       calls,
		Throttle:    pocket.Throttle(),
		Patience:    patience,
	})
	return &real{world: &world{World: w, calls: calls}, cluster: c, ns: ns}
}

// canMark lets jobs leave marks: their folder is a volume of the namespace.
func (w *real) canMark() sdk.Mount {
	t := w.T
	t.Helper()
	size := map[string]any{"storage": "1Gi"}
	w.cluster.Do(t, http.MethodPost, "/api/v1/persistentvolumes", map[string]any{"metadata": map[string]any{"name": w.ns}, "spec": map[string]any{
		"capacity": size, "accessModes": []string{"ReadWriteMany"}, "hostPath": map[string]any{"path": w.MarkDir()}, "persistentVolumeReclaimPolicy": "Retain",
		"claimRef": map[string]any{"namespace": w.ns, "name": "marks"}}}, nil)
	t.Cleanup(func() {
		c := w.cluster.Client()
		r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodDelete, w.cluster.Server+"/api/v1/persistentvolumes/"+w.ns, http.NoBody)
		if err != nil {
			t.Error(err)
			return
		}
		if resp, err := c.Do(r); err != nil {
			t.Error(err)
		} else {
			_ = resp.Body.Close()
		}
	})
	w.cluster.Do(t, http.MethodPost, "/api/v1/namespaces/"+w.ns+"/persistentvolumeclaims", map[string]any{"metadata": map[string]any{"name": "marks"}, "spec": map[string]any{
		"accessModes": []string{"ReadWriteMany"}, "storageClassName": "", "volumeName": w.ns, "resources": map[string]any{"requests": size}}}, nil)
	return sdk.Mount{Type: sdk.MountVolume, Source: "marks", Target: w.MarkDir()}
}

// pod is the name of a handle's only pod.
func (w *real) pod(p *provider, h sdk.JobHandle) string {
	w.T.Helper()
	s, err := p.look(w.T.Context(), "look", h)
	if err != nil || len(s.pods) != 1 {
		w.T.Fatalf("%d pods, %v; want one", len(s.pods), err)
	}
	return s.pods[0].Name
}

func (w *real) at(resource, name string) string {
	group := "/api/v1"
	if resource == "jobs" {
		group = "/apis/batch/v1"
	}
	return group + "/namespaces/" + w.ns + "/" + resource + "/" + name
}

// printed waits until a running job's log has a text.
func (w *real) printed(p *provider, h sdk.JobHandle, want string) {
	w.T.Helper()
	w.Running(p, h)
	w.Eventually("output "+want, func() bool {
		text, _ := w.Text(p, h, nil)
		return strings.Contains(text, want)
	})
}

func (w *real) cleanUp(p *provider, h sdk.JobHandle) {
	w.T.Helper()
	if _, err := p.CleanupJob(w.T.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
		w.T.Error(err)
	}
	for o, err := range p.ListOwned(w.T.Context(), sdk.ListOwnedRequest{}) {
		w.T.Errorf("left: %+v, %v", o, err)
	}
}

func (w *real) cancel(p *provider, h sdk.JobHandle) {
	w.T.Helper()
	if _, err := p.CancelJob(w.T.Context(), sdk.CancelJobRequest{Handle: h, Why: "test"}); err != nil {
		w.T.Fatal(err)
	}
}

// TestReal holds the driver against a real cluster: what is said of Kubernetes here
// and in internal/pocket/kube is what one does.
func TestReal(t *testing.T) {
	t.Parallel()
	c := cluster.Join(t, cluster.Node)
	type check struct {
		name string
		run  func(t *testing.T, c *cluster.Cluster)
	}
	checks := []check{{"many", realMany}, {"ends", realEnds}, {"sidecars", realSidecars}, {"memory", realMemory}, {"image", realImage},
		{"unschedulable", realUnschedulable}, {"deadline", realDeadline}, {"cancel", realCancel}, {"kill", realKill}, {"secrets and profile", realSecrets}, {"deleted", realDeleted}, {"F54 progress bar", realF54ProgressBar}}
	// What these name stands above, with more of what Kubernetes says.
	own := []string{"exit-codes", "signal", "cancel-running", "cancel-twice", "cancel-grace", "concurrent", "oom", "secret-delivered"}
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

// TestRealUpset breaks parts of a cluster, which is its own: others run on the shared
// one at the same time.
func TestRealUpset(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Node)
	t.Run("F55 API server restarts", func(t *testing.T) { realF55APIServer(t, c) })
	t.Run("kubelet restarts", func(t *testing.T) { realKubelet(t, c) })
	t.Run("eviction", func(t *testing.T) { realEviction(t, c) })
}

// realEnds: exit codes are the process's, whatever they mean to a shell, and a
// command that isn't there has none.
func realEnds(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	for script, want := range map[string]int{"exit 0": 0, "echo out; echo err >&2; exit 7": 7, "no-such-command": 127, "sh -c 'kill -9 $$'; exit $?": 137} {
		t.Run(script, func(t *testing.T) {
			h := w.Run(p, w.Plan(p, shell(script)))
			st := w.Ended(p, h)
			state, reason := sdk.StateFailed, sdk.ReasonNonzeroExit
			if want == 0 {
				state, reason = sdk.StateSucceeded, sdk.ReasonCompleted
			}
			if st.State != state || st.Reason != reason || st.ExitCode == nil || *st.ExitCode != want || st.Launches != 1 {
				t.Errorf("got %s %s, code %s, %d launches: %v", st.State, st.Reason, code(st), st.Launches, st.Raw)
			}
			if st.StartedAt.IsZero() || st.EndedAt.Before(st.StartedAt) {
				t.Errorf("it ran from %s to %s", st.StartedAt, st.EndedAt)
			}
			// Two streams, in either order.
			if text, _ := w.Text(p, h, nil); want == 7 && text != "out\nerr\n" && text != "err\nout\n" {
				t.Errorf("the log is %q", text)
			}
			w.cleanUp(p, h)
		})
	}
	t.Run("no program", func(t *testing.T) {
		spec := shell("")
		spec.Args = sdk.Argv{"/no/such/program"}
		h := w.Run(p, w.Plan(p, spec))
		st := w.Ended(p, h)
		if st.State != sdk.StateFailed || st.Reason != sdk.ReasonInvalidSpec || st.ExitCode != nil || st.Launches != 0 || !strings.Contains(st.Message, "/no/such/program") {
			t.Errorf("got %s %s, code %s, %d launches: %s", st.State, st.Reason, code(st), st.Launches, st.Message)
		}
		if text, err := w.Follow(t.Context(), p, h, nil); text != "" || err != nil {
			t.Errorf("the log is %q, %v", text, err)
		}
		w.cleanUp(p, h)
	})
}

func code(st sdk.JobStatusResult) string {
	if st.ExitCode == nil {
		return "absent"
	}
	return fmt.Sprint(*st.ExitCode)
}

// realMemory: the kernel kills what takes too much, be it the job or a child.
func realMemory(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	spec := shell("exec tail /dev/zero")
	spec.Memory = 32 << 20
	h := w.Run(p, w.Plan(p, spec))
	if st := w.Ended(p, h); st.State != sdk.StateFailed || st.Reason != sdk.ReasonOOMKilled || st.ExitCode == nil || *st.ExitCode != 137 || !st.OOMObserved {
		t.Errorf("got %s %s, code %s, OOM %v: %v", st.State, st.Reason, code(st), st.OOMObserved, st.Raw)
	}
}

// realImage: an image that isn't there is told of while the kubelet tries on.
func realImage(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	for _, image := range []string{"registry.invalid/none:1", "UPPER/case:1"} {
		spec := shell("true")
		spec.Image = image
		h := w.Run(p, w.Plan(p, spec))
		w.Eventually("reason", func() bool {
			st := w.Status(p, h)
			return st.State == sdk.StatePending && st.Reason == sdk.ReasonImagePull && st.Message != ""
		})
		w.cancel(p, h)
		if st := w.Ended(p, h); st.State != sdk.StateCancelled || st.Launches != 0 || st.ExitCode != nil {
			t.Errorf("%s: cancelled, the job is %s %s, code %s, %d launches: %v", image, st.State, st.Reason, code(st), st.Launches, st.Raw)
		}
		w.cleanUp(p, h)
	}
}

// realUnschedulable: the scheduler's words are shown; a cancel takes away what waits.
func realUnschedulable(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	spec := shell("true")
	spec.CPU = 1000 * 1000
	h := w.Run(p, w.Plan(p, spec))
	w.Eventually("scheduler's words", func() bool {
		st := w.Status(p, h)
		return st.State == sdk.StatePending && st.Reason == sdk.ReasonUnschedulable && strings.Contains(st.Message, "Insufficient cpu")
	})
	w.cancel(p, h)
	if st := w.Ended(p, h); st.State != sdk.StateCancelled || st.Launches != 0 {
		t.Errorf("got %s %s after %d launches: %v", st.State, st.Reason, st.Launches, st.Raw)
	}
	w.cleanUp(p, h)
}

// realDeadline: a pod that passes its own deadline keeps its code and its log.
func realDeadline(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.05; done")))
	w.printed(p, h, "up")
	c.Do(t, http.MethodPatch, w.at("pods", w.pod(p, h)), map[string]any{"spec": map[string]any{"activeDeadlineSeconds": 1}}, nil)
	st := w.Ended(p, h)
	if st.State != sdk.StateFailed || st.Reason != sdk.ReasonTimedOut || st.ExitCode == nil || *st.ExitCode != 5 {
		t.Errorf("got %s %s, code %s: %v", st.State, st.Reason, code(st), st.Raw)
	}
	if text, err := w.Follow(t.Context(), p, h, nil); err != nil || text != "up\nbye\n" {
		t.Errorf("the log is %q, %v", text, err)
	}
	w.cleanUp(p, h)
}

// realCancel: a cancel is TERM; what the process does then counts, and stays.
func realCancel(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	h := w.Run(p, w.Plan(p, shell("trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.05; done")))
	w.printed(p, h, "up")
	w.cancel(p, h)
	w.cancel(p, h)
	st := w.Ended(p, h)
	if st.State != sdk.StateCancelled || st.ExitCode == nil || *st.ExitCode != 5 {
		t.Errorf("got %s %s, code %s: %v", st.State, st.Reason, code(st), st.Raw)
	}
	if text, err := w.Follow(t.Context(), p, h, nil); err != nil || text != "up\nbye\n" {
		t.Errorf("the log is %q, %v", text, err)
	}
	w.cleanUp(p, h)
}

// realKill: what ignores TERM is killed after the grace, and no sooner.
func realKill(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	grace := 3 * time.Second
	spec := shell("trap 'echo no' TERM; echo up; while :; do sleep 0.05; done")
	spec.Grace = &grace
	h := w.Run(p, w.Plan(p, spec))
	w.printed(p, h, "up")
	began := time.Now()
	w.cancel(p, h)
	st := w.Ended(p, h)
	if st.State != sdk.StateCancelled || st.ExitCode == nil || *st.ExitCode != 137 {
		t.Errorf("got %s %s, code %s: %v", st.State, st.Reason, code(st), st.Raw)
	}
	if took := time.Since(began); took < grace {
		t.Errorf("it was killed after %s, before its grace of %s", took, grace)
	}
	if text, _ := w.Text(p, h, nil); text != "up\nno\n" {
		t.Errorf("the log is %q", text)
	}
	w.cleanUp(p, h)
}

// realSecrets: a strict job has its secrets, no rights and a folder to write to.
func realSecrets(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	c.Do(t, http.MethodPost, "/api/v1/namespaces/"+w.ns+"/secrets", map[string]any{"metadata": map[string]any{"name": "db"}, "stringData": map[string]string{"key": "the cluster's"}}, nil)
	spec := shell(`echo "$A|$B|$C"; touch /tmp/x && echo written; touch /x 2>/dev/null || echo refused; grep CapEff /proc/self/status | cut -f2; [ -e /var/run/secrets ] || echo no token`)
	spec.Secrets = map[string]sdk.SecretRef{"A": "secret://k8s/db/key", "B": w.Secrets.Set("B", []byte("$(A), ours"))}
	spec.Env = sdk.Env{"C": "$(A) $$ $"}
	spec.Profile = sdk.ProfileStrict
	h := w.Run(p, w.Plan(p, spec))
	st := w.Ended(p, h)
	if text, _ := w.Text(p, h, nil); text != "the cluster's|$(A), ours|$(A) $$ $\nwritten\nrefused\n0000000000000000\nno token\n" {
		t.Errorf("%s %s; the log is %q", st.State, st.Reason, text)
	}
	w.cleanUp(p, h)
}

// realSidecars: sidecars neither keep a job alive nor fail it.
func realSidecars(t *testing.T, c *cluster.Cluster) {
	w := newReal(t, c)
	p := w.Open()
	sidecar := `{"pod":{"initContainers":[{"name":"side","image":"busybox:local","restartPolicy":"Always","command":["sh","-c","echo side; sleep 1000"]}]}}`
	for script, want := range map[string]sdk.JobState{"echo main; exit 3": sdk.StateFailed, "echo main": sdk.StateSucceeded} {
		spec := shell(script)
		spec.Options = []byte(sidecar)
		grace := 2 * time.Second
		spec.Grace = &grace
		h := w.Run(p, w.Plan(p, spec))
		st := w.Ended(p, h)
		if st.State != want || st.ExitCode == nil || (*st.ExitCode == 3) != (want == sdk.StateFailed) || st.Launches != 1 {
			t.Errorf("%s: got %s %s, code %s, %d launches: %v", script, st.State, st.Reason, code(st), st.Launches, st.Raw)
		}
		if text, err := w.Follow(t.Context(), p, h, nil); err != nil || text != "main\n" {
			t.Errorf("the log is %q, %v", text, err)
		}
		w.cleanUp(p, h)
	}
}

// realMany runs 40 Jobs at once, and looks at them in batches.
func realMany(t *testing.T, c *cluster.Cluster) {
	w := newGated(t, c)
	p := w.Open()
	const n = 40
	handles := make([]sdk.JobHandle, n)
	launches := make([]sdk.Launch, n)
	for i := range n {
		launches[i] = w.Plan(p, shell(fmt.Sprintf("echo job %d; exit %d", i, i)))
	}
	drivertest.AtOnce(n, func(i int) {
		res, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: launches[i]})
		if err != nil {
			t.Error(err)
		}
		handles[i] = res.Handle
	})
	looks := 0
	var items []sdk.JobStatusItem
	testwait.Until(t, patience, "end of all", func() bool {
		looks++
		res, err := p.JobStatuses(t.Context(), sdk.JobStatusesRequest{Handles: handles})
		if err != nil {
			t.Fatal(err)
		}
		items = res.Items
		for _, it := range items {
			if it.Err != nil {
				t.Fatal(it.Err)
			}
			if !it.Result.State.Terminal() {
				return false
			}
		}
		return true
	})
	if jobs, pods := w.Count("jobs.list"), w.Count("pods.list"); jobs != looks || pods != looks {
		t.Errorf("%d looks took %d and %d lists", looks, jobs, pods)
	}
	drivertest.AtOnce(n, func(i int) {
		if st := items[i].Result; st.ExitCode == nil || *st.ExitCode != i || st.Launches != 1 {
			t.Errorf("job %d: %s %s, code %s, %d launches", i, st.State, st.Reason, code(st), st.Launches)
		}
		if text, err := w.Follow(t.Context(), p, handles[i], nil); err != nil || text != fmt.Sprintf("job %d\n", i) {
			t.Errorf("job %d: the log is %q, %v", i, text, err)
		}
		if _, err := p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: handles[i]}); err != nil {
			t.Error(err)
		}
	})
	for o, err := range p.ListOwned(t.Context(), sdk.ListOwnedRequest{}) {
		t.Errorf("left: %+v, %v", o, err)
	}
}

// shards is in how many parts the suite runs at once: it mostly waits.
const shards = 6

// realSuite is the part of the suite of the contract that has these checks.
func realSuite(names []string) func(t *testing.T, c *cluster.Cluster) {
	return func(t *testing.T, c *cluster.Cluster) {
		w := newGated(t, c)
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
		providertest.Run(t, h)
	}
}

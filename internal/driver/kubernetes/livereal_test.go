//go:build linux

package kubernetes

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/internal/testneed/cluster"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/workloadtest"
)

// realLive is a namespace of a real cluster, which is reached through a gate where
// calls are counted and go wrong.
type realLive struct {
	*live
	c *cluster.Cluster
}

func newRealLive(t *testing.T, c *cluster.Cluster, kind string) *realLive {
	t.Helper()
	ns := c.Namespace(t)
	target, err := url.Parse(c.Server)
	if err != nil {
		t.Fatal(err)
	}
	gate := pocket.NewGate(target, c.Client().Transport)
	return &realLive{newLive(ns, kind, kubeconfig(t, drivertest.Serve(t, gate), ns), gate.Faults(), gate.Calls()), c}
}

func (l *realLive) at(name string) string {
	at := "/apis/apps/v1/namespaces/" + l.ns + "/" + l.kind + "s"
	if name != "" {
		at += "/" + name
	}
	return at
}

// make makes a workload whose pods all serve.
func (l *realLive) make(t testing.TB, replicas int) sdk.WorkloadPath {
	t.Helper()
	name := l.name()
	l.c.Do(t, http.MethodPost, l.at(""), l.manifest(name, replicas), nil)
	testwait.Until(t, patience, "workload that serves", func() bool {
		var o struct {
			Status struct {
				Ready   int `json:"readyReplicas"`
				Serving int `json:"numberReady"`
			} `json:"status"`
		}
		l.c.Do(t, http.MethodGet, l.at(name), nil, &o)
		return o.Status.Ready+o.Status.Serving == replicas
	})
	return l.path(name)
}

func (l *realLive) suite(t *testing.T) workloadtest.Harness {
	h := l.harness()
	h.Make = func(_ workloadtest.T, replicas int) sdk.WorkloadPath { return l.make(t, replicas) }
	h.Autoscale = func(_ workloadtest.T, path sdk.WorkloadPath, minimum, maximum int) {
		l.c.Do(t, http.MethodPost, "/apis/autoscaling/v2/namespaces/"+l.ns+"/horizontalpodautoscalers", l.autoscaler(path, minimum, maximum), nil)
	}
	h.Eventually, h.Poll = patience, 100*time.Millisecond
	return h
}

// TestRealLive holds live workloads against a real cluster.
func TestRealLive(t *testing.T) {
	t.Parallel()
	c := cluster.Join(t, cluster.Node)
	run := func(name, kind string, f func(t *testing.T, l *realLive)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, newRealLive(t, c, kind))
		})
	}
	suite := func(names []string) func(t *testing.T, l *realLive) {
		return func(t *testing.T, l *realLive) {
			h := l.suite(t)
			h.Only = names
			workloadtest.Run(t, h)
		}
	}
	for i, names := range liveShards() {
		run(fmt.Sprintf("deployment %d of %d", i+1, shards), "deployment", suite(names))
	}
	// What differs from kind to kind.
	run("statefulset", "statefulset", suite([]string{"list", "status", "scale", "restart", "stop-start", "start-spec", "config", "op-found", "logs-follow"}))
	run("daemonset", "daemonset", realDaemonSet)
	run("crash", "deployment", realCrash)
	run("terminal", "deployment", realTerminal)
	run("undo", "deployment", realUndo)
	run("metrics", "deployment", realMetrics)
}

// liveShards are the suite's checks in parts that run side by side. Measures have a test
// of their own: metrics-server takes half a minute for each.
func liveShards() [shards][]string {
	var out [shards][]string
	for i, k := range workloadtest.Checks() {
		if k.Name != "metrics" && k.Name != "metrics-absent" {
			out[i%shards] = append(out[i%shards], k.Name)
		}
	}
	return out
}

// rolledOut waits for the end of a rollout.
func (l *realLive) rolledOut(t *testing.T, p *provider, path sdk.WorkloadPath, rollout string) sdk.DeploymentStatus {
	t.Helper()
	var st sdk.DeploymentStatus
	testwait.Until(t, patience, "rollout", func() bool {
		r, err := p.WorkloadStatus(t.Context(), sdk.WorkloadStatusRequest{Path: path, Rollout: rollout})
		if err != nil {
			t.Fatal(err)
		}
		st = r.Status
		return st.Rollout == sdk.RolloutComplete
	})
	return st
}

// says runs a command in a workload and returns its output.
func (l *realLive) says(t *testing.T, p *provider, path sdk.WorkloadPath, command sdk.Argv) string {
	t.Helper()
	var out strings.Builder
	r, err := p.ExecWorkload(t.Context(), sdk.ExecWorkloadRequest{Op: l.op(path), Command: command, Stdout: &out})
	if err != nil || r.ExitCode == nil || *r.ExitCode != 0 {
		t.Fatalf("exec: %+v, %v", r, err)
	}
	return out.String()
}

// realDaemonSet: it has a pod for the node, which restarts and settings replace.
func realDaemonSet(t *testing.T, l *realLive) {
	p, path := l.provider(t), l.make(t, 1)
	was := l.rolledOut(t, p, path, "")
	r, err := p.RestartWorkload(t.Context(), sdk.RestartWorkloadRequest{Op: l.op(path)})
	if err != nil || r.Op.Rollout == "" {
		t.Fatalf("restart: %+v, %v", r, err)
	}
	now := l.rolledOut(t, p, path, r.Op.Rollout)
	if len(now.Instances) != 1 || now.Instances[0].Name == was.Instances[0].Name || *now.Desired != 1 {
		t.Errorf("restarted from %+v to %+v", was, now)
	}
	l.rolledOut(t, p, path, l.configure(t, p, path, map[string]string{"A": "1"}).Op.Rollout)
	if got := l.says(t, p, path, shellCommand(`echo $A`)); got != "1\n" {
		t.Errorf("the pod sees %q", got)
	}
}

// realCrash: the output of a container that ends and is started again comes start by
// start, each line once; why it isn't ready is told.
func realCrash(t *testing.T, l *realLive) {
	p, name := l.provider(t), l.name()
	m := l.manifest(name, 1)
	template := m["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any) //nolint:forcetypeassert // it was made so
	template["containers"] = []any{map[string]any{"name": "app", "image": "busybox:local", "command": []string{"sh", "-c", "echo one; echo two; exit 3"}}}
	l.c.Do(t, http.MethodPost, l.at(""), m, nil)
	path := l.path(name)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got := map[int]string{}
	for it, err := range p.TailLogs(ctx, sdk.TailLogsRequest{Path: path, Follow: true}) {
		if err != nil {
			t.Fatalf("%v, after %v", err, got)
		}
		if it.Gap != nil {
			continue // the machine was slower than the restarts
		}
		n := it.Entry.Launch
		got[n] += string(it.Entry.Data) + ";"
		if !strings.HasPrefix("one;two;", got[n]) {
			t.Fatalf("start %d has written %q", n, got[n])
		}
		if got[n] == "one;two;" && got[n-1] == got[n] {
			break
		}
	}
	testwait.Until(t, patience, "reason", func() bool {
		r, err := p.WorkloadStatus(t.Context(), sdk.WorkloadStatusRequest{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		f := r.Status.Failure
		return f != nil && f.Reason == sdk.ReasonNonzeroExit && strings.Contains(f.Message, "exit code 3") && r.Status.Rollout == sdk.RolloutProgressing
	})
	two := 2
	testwait.Until(t, patience, "last two lines", func() bool {
		var last []string
		for it, err := range p.TailLogs(ctx, sdk.TailLogsRequest{Path: path, Tail: &two}) {
			if err != nil {
				t.Fatal(err)
			}
			if it.Entry != nil {
				last = append(last, string(it.Entry.Data))
			}
		}
		return slices.Equal(last, []string{"one", "two"})
	})
}

// realTerminal: a command has a terminal of the size that was asked for, also of a new
// one, and its input ends it.
func realTerminal(t *testing.T, l *realLive) {
	p, path := l.provider(t), l.make(t, 1)
	resize := make(chan sdk.TerminalSize, 1)
	in, feed := io.Pipe()
	defer feed.Close()
	out := &watched{seen: make(chan string, 1000)}
	type end struct {
		res sdk.ExecWorkloadResult
		err error
	}
	done := make(chan end, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		res, err := p.ExecWorkload(ctx, sdk.ExecWorkloadRequest{Op: l.op(path), Command: shellCommand(`while read x; do stty size; done; exit 4`), Stdin: in, Stdout: out,
			Terminal: &sdk.TerminalSize{Columns: 91, Rows: 33}, Resize: resize})
		done <- end{res, err}
	}()
	line := func(want string) {
		t.Helper()
		for text := ""; !strings.Contains(text, want); {
			if _, err := io.WriteString(feed, "x\n"); err != nil {
				t.Fatal(err)
			}
			select {
			case more := <-out.seen:
				text += more
			case <-ctx.Done():
				t.Fatalf("got %q, want %q", text, want)
			}
		}
	}
	line("33 91")
	resize <- sdk.TerminalSize{Columns: 80, Rows: 25}
	line("25 80")
	if _, err := io.WriteString(feed, "\x04"); err != nil {
		t.Fatal(err)
	}
	if e := <-done; e.err != nil || e.res.ExitCode == nil || *e.res.ExitCode != 4 {
		t.Errorf("ended with %+v, %v", e.res, e.err)
	}
}

// watched shows what is written.
type watched struct{ seen chan string }

func (w *watched) Write(p []byte) (int, error) {
	w.seen <- string(p)
	return len(p), nil
}

// realUndo: a rollback by kubectl finds the settings that its template had.
func realUndo(t *testing.T, l *realLive) {
	p, path := l.provider(t), l.make(t, 1)
	for _, v := range []string{"first", "second"} {
		l.rolledOut(t, p, path, l.configure(t, p, path, map[string]string{"A": v}).Op.Rollout)
	}
	l.c.Kubectl(t, "-n", l.ns, "rollout", "undo", "deployment/"+path.Name())
	testwait.Until(t, patience, "the first settings", func() bool {
		l.rolledOut(t, p, path, "")
		return l.says(t, p, path, shellCommand(`echo $A`)) == "first\n"
	})
	// What is declared still stands, so that the next change goes on from it.
	l.rolledOut(t, p, path, l.configure(t, p, path, map[string]string{"B": "b"}).Op.Rollout)
	if got := l.says(t, p, path, shellCommand(`echo $B`)); got != "b\n" {
		t.Errorf("the pod sees %q", got)
	}
}

// realMetrics: metrics-server's numbers come, each sample once: a busy container's at its
// limit of a tenth of a core. A pod that nobody has measured yet is warming, which a busy
// machine may look at too late (TestF102Warming).
func realMetrics(t *testing.T, l *realLive) {
	testwait.Until(t, patience, "metrics-server", func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, l.c.Server+"/apis/metrics.k8s.io/v1beta1/nodes/node1", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := l.c.Client().Do(r)
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	p, name := l.provider(t), l.name()
	m := l.manifest(name, 1)
	template := m["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any) //nolint:forcetypeassert // it was made so
	template["containers"] = []any{map[string]any{"name": "app", "image": "busybox:local", "command": []string{"sh", "-c", "while :; do :; done"},
		"resources": map[string]any{"limits": map[string]any{"cpu": "100m", "memory": "64Mi"}}}}
	l.c.Do(t, http.MethodPost, l.at(""), m, nil)
	path := l.path(name)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	warming, last := 0, time.Time{}
	for it, err := range p.StreamMetrics(ctx, sdk.StreamMetricsRequest{Paths: []sdk.WorkloadPath{path}, Interval: 200 * time.Millisecond}) {
		switch {
		case err != nil || it.Failed != nil:
			t.Fatalf("%+v, %v", it, err)
		case it.Warming != "":
			warming++
			continue
		}
		s := it.Sample
		if it.Instance == "" || s.CPU == nil || s.Memory == nil || *s.Memory <= 0 || *s.Memory > 64<<20 || !s.At.After(last) {
			t.Fatalf("after %d times warming and a sample of %s: %+v", warming, last, s)
		}
		if last = s.At; *s.CPU > 0 {
			if *s.CPU > 200 {
				t.Errorf("%d thousandths of a core, of which it may have 100", *s.CPU)
			}
			return
		}
	}
}

//go:build linux

package kubernetes

import (
	"net/http"
	"net/url"
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

// TestRealLive holds live workloads against a real cluster. Its metrics API isn't
// there: metrics-server is no part of Kubernetes.
func TestRealLive(t *testing.T) {
	t.Parallel()
	c := cluster.Join(t, cluster.Node)
	t.Run("deployment", func(t *testing.T) {
		t.Parallel()
		l := newRealLive(t, c, "deployment")
		h := l.suite(t)
		h.Only = withoutMetrics()
		workloadtest.Run(t, h)
	})
}

func withoutMetrics() []string {
	var out []string
	for _, k := range workloadtest.Checks() {
		if k.Name != "metrics" && k.Name != "metrics-absent" {
			out = append(out, k.Name)
		}
	}
	return out
}

package kubernetes

import (
	"errors"
	"strings"
	"testing"

	pocket "github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/sdk"
)

// checkItems checks a provider, and gives what it found by name.
func checkItems(t *testing.T, p *provider) map[string]sdk.CheckItem {
	t.Helper()
	res, err := p.Check(t.Context(), sdk.CheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]sdk.CheckItem{}
	for _, it := range res.Items {
		out[it.Name] = it
		if it.OK == (it.Remedy != "") || it.Detail == "" {
			t.Errorf("%+v", it)
		}
	}
	return out
}

// TestCheckNamespace: a namespace that isn't there is an error that names it, though
// an access review allows all in it; one that may not be looked at is told of.
func TestCheckNamespace(t *testing.T) {
	w := newWorld(t, nil)
	if it := checkItems(t, w.Open())["namespace jobs"]; !it.OK || it.Detail != "is there" {
		t.Errorf("%+v", it)
	}
	for name, k := range map[string]struct {
		change map[string]any
		knobs  func(*pocket.Knobs)
		code   sdk.Code
		text   string
	}{
		"missing":       {map[string]any{"namespace": "jbos"}, func(*pocket.Knobs) {}, sdk.NotFound, `the cluster has no namespace "jbos"; create it (` + "`kubectl create namespace jbos`"},
		"being deleted": {nil, func(k *pocket.Knobs) { k.Terminating = true }, sdk.FailedPrecondition, `the namespace "jobs" is being deleted`},
	} {
		w := newWorld(t, k.change)
		w.cluster.TuneKnobs(k.knobs)
		res, err := w.Open().Check(t.Context(), sdk.CheckRequest{})
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != k.code || e.Field != "config.namespace" || !strings.Contains(err.Error(), k.text) || len(res.Items) > 0 {
			t.Errorf("%s: %v, %v", name, err, res)
		}
	}
	defer w.deny("get namespaces")()
	if it := checkItems(t, w.Open())["namespace jobs"]; !it.OK || !strings.Contains(it.Detail, "may be there or not: reading it is denied") {
		t.Errorf("denied: %+v", it)
	}
}

// TestCheckThings: what the configuration names and the cluster hasn't is told of: a
// job that names it has no pod, and only an event says why.
func TestCheckThings(t *testing.T) {
	w := newWorld(t, map[string]any{"service_account": "jobs", "runtime_class": "gvisor", "priority_class": "system-node-critical", "image_pull_secrets": []any{"registry"}})
	got := checkItems(t, w.Open())
	for name, ok := range map[string]bool{"service account jobs": true, "runtime class gvisor": false, "priority class system-node-critical": true, "image pull secrets registry": false} {
		it, there := got[name]
		if !there || it.OK != ok || !ok && !strings.Contains(it.Remedy, "create it, or name another one as ") {
			t.Errorf("%s: %+v", name, it)
		}
	}
	func() {
		defer w.deny("get runtimeclasses")()
		if it := checkItems(t, w.Open())["runtime class gvisor"]; !it.OK || !strings.Contains(it.Detail, "reading it is denied") {
			t.Errorf("denied: %+v", it)
		}
	}()
	p := w.Open()
	if st := w.Status(p, w.Run(p, w.Prepare(p, shell("true")))); st.State != sdk.StatePending || !strings.HasPrefix(st.Message, "the Job has no pod yet; `kubectl describe job windlass-") {
		t.Errorf("%+v", st)
	}
}

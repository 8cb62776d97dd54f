package argo

import (
	"errors"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/internal/pocket/run"
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

// TestCheckNamespace: a namespace that isn't there is an error that names it. Argo
// Server can't be asked, and that is said.
func TestCheckNamespace(t *testing.T) {
	w := newWorld(t, map[string]any{"namespace": "jbos"})
	_, err := w.Open().Check(t.Context(), sdk.CheckRequest{})
	var e *sdk.Error
	if !errors.As(err, &e) || e.Code != sdk.NotFound || e.Field != "config.namespace" || !strings.Contains(err.Error(), `the cluster has no namespace "jbos"; create it (`) {
		t.Errorf("%v", err)
	}
	w = newWorld(t, nil)
	if it := checkItems(t, w.Open())["namespace jobs"]; it.Detail != "is there" {
		t.Errorf("%+v", it)
	}
	defer w.deny("get namespaces")()
	if it := checkItems(t, w.Open())["namespace jobs"]; !strings.Contains(it.Detail, "reading it is denied") {
		t.Errorf("denied: %+v", it)
	}
	server := newWorld(t, throughServer())
	if it := checkItems(t, server.Open())["namespace jobs"]; !strings.Contains(it.Detail, "Argo Server can't be asked") {
		t.Errorf("through Argo Server: %+v", it)
	}
}

// TestCheckInstalled: a cluster without Argo is found out, though its rules allow
// Workflows.
func TestCheckInstalled(t *testing.T) {
	bare := kube.New(kube.Options{Executor: run.NewProcesses(nil)})
	w := drivertest.New[*provider](t, drivertest.Setup{Driver: Driver, Credentials: map[string]string{"KUBECONFIG": kubeconfig(t, drivertest.Serve(t, bare), kube.Namespace)},
		Faults: bare.Faults(), Calls: bare.Calls(), Throttle: kube.Throttle(), NoEntrypoint: true})
	_, err := w.Open().Check(t.Context(), sdk.CheckRequest{})
	if sdk.CodeOf(err) != sdk.FailedPrecondition || !strings.Contains(err.Error(), "Argo isn't installed there; install Argo Workflows") {
		t.Errorf("%v", err)
	}
}

// TestCheckThings: what the configuration names and the cluster hasn't is told of.
func TestCheckThings(t *testing.T) {
	w := newWorld(t, map[string]any{"service_account": "jobs", "executor_service_account": "executor"})
	got := checkItems(t, w.Open())
	if !got["service account jobs"].OK || got["executor service account executor"].Detail != "the namespace jobs has none of that name" {
		t.Errorf("%+v", got)
	}
}

package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest"
	"github.com/windlass-run/windlass/sdk/workloadtest"
)

// live is a namespace with workloads of one kind.
type live struct {
	ns, kind string
	config   map[string]any
	creds    map[string]string
	faults   *fault.Plan
	calls    *fault.Recorder
	secrets  *providertest.Secrets
	ids      sdk.IDSource
}

func newLive(ns, kind, kubeconfig string, faults *fault.Plan, calls *fault.Recorder) *live {
	return &live{ns: ns, kind: kind, config: map[string]any{"rate": 1000, "namespace": ns, "log_stall": "10s"}, creds: map[string]string{"KUBECONFIG": kubeconfig},
		faults: faults, calls: calls, secrets: &providertest.Secrets{}, ids: sdk.NewIDSource(sdk.SystemClock())}
}

// open opens a provider, which the caller closes.
func (l *live) open(t interface {
	providertest.T
}) sdk.Provider {
	t.Helper()
	raw, err := json.Marshal(l.config)
	if err != nil {
		t.Fatalf("config: %v", err)
	}
	p, err := Driver().Open(t.Context(), sdk.OpenRequest{Name: "k", Config: raw, Credentials: l.creds, Clock: sdk.SystemClock(), IDs: l.ids, Owner: "suite", LedgerID: "ledger",
		Secrets: l.secrets, StateDir: t.TempDir()})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return p
}

// provider is open for a test, which closes it.
func (l *live) provider(t *testing.T) *provider {
	t.Helper()
	p := l.open(providertest.Testing(t))
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p.(*provider) //nolint:forcetypeassert // it is this package's driver's
}

func (l *live) path(name string) sdk.WorkloadPath {
	return sdk.WorkloadPath(l.ns + "/" + l.kind + "/" + name)
}

func (l *live) name() string { return "w-" + strings.ToLower(l.ids.NewID().Short()) }

// op is a request of a new operation.
func (l *live) op(path sdk.WorkloadPath) sdk.OpRequest {
	return sdk.OpRequest{OpID: l.ids.NewID(), Path: path}
}

// upScript is what an instance runs: it says that it is up, and ends at once when told.
const upScript = `echo is up; trap 'exit 0' TERM; while :; do sleep 0.1; done`

// manifest is a workload as its owner would apply it.
func (l *live) manifest(name string, replicas int) map[string]any {
	kind := map[string]string{"deployment": "Deployment", "statefulset": "StatefulSet", "daemonset": "DaemonSet"}[l.kind]
	labels := map[string]any{"app": name}
	spec := map[string]any{"selector": map[string]any{"matchLabels": labels}, "template": map[string]any{"metadata": map[string]any{"labels": labels},
		"spec": map[string]any{"terminationGracePeriodSeconds": 1, "containers": []any{map[string]any{"name": "app", "image": "busybox:local", "command": []string{"sh", "-c", upScript},
			"env": []any{map[string]any{"name": "OWN", "value": "theirs"}}}}}}}
	switch l.kind {
	case "statefulset":
		spec["serviceName"], spec["podManagementPolicy"] = name, "Parallel"
		fallthrough
	case "deployment":
		spec["replicas"] = replicas
	}
	return map[string]any{"apiVersion": "apps/v1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec}
}

// actions are the calls of the suite's operations that change something.
func (l *live) action(op workloadtest.Op) string {
	if op == "ExecWorkload" {
		return "pods.exec"
	}
	return l.kind + "s.patch"
}

// changes counts what was carried out of the calls that change a workload.
func (l *live) changes(path sdk.WorkloadPath) int {
	n := 0
	for _, c := range l.calls.Calls("") {
		resource, verb, _ := strings.Cut(c.Action, ".")
		if resource != l.kind+"s" || !slices.Contains([]string{"patch", "create", "delete", "put"}, verb) || c.Status < 200 || c.Status > 299 {
			continue
		}
		var object struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if json.Unmarshal(c.Request, &object) == nil && object.Metadata.Name == path.Name() {
			n++
		}
	}
	return n
}

func shellCommand(script string, args ...string) sdk.Argv {
	return append(sdk.Argv{"sh", "-c", script, "sh"}, args...)
}

// hexOf writes a shell variable in hexadecimal.
const hexOf = `printf %s "$v" | od -An -v -tx1 | tr -d ' \n'; echo`

func commands() workloadtest.Commands {
	return workloadtest.Commands{
		Exit: func(code int) sdk.Argv { return shellCommand(fmt.Sprintf("exit %d", code)) },
		Print: func(out, errs string) sdk.Argv {
			return shellCommand(`printf %s "$1"; printf %s "$2" >&2`, out, errs)
		},
		Cat: func() sdk.Argv { return sdk.Argv{"cat"} },
		Args: func(args ...string) sdk.Argv {
			return shellCommand(`for v; do printf 'arg '; `+hexOf+`; done`, args...)
		},
		Env: func(name string) sdk.Argv {
			return shellCommand(`if [ -n "${` + name + `+x}" ]; then v=$` + name + `; printf 'env ` + name + ` '; ` + hexOf + `; else echo 'env ` + name + ` unset'; fi`)
		},
		Hang: func() sdk.Argv { return shellCommand("while :; do sleep 0.1; done") },
	}
}

// harness is the suite's, but for what makes workloads.
func (l *live) harness() workloadtest.Harness {
	spec := func(image string) (sdk.WorkloadPath, sdk.DeploymentSpec) {
		name := l.name()
		s := sdk.DeploymentSpec{Name: name, Image: image, Command: shellCommand(upScript), Ports: []sdk.Port{{Port: 8080}}, Env: sdk.Env{"PRICE": "$(HOME) $5"},
			Config: map[string]string{"MODE": "first"}, Options: json.RawMessage(`{"pod":{"hostname":"h"}}`)}
		return l.path(name), s
	}
	rule := func(op workloadtest.Op, n int, e fault.Effect) {
		l.faults.Add(fault.Rule{Action: l.action(op), Count: n, Effect: e})
	}
	return workloadtest.Harness{
		Open:     func(t workloadtest.T) sdk.Provider { return l.open(t) },
		Changes:  func(_ workloadtest.T, path sdk.WorkloadPath) int { return l.changes(path) },
		Spec:     func(workloadtest.T) (sdk.WorkloadPath, sdk.DeploymentSpec) { return spec("busybox:local") },
		Broken:   func(workloadtest.T) (sdk.WorkloadPath, sdk.DeploymentSpec) { return spec("registry.invalid/none:1") },
		Absent:   l.path("none"),
		Commands: commands(),
		Line:     func(string) string { return "is up\n" },
		Faults: workloadtest.Faults{
			LoseReply: func(_ workloadtest.T, op workloadtest.Op) { rule(op, 1, fault.Effect{Drop: true}) },
			Refuse:    func(_ workloadtest.T, op workloadtest.Op) { rule(op, 1, fault.Effect{Reset: true}) },
			Throttle: func(_ workloadtest.T, op workloadtest.Op, n int) {
				rule(op, n, fault.Effect{Refuse: &fault.Refusal{Status: 429, Code: "TooManyRequests", Message: "too many requests"}})
			},
			Calls: func(_ workloadtest.T, op workloadtest.Op) int { return len(l.calls.Calls(l.action(op))) },
		},
	}
}

// autoscaler is a HorizontalPodAutoscaler of a workload.
func (l *live) autoscaler(path sdk.WorkloadPath, minimum, maximum int) map[string]any {
	m := l.manifest(path.Name(), 0)
	target := map[string]any{"apiVersion": "apps/v1", "name": path.Name()}
	maps.Copy(target, map[string]any{"kind": m["kind"]})
	return map[string]any{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": map[string]any{"name": path.Name()},
		"spec": map[string]any{"scaleTargetRef": target, "minReplicas": minimum, "maxReplicas": maximum}}
}

// scriptedLive is a namespace of an API server in this process.
type scriptedLive struct {
	*live
	api *apiServer
}

func newScriptedLive(t testing.TB) *scriptedLive {
	t.Helper()
	api := newAPIServer()
	return &scriptedLive{newLive("jobs", "deployment", kubeconfig(t, drivertest.Serve(t, api), "jobs"), api.serve.Plan, api.serve.Recorder), api}
}

func (l *scriptedLive) make(replicas int) sdk.WorkloadPath {
	name := l.name()
	l.api.add("deployments", l.ns, l.manifest(name, replicas))
	return l.path(name)
}

func (l *scriptedLive) suite() workloadtest.Harness {
	h := l.harness()
	h.Make = func(_ workloadtest.T, replicas int) sdk.WorkloadPath { return l.make(replicas) }
	h.Autoscale = func(_ workloadtest.T, path sdk.WorkloadPath, minimum, maximum int) {
		l.api.add("horizontalpodautoscalers", l.ns, l.autoscaler(path, minimum, maximum))
	}
	h.Poll = 10 * time.Millisecond
	return h
}

// TestLive is the suite of live workloads on an API server in this process.
func TestLive(t *testing.T) { workloadtest.Run(t, newScriptedLive(t).suite()) }

func fmtOf(vs ...any) string { return fmt.Sprintf("%+v", vs) }

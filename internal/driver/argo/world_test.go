package argo

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	pocket "github.com/windlass-run/windlass/internal/pocket/argo"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	"github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/pocket/run/runtest"
	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long to wait for a real cluster, on a machine that has other things
// to do than to run it.
const patience = 5 * time.Minute

const canaryToken = "canary-token-5b1f0c7e9a"

// world is a pocket cluster with Argo, and providers on it.
type world struct {
	*drivertest.World[*provider]
	argo    *pocket.Server
	cluster *kube.Server
	calls   *fault.Recorder
}

// newWorld starts a cluster whose pods' deadlines pass quickly. Change adds to the
// config.
func newWorld(t testing.TB, change map[string]any) *world {
	t.Helper()
	a := pocket.New(pocket.Options{Executor: runtest.Contained{Executor: run.NewProcesses(nil)}, Record: true})
	a.Cluster().TuneKnobs(func(k *kube.Knobs) { k.Unit = 30 * time.Millisecond })
	url := drivertest.Serve(t, a)
	change = maps.Clone(change)
	if change["endpoint"] != nil {
		change["endpoint"], change["namespace"] = url, kube.Namespace
	}
	return &world{argo: a, cluster: a.Cluster(), calls: a.Cluster().Calls(), World: drivertest.New[*provider](t, drivertest.Setup{
		Driver:      Driver,
		Config:      map[string]any{"rate": 100000, "log_stall": "300ms"},
		Change:      change,
		Credentials: map[string]string{"KUBECONFIG": kubeconfig(t, url, kube.Namespace), "ARGO_TOKEN": pocket.Token},
		Faults:      a.Cluster().Faults(),
		Calls:       a.Cluster().Calls(),
		Throttle:    kube.Throttle(),
		// Argo asks the registry for an image's entry point, and a test has none.
		NoEntrypoint: true,
	})}
}

// throughServer has a world's providers use Argo Server.
func throughServer() map[string]any { return map[string]any{"endpoint": true} }

// ways are the two clients.
func ways(t *testing.T, f func(t *testing.T, w *world)) {
	for name, change := range map[string]map[string]any{"cluster": nil, "server": throughServer()} {
		t.Run(name, func(t *testing.T) { f(t, newWorld(t, change)) })
	}
}

// kubeconfig writes one for a server.
func kubeconfig(t testing.TB, url, namespace string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: k\n  cluster:\n    server: %s\nusers:\n- name: u\n  user:\n    token: %s\n"+
		"contexts:\n- name: c\n  context:\n    cluster: k\n    user: u\n    namespace: %s\n", url, canaryToken, namespace)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func shell(script string) sdk.JobSpec { return drivertest.Shell(script) }

// deny takes a right away; what is returned gives it back.
func (w *world) deny(right string) (restore func()) {
	w.cluster.TuneKnobs(func(k *kube.Knobs) { k.Denied = []string{right} })
	return func() { w.cluster.TuneKnobs(func(k *kube.Knobs) { k.Denied = nil }) }
}

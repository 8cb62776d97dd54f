package kubernetes

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/driver/drivertest"
	"github.com/windlass-run/windlass/internal/pocket/fault"
	pocket "github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/pocket/run/runtest"
	"github.com/windlass-run/windlass/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canaryToken = "canary-token-5b1f0c7e9a"

// world is a pocket cluster with providers on it, or a real one, whose cluster is
// nil.
type world struct {
	*drivertest.World[*provider]
	cluster *pocket.Server
	calls   *fault.Recorder
}

// newWorld starts a cluster whose pods' deadlines pass quickly. Change adds to the
// config.
func newWorld(t testing.TB, change map[string]any) *world {
	t.Helper()
	return newWorldAhead(t, change, new(atomic.Int64))
}

// aheadServer is an API server whose clock is ahead of this machine's.
type aheadServer struct {
	*pocket.Server
	by *atomic.Int64 // nanoseconds
}

// ServeHTTP implements http.Handler.
func (s aheadServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Date", time.Now().Add(time.Duration(s.by.Load())).UTC().Format(http.TimeFormat))
	s.Server.ServeHTTP(w, r)
}

// newWorldAhead is one whose API server's clock is ahead by so many nanoseconds.
func newWorldAhead(t testing.TB, change map[string]any, by *atomic.Int64) *world {
	t.Helper()
	cluster := pocket.New(pocket.Options{Executor: runtest.Contained{Executor: run.NewProcesses(nil)}, Record: true})
	cluster.TuneKnobs(func(k *pocket.Knobs) { k.Unit, k.FailsEarly = 30*time.Millisecond, true })
	url := drivertest.Serve(t, aheadServer{cluster, by})
	return &world{cluster: cluster, calls: cluster.Calls(), World: drivertest.New[*provider](t, drivertest.Setup{
		Driver:      Driver,
		Config:      map[string]any{"rate": 100000, "log_stall": "300ms"},
		Change:      change,
		Credentials: map[string]string{"KUBECONFIG": kubeconfig(t, url, pocket.Namespace)},
		Faults:      cluster.Faults(),
		Calls:       cluster.Calls(),
		Throttle:    pocket.Throttle(),
	})}
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
	w.cluster.TuneKnobs(func(k *pocket.Knobs) { k.Denied = []string{right} })
	return func() { w.cluster.TuneKnobs(func(k *pocket.Knobs) { k.Denied = nil }) }
}

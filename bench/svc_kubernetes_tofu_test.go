//go:build linux

package bench

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testneed/cluster"
)

// BenchmarkSvcKubernetesTofu is `windlass svc scale` and `svc restart` of a Deployment
// of a real API server to "accepted", with the row in the durable ledger, beside
// kubectl, and beside `tofu apply` of a resource that runs the same kubectl. The
// programs are started anew for each change.
func BenchmarkSvcKubernetesTofu(b *testing.B) {
	if testing.Short() {
		b.Skip("needs a cluster: left out by -short")
	}
	c := cluster.Join(b, cluster.API)
	ns := c.Namespace(b)
	for _, name := range []string{"ours", "plain", "tofu"} {
		labels := map[string]any{"app": name}
		c.Do(b, http.MethodPost, "/apis/apps/v1/namespaces/"+ns+"/deployments", map[string]any{"metadata": map[string]any{"name": name}, "spec": map[string]any{"replicas": 1,
			"selector": map[string]any{"matchLabels": labels}, "template": map[string]any{"metadata": map[string]any{"labels": labels},
				"spec": map[string]any{"containers": []any{map[string]any{"name": "app", "image": "busybox:local"}}}}}}, nil)
	}
	config := filepath.Join(b.TempDir(), "windlass.yaml")
	data, err := json.Marshal(map[string]any{"providers": map[string]any{"k": map[string]any{"kind": "kubernetes", "config": map[string]any{"namespace": ns}}}})
	if err == nil {
		err = os.WriteFile(config, data, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	windlass, env := build(b), append(state(b), "KUBECONFIG="+c.Kubeconfig, "WINDLASS_CONFIG="+config)
	kubectl := func(name string, args ...string) []string {
		return append([]string{filepath.Join(c.Programs, "bin", "kube"), "kubectl", "--namespace", ns}, append(args, "deployment/"+name)...)
	}
	target := "k/" + ns + "/deployment/ours"
	b.Run("scale", contest{env: env, ours: func(n string) []string { return []string{windlass, "svc", "scale", target, n} },
		plain: func(name, n string) []string { return kubectl(name, "scale", "--replicas", n) }}.run)
	b.Run("restart", contest{env: env, ours: func(string) []string { return []string{windlass, "svc", "restart", target} },
		plain:  func(name, _ string) []string { return kubectl(name, "rollout", "restart") },
		settle: func() { time.Sleep(time.Second) }, //sleep: kubectl refuses a second restart within a second
	}.run)
}

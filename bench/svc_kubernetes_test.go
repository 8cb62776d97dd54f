//go:build linux

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/driver/kubernetes"
	pocketkube "github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/internal/testneed/cluster"
	"github.com/windlass-run/windlass/sdk"
)

// BenchmarkSvcKubernetes scales and restarts a Deployment of a real API server to
// "accepted", with its row in the durable ledger before the call, beside the calls that
// kubectl makes for it: a read and a patch. Calls take as long as over a network.
func BenchmarkSvcKubernetes(b *testing.B) {
	if testing.Short() {
		b.Skip("needs a cluster: left out by -short")
	}
	c := cluster.Join(b, cluster.API)
	ns := c.Namespace(b)
	for _, name := range []string{"ours", "theirs"} {
		labels := map[string]any{"app": name}
		c.Do(b, http.MethodPost, "/apis/apps/v1/namespaces/"+ns+"/deployments", map[string]any{"metadata": map[string]any{"name": name}, "spec": map[string]any{"replicas": 1,
			"selector": map[string]any{"matchLabels": labels}, "template": map[string]any{"metadata": map[string]any{"labels": labels},
				"spec": map[string]any{"containers": []any{map[string]any{"name": "app", "image": "busybox:local"}}}}}}, nil)
	}
	to, err := url.Parse(c.Server)
	if err != nil {
		b.Fatal(err)
	}
	gate := pocketkube.NewGate(to, c.Client().Transport)
	web := httptest.NewServer(gate)
	b.Cleanup(web.Close)
	plain := &plainKube{&http.Client{}, web.URL + "/apis/apps/v1/namespaces/" + ns + "/deployments/theirs"}
	two := changes{w: kubeWorkloads(b, web.URL, ns), target: sdk.Target{Provider: kubernetes.Kind, Path: sdk.WorkloadPath(ns + "/deployment/ours")}, faults: gate.Faults(),
		scale: func(n int32) error {
			return plain.patch(b.Context(), map[string]any{"spec": map[string]any{"replicas": n}})
		},
		restart: func() error {
			at := map[string]any{"kubectl.kubernetes.io/restartedAt": time.Now().Format(time.RFC3339Nano)}
			return plain.patch(b.Context(), map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": at}}}})
		}}
	b.Run("scale", two.scales)
	b.Run("restart", two.restarts)
}

// kubeWorkloads is the runtime of live workloads on a cluster.
func kubeWorkloads(b *testing.B, server, namespace string) *control.WorkloadRuntime {
	b.Helper()
	d, dir := kubernetes.Driver(), b.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"current-context": "c", "clusters": [{"name": "k", "cluster": {"server": %q}}], "contexts": [{"name": "c", "context": {"cluster": "k"}}]}`, server), 0o600); err != nil {
		b.Fatal(err)
	}
	p := providerOf(b, d, map[string]string{"KUBECONFIG": kubeconfig}, fmt.Sprintf(`{"namespace": %q, "rate": 100000}`, namespace))
	return workloadsOf(b, d, p)
}

// plainKube makes kubectl's calls.
type plainKube struct {
	client *http.Client
	at     string
}

func (p *plainKube) patch(ctx context.Context, change any) error {
	if err := p.call(ctx, http.MethodGet, nil); err != nil {
		return err
	}
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	return p.call(ctx, http.MethodPatch, body)
}

func (p *plainKube) call(ctx context.Context, method string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, method, p.at, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/merge-patch+json")
	resp, err := p.client.Do(r)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it was read
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, data)
	}
	return err
}

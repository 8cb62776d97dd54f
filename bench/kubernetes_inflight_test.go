//go:build linux

package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/driver/kubernetes"
	pocketkube "github.com/windlass-run/windlass/internal/pocket/kube"
	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/internal/testneed/cluster"
	"github.com/windlass-run/windlass/sdk"
)

const (
	// jobsInFlight is how many Jobs BenchmarkKubernetesInFlight has in flight, counted
	// how long it counts then; writers write the states.
	jobsInFlight = 1000
	counted      = 30 * time.Second
	writers      = 8
	// jobsOnNode is how many BenchmarkKubernetesNode runs at once.
	jobsOnNode = 40
)

// kubeBench is an engine with a provider of a real cluster, which is reached through a
// gate that counts calls.
type kubeBench struct {
	ns     string
	engine *control.Engine
	gate   *pocketkube.Gate
	// direct reaches the cluster beside the gate.
	direct *http.Client
	server string
}

func newKubeBench(b *testing.B, c *cluster.Cluster) *kubeBench {
	b.Helper()
	to, err := url.Parse(c.Server)
	if err != nil {
		b.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(c.Authority))
	kept := &http.Transport{MaxIdleConnsPerHost: 100, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	b.Cleanup(kept.CloseIdleConnections)
	transport := admin{token: c.Token, next: kept}
	k := &kubeBench{ns: c.Namespace(b), gate: pocketkube.NewGate(to, transport), direct: &http.Client{Transport: transport}, server: c.Server}
	web := httptest.NewServer(k.gate)
	b.Cleanup(web.Close)
	kubeconfig := filepath.Join(b.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"current-context": "c", "clusters": [{"name": "k", "cluster": {"server": %q}}], "contexts": [{"name": "c", "context": {"cluster": "k"}}]}`, web.URL), 0o600); err != nil {
		b.Fatal(err)
	}
	d := kubernetes.Driver()
	k.engine = engineOf(b, d, 0, func(ledger string) sdk.Provider {
		return providerFor(b, ledger, d, map[string]string{"KUBECONFIG": kubeconfig}, fmt.Sprintf(`{"namespace": %q}`, k.ns))
	})
	return k
}

// admin makes calls the administrator's, on connections that stay.
type admin struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a admin) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+a.token)
	return a.next.RoundTrip(r)
}

// submit sends jobs, and returns once all have been sent.
func (k *kubeBench) submit(b *testing.B, n int, spec sdk.JobSpec) []sdk.ID {
	b.Helper()
	var ids []sdk.ID
	for range n {
		s, err := k.engine.Submit(b.Context(), control.SubmitRequest{Provider: kubernetes.Kind, Actor: "bench", Spec: spec})
		if err != nil {
			b.Fatal(err)
		}
		ids = append(ids, s.Run.ID)
	}
	k.each(b, ids, control.MilestoneSubmitted, func(sdk.ID, time.Time) {})
	return ids
}

// each waits until all runs have come so far, and tells when. A run that ended has to
// have succeeded.
func (k *kubeBench) each(b *testing.B, ids []sdk.ID, far control.Milestone, seen func(sdk.ID, time.Time)) {
	b.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() {
			run, err := k.engine.Wait(b.Context(), id, far)
			at := time.Now()
			if err != nil || run.State.Terminal() && run.State != sdk.StateSucceeded {
				b.Errorf("%s: %s %s %v", id, run.State, run.Reason, err)
			}
			mu.Lock()
			defer mu.Unlock()
			seen(id, at)
		})
	}
	wg.Wait()
}

// calls is how many there were so far.
func (k *kubeBench) calls() int {
	n := 0
	for _, count := range k.gate.Calls().Counts() {
		n += count
	}
	return n
}

// BenchmarkKubernetesInFlight has a thousand Jobs in flight on a real API server without
// a node, where a writer of states plays the Job controller. It reports calls and processor
// time while they are in flight, and how long after its end a Job is known to have ended.
func BenchmarkKubernetesInFlight(b *testing.B) {
	if testing.Short() {
		b.Skip("needs minutes: left out by -short")
	}
	c := cluster.Start(b, cluster.API)
	for range b.N {
		kubernetesInFlight(b, newKubeBench(b, c))
	}
}

func kubernetesInFlight(b *testing.B, k *kubeBench) {
	if err := k.write(b.Context(), http.MethodPost, "/api/v1/namespaces/"+k.ns+"/serviceaccounts", map[string]any{"metadata": map[string]any{"name": "default"}}); err != nil {
		b.Fatal(err) // no controller makes it
	}
	begun := time.Now()
	ids := k.submit(b, jobsInFlight, sdk.JobSpec{Image: "img", Args: sdk.Argv{"true"}})
	b.ReportMetric(jobsInFlight/time.Since(begun).Seconds(), "submits/s")
	jobs := k.jobs(b)
	if len(jobs) != jobsInFlight {
		b.Fatalf("%d Jobs are there, want %d", len(jobs), jobsInFlight)
	}
	k.writeAll(b, jobs, k.takeUp)

	before, cpu := k.calls(), cpuTime(b)
	if err := sdk.SystemClock().Sleep(b.Context(), counted); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(k.calls()-before)/counted.Seconds(), "calls/s")
	b.ReportMetric(100*(cpuTime(b)-cpu).Seconds()/counted.Seconds(), "cpu-%")

	var mu sync.Mutex
	written := map[string]time.Time{}
	var over sync.WaitGroup
	over.Go(func() {
		k.writeAll(b, jobs, func(ctx context.Context, j *batchv1.Job) error {
			err := k.complete(ctx, j)
			mu.Lock()
			defer mu.Unlock()
			written[j.Labels[sdk.LabelRun]] = time.Now()
			return err
		})
	})
	known := map[string]time.Time{}
	k.each(b, ids, control.MilestoneEnded, func(id sdk.ID, at time.Time) { known[id.String()] = at })
	over.Wait()
	var lag []time.Duration
	for id, at := range known {
		lag = append(lag, at.Sub(written[id]))
	}
	slices.Sort(lag)
	b.ReportMetric(lag[len(lag)/2].Seconds(), "p50-lag-s")
	b.ReportMetric(lag[len(lag)*99/100].Seconds(), "p99-lag-s")
	ended := time.Now()
	k.each(b, ids, control.MilestoneFinished, func(sdk.ID, time.Time) {})
	b.ReportMetric(time.Since(ended).Seconds(), "cleaned-s")
	b.Logf("%d calls for a Job; %v", k.calls()/jobsInFlight, k.gate.Calls().Counts())
}

// writeAll writes to all Jobs, several at a time.
func (k *kubeBench) writeAll(b *testing.B, jobs []batchv1.Job, one func(context.Context, *batchv1.Job) error) {
	b.Helper()
	work := make(chan *batchv1.Job)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for j := range work {
				if err := one(b.Context(), j); err != nil {
					b.Errorf("Job %s: %v", j.Name, err)
				}
			}
		})
	}
	for i := range jobs {
		work <- &jobs[i]
	}
	close(work)
	wg.Wait()
}

func (k *kubeBench) jobs(b *testing.B) []batchv1.Job {
	b.Helper()
	var all batchv1.JobList
	if err := k.call(b.Context(), http.MethodGet, "/apis/batch/v1/namespaces/"+k.ns+"/jobs", nil, &all); err != nil {
		b.Fatal(err)
	}
	return all.Items
}

// takeUp makes the Job's pod, which no node takes.
func (k *kubeBench) takeUp(ctx context.Context, j *batchv1.Job) error {
	return k.write(ctx, http.MethodPost, k.pods(""), map[string]any{"spec": j.Spec.Template.Spec, "metadata": map[string]any{"name": j.Name, "labels": j.Spec.Template.Labels,
		"ownerReferences": []any{map[string]any{"apiVersion": "batch/v1", "kind": "Job", "name": j.Name, "uid": j.UID, "controller": true}}}})
}

// complete ends the Job, whose pod is gone then.
func (k *kubeBench) complete(ctx context.Context, j *batchv1.Job) error {
	at := time.Now().UTC().Format(time.RFC3339)
	condition := func(kind batchv1.JobConditionType) map[string]any {
		return map[string]any{"type": kind, "status": "True", "reason": "CompletionsReached", "lastTransitionTime": at}
	}
	status := map[string]any{"startTime": at, "completionTime": at, "succeeded": 1, "conditions": []any{condition(batchv1.JobSuccessCriteriaMet), condition(batchv1.JobComplete)}}
	if err := k.write(ctx, http.MethodPatch, "/apis/batch/v1/namespaces/"+k.ns+"/jobs/"+j.Name+"/status", map[string]any{"status": status}); err != nil {
		return err
	}
	return k.write(ctx, http.MethodDelete, k.pods(j.Name), nil)
}

func (k *kubeBench) pods(name string) string {
	return strings.TrimSuffix("/api/v1/namespaces/"+k.ns+"/pods/"+name, "/")
}

// write changes something beside the gate.
func (k *kubeBench) write(ctx context.Context, method, path string, body any) error {
	return k.call(ctx, method, path, body, nil)
}

func (k *kubeBench) call(ctx context.Context, method, path string, body, out any) error {
	var in io.Reader = http.NoBody
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		in = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, k.server+path, in)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := k.direct.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode >= http.StatusBadRequest:
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, data)
	case out == nil:
		return nil
	}
	return json.Unmarshal(data, out)
}

// BenchmarkKubernetesNode runs forty Jobs at once on a real node, from submit to
// cleaned up, with their output. It reports calls and processor time for each.
func BenchmarkKubernetesNode(b *testing.B) {
	if testing.Short() {
		b.Skip("needs a cluster: left out by -short")
	}
	k := newKubeBench(b, cluster.Join(b, cluster.Node))
	spec := sdk.JobSpec{Image: testneed.Image, Args: sdk.Argv{"sh", "-c", "echo begins; sleep 10; echo ends"}}
	begun, before, cpu := time.Now(), k.calls(), cpuTime(b)
	for range b.N {
		ids := k.submit(b, jobsOnNode, spec)
		k.each(b, ids, control.MilestoneEnded, func(sdk.ID, time.Time) {})
		k.each(b, ids, control.MilestoneFinished, func(sdk.ID, time.Time) {})
	}
	jobs := float64(jobsOnNode * b.N)
	b.ReportMetric(time.Since(begun).Seconds()/float64(b.N), "s/40-jobs")
	b.ReportMetric(float64(k.calls()-before)/jobs, "calls/job")
	b.ReportMetric(float64((cpuTime(b)-cpu).Milliseconds())/jobs, "cpu-ms/job")
	b.Logf("%v", k.gate.Calls().Counts())
}

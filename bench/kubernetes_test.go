//go:build linux

package bench

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/internal/testneed/cluster"
)

// lined runs a command to its end and returns how long it took until its first line of
// output, and in all.
func lined(b *testing.B, env []string, name string, args ...string) (first, end time.Duration) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	var words strings.Builder
	cmd.Stderr = &words
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	r := bufio.NewReader(out)
	line, err := r.ReadString('\n')
	first = time.Since(begun)
	_, rest := io.Copy(io.Discard, r)
	if werr := cmd.Wait(); werr != nil || err != nil || rest != nil {
		b.Fatalf("%s: %q, %v, %v, %v\n%s", cmd, line, err, rest, werr, words.String())
	}
	return first, time.Since(begun)
}

// BenchmarkKubernetesRun is a run on a real Kubernetes to its first line and to its
// end, with ledger and clean-up, beside `kubectl create job`, `wait` and `logs`, which
// has its first line behind the wait and leaves the Job where it is.
func BenchmarkKubernetesRun(b *testing.B) {
	if testing.Short() {
		b.Skip("needs a cluster: left out by -short")
	}
	c := cluster.Join(b, cluster.Node)
	ns := c.Namespace(b)
	config := filepath.Join(b.TempDir(), "windlass.yaml")
	if err := os.WriteFile(config, []byte("providers:\n  jobs: {kind: kubernetes, credentials: ambient, config: {namespace: "+ns+"}}\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	bin, env := build(b), append(state(b), "KUBECONFIG="+c.Kubeconfig)
	kubectl := func(args ...string) (first, end time.Duration) {
		return lined(b, env, filepath.Join(c.Programs, "bin", "kube"), append([]string{"kubectl", "-n", ns}, args...)...)
	}
	var firsts, plainFirsts []time.Duration
	n := 0
	pair(b,
		func() time.Duration {
			first, end := lined(b, env, bin, "run", "--config", config, "--on", "jobs", "--image", testneed.Image, "--", "echo", "hello")
			firsts = append(firsts, first)
			return end
		},
		func() time.Duration {
			n++
			name := fmt.Sprintf("plain-%d", n)
			_, create := kubectl("create", "job", name, "--image", testneed.Image, "--", "echo", "hello")
			_, wait := kubectl("wait", "--for=condition=complete", "--timeout=5m", "job/"+name)
			first, logs := kubectl("logs", "job/"+name)
			plainFirsts = append(plainFirsts, create+wait+first)
			return create + wait + logs
		})
	first, plain := median(firsts[1:]), median(plainFirsts[1:]) // the first ones warm up
	b.ReportMetric(float64(first.Milliseconds()), "first-line-ms")
	b.ReportMetric(float64(plain.Milliseconds()), "plain-first-line-ms")
	b.ReportMetric(float64(first)/float64(plain), "first-line-ratio")
}

//go:build linux

package main

import (
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/windlass-run/windlass/internal/pocket/kube"
	pocketrun "github.com/windlass-run/windlass/internal/pocket/run"
	"github.com/windlass-run/windlass/internal/testwait"
)

// onKubernetes is the program with a provider kubernetes on a pocket cluster, which
// the environment leads to.
func onKubernetes(t *testing.T, keeper string) (*program, *kube.Server) {
	t.Helper()
	p := newProgram(t, keeper)
	cluster := kube.New(kube.Options{Executor: pocketrun.NewProcesses(nil), Record: true})
	web := httptest.NewServer(cluster)
	t.Cleanup(func() {
		web.Close()
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	kubeconfig := filepath.Join(p.dir, "kubeconfig")
	for file, text := range map[string]string{
		kubeconfig: fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\nusers: [{name: c, user: {token: pocket}}]\ncontexts: [{name: c, context: {cluster: c, user: c, namespace: %s}}]\n",
			web.URL, kube.Namespace),
		filepath.Join(p.dir, "windlass.yaml"): "providers:\n  cluster: {kind: kubernetes, poll_interval: 100ms, config: {rate: 100000}}\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.env = append(p.env, "KUBECONFIG="+kubeconfig)
	if keeper != "off" {
		t.Cleanup(p.dismiss)
	}
	return p, cluster
}

func onKubernetesArgs(more ...string) []string {
	return append([]string{"run", "--on", "cluster", "--image", "busybox:local"}, more...)
}

// TestKubernetesRun runs a job through the real program: its output, its code, its
// secret, its record, and nothing left behind.
func TestKubernetesRun(t *testing.T) {
	t.Parallel()
	const canary = "canary-of-the-environment"
	p, cluster := onKubernetes(t, "off")
	p.env = append(p.env, "THE_TOKEN="+canary)
	out, code := p.do(onKubernetesArgs("-e", "WHO=world", "--secret", "TOKEN=secret://env/THE_TOKEN", "--",
		"sh", "-c", `echo "hello $WHO ${#TOKEN}"; echo '$(x) {{y}}'; exit 7`)...)
	if code != 7 || out != "hello world 25\n$(x) {{y}}\n" {
		t.Errorf("exit %d, output %q", code, out)
	}
	if out, code := p.do("ps", "-a", "--json"); code != 0 || !strings.Contains(out, `"nonzero_exit"`) {
		t.Errorf("exit %d: %s", code, out)
	}
	if out, code := p.do("provider", "check", "cluster"); code != 0 || !strings.Contains(out, "create jobs.batch") {
		t.Errorf("check: exit %d: %s", code, out)
	}
	for action, want := range map[string]int{"jobs.create": 1, "secrets.create": 1, "jobs.delete": 1} {
		if n := cluster.Calls().Count(action); n != want {
			t.Errorf("%d calls of %s, want %d", n, action, want)
		}
	}
	if out, code := p.do("reap", "--dry-run", "--on", "cluster"); code != 0 || strings.Contains(out, "windlass-0") {
		t.Errorf("something is left (exit %d): %s", code, out)
	}
	if pods := cluster.Pods(); len(pods) > 0 {
		t.Errorf("left: the pods %q", pods)
	}
	for _, c := range cluster.Calls().Calls("") {
		for _, form := range []string{canary, base64.StdEncoding.EncodeToString([]byte(canary))} {
			if c.Action != "secrets.create" && strings.Contains(string(c.Request)+string(c.Reply), form) {
				t.Errorf("the secret is in a call of %s", c.Action)
			}
		}
	}
}

// TestKubernetesInterrupt: Ctrl-C cancels the Job, and the program waits for the
// proof.
func TestKubernetesInterrupt(t *testing.T) {
	t.Parallel()
	p, cluster := onKubernetes(t, "on")
	cmd := p.command(onKubernetesArgs("--", "sh", "-c", `trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.1; done`)...)
	var out, errs lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, soon, "first output", func() bool { return strings.Contains(out.String(), "up\n") })
	// One that is still starting when the test ends couldn't be sent away.
	testwait.Until(t, soon, "keeper", func() bool { _, err := p.keeper(); return err == nil })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("exit %d (%v): %s", cmd.ProcessState.ExitCode(), err, errs.String())
	}
	if !strings.Contains(out.String(), "bye\n") {
		t.Errorf("the last words are missing: %q", out.String())
	}
	if n := cluster.Calls().Count("pods.patch"); n < 1 {
		t.Errorf("%d calls that shorten the pod's life", n)
	}
	if o, _ := p.do("ps", "-a", "--json"); !strings.Contains(o, `"cancelled"`) {
		t.Errorf("not cancelled on record: %s", o)
	}
}

// TestKubernetesDetached: the keeper drives a run whose command has gone; other
// commands follow, wait and tell its code.
func TestKubernetesDetached(t *testing.T) {
	t.Parallel()
	p, cluster := onKubernetes(t, "on")
	out, code := p.do(onKubernetesArgs("-d", "--", "sh", "-c", "echo begin; sleep 1; echo end; exit 4")...)
	id := strings.TrimSpace(out)
	if code != 0 || len(id) != 26 {
		t.Fatalf("exit %d, output %q", code, out)
	}
	if out, code := p.do("logs", "-f", id); code != 0 || out != "begin\nend\n" {
		t.Errorf("logs: exit %d, output %q", code, out)
	}
	if _, code := p.do("wait", id); code != 4 {
		t.Errorf("wait: exit %d", code)
	}
	testwait.Until(t, soon, "clean-up", func() bool { return cluster.Calls().Count("jobs.delete") == 1 && len(cluster.Pods()) == 0 })
}

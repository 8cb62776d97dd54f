//go:build linux

package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/cli"
	"github.com/windlass-run/windlass/internal/pocket/kube"
)

// usesClusters does on the pocket clusters what no cloud has: steps, and a user with
// few rights. Nobody else than who can read a kubeconfig gets in.
func (p *program) usesClusters() {
	p.t.Helper()
	p.write("steps.yaml", `steps:
  - {name: flow, type: step.sandbox_exec, config: {image: busybox, exec_env: ephemeral, command: [sh, -c, echo on Argo]}}
  - {name: job, type: step.sandbox_exec, config: {image: busybox, exec_env: provider-ephemeral, provider: kubernetes, command: [sh, -c, 'echo "{{.steps.flow.stdout}}", then on Kubernetes; exit 5']}}
`)
	if out, code := p.do("step", "run", "steps.yaml"); code != 5 || !strings.Contains(out, "on Argo\n") || !strings.Contains(out, ", then on Kubernetes\n") {
		p.t.Errorf("step run: exit %d, output %q", code, out)
	}
	text, err := os.ReadFile(filepath.Join(p.dir, "pocket.yaml"))
	if err != nil {
		p.t.Fatal(err)
	}
	for kind, right := range map[string]string{"kubernetes": "create jobs.batch", "argo": "create workflows.argoproj.io"} {
		p.write(kind+"-reader.yaml", strings.Replace(string(text), "context: "+kind, "context: "+kube.Reader, 1))
		if out, code := p.do("provider", "check", "--config", kind+"-reader.yaml", kind); code == 0 || !strings.Contains(out, right) {
			p.t.Errorf("provider check by a reader: exit %d\n%s", code, out)
		}
		file := kubeconfigOf(kind).Beside(filepath.Join(p.dir, "pocket.yaml"))
		if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
			p.t.Errorf("%s: %v, %v", file, st, err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			p.t.Fatal(err)
		}
		_, server, _ := strings.Cut(string(data), "server: ")
		server, _, _ = strings.Cut(server, "\n")
		_, authority, _ := strings.Cut(string(data), "certificate-authority-data: ")
		authority, _, _ = strings.Cut(authority, "\n")
		pem, err := base64.StdEncoding.DecodeString(authority)
		if err != nil {
			p.t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
		// The second is Argo Server's, where there is one.
		for _, path := range []string{"/api/v1/namespaces/jobs/pods", "/api/v1/workflows/jobs"} {
			req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, server+path, http.NoBody)
			if err != nil {
				p.t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer any")
			resp, err := client.Do(req)
			if err != nil {
				p.t.Fatal(err)
			}
			if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusUnauthorized {
				p.t.Errorf("%s%s with any token: %d, %v", kind, path, resp.StatusCode, err)
			}
		}
	}
}

// TestPocketAccess: tokens are new for each file, the same for each start with one,
// and new where the file isn't whole.
func TestPocketAccess(t *testing.T) {
	r := cli.PocketRequest{Write: filepath.Join(t.TempDir(), "p.yaml")}
	access := func() kube.Access {
		a, err := pocketAccess(r, "argo")
		if err != nil || len(a.Token) < 26 || len(a.Read) < 26 || a.Token == a.Read {
			t.Fatalf("got %+v, %v", a, err)
		}
		return a
	}
	first := access()
	if second := access(); second == first {
		t.Error("two starts without a file have the same tokens")
	}
	file := kubeconfigTo("argo", "127.0.0.1:1", first, nil)
	if err := os.WriteFile(file.Beside(r.Write), file.Data, 0o600); err != nil {
		t.Fatal(err)
	}
	if again := access(); again != first {
		t.Error("a start with the file has other tokens")
	}
	if other, err := pocketAccess(r, "kubernetes"); err != nil || other.Token == first.Token {
		t.Errorf("another cluster has the same token, %v", err)
	}
	if err := os.WriteFile(file.Beside(r.Write), []byte(strings.ReplaceAll(string(file.Data), first.Read, first.Token)), 0o600); err != nil {
		t.Fatal(err)
	}
	if again := access(); again == first {
		t.Error("a file with one token for both was taken")
	}
	if none, err := pocketAccess(cli.PocketRequest{}, "argo"); err != nil || none.Token == "" {
		t.Errorf("without a file: %+v, %v", none, err)
	}
}

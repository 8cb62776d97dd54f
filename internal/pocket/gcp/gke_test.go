package gcp

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/pocket/gcp/gapi"
)

// TestGcloudGKE lets a client that nobody here wrote find clusters.
func TestGcloudGKE(t *testing.T) {
	c := newCloud(t, Options{Token: "pocket"})
	c.PutCluster(GKECluster{Name: "prod", Endpoint: "192.0.2.7", Authority: []byte("PEM")})
	c.PutCluster(GKECluster{Location: Location + "-b", Name: "zonal", Endpoint: "10.0.0.2", Authority: []byte("PEM"), Private: true})
	g := newGcloud(t, c.url)
	run := func(args ...string) (string, error) {
		cmd := g.command(t, args...)
		cmd.Env = append(cmd.Env, "CLOUDSDK_API_ENDPOINT_OVERRIDES_CONTAINER="+c.url+"/", "KUBECONFIG="+filepath.Join(g.home, "kubeconfig"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("container", "clusters", "get-credentials", "prod", "--location", Location); err != nil {
		t.Errorf("get-credentials: %v: %s", err, out)
	}
	if text, err := os.ReadFile(filepath.Join(g.home, "kubeconfig")); err != nil || !strings.Contains(string(text), "server: https://192.0.2.7\n") {
		t.Errorf("the kubeconfig is %s, %v", text, err)
	}
	if out, err := run("container", "clusters", "describe", "zonal", "--zone", Location+"-b", "--format", "value(status,privateClusterConfig.enablePrivateEndpoint)"); err != nil || !strings.Contains(out, "RUNNING\tTrue") {
		t.Errorf("describe: %v: %s", err, out)
	}
	if out, err := run("container", "clusters", "list", "--format", "value(name)"); err != nil || !strings.HasSuffix(out, "prod\nzonal\n") {
		t.Errorf("list: %v: %s", err, out)
	}
	if out, err := run("container", "clusters", "describe", "nosuch", "--location", Location); err == nil || !strings.Contains(out, "code=404") {
		t.Errorf("describe of none: %v: %s", err, out)
	}
}

// TestGKERules: a cluster that isn't there, a caller who isn't known or may not, and
// what isn't offered.
func TestGKERules(t *testing.T) {
	c := newCloud(t, Options{Token: "pocket"})
	c.PutCluster(GKECluster{Name: "prod", Status: "PROVISIONING"})
	const clusters = "/v1/projects/" + Project + "/locations/" + Location + "/clusters"
	for _, k := range []struct {
		method, path, token string
		status              int
		rule, want          string
	}{
		{"GET", clusters + "/prod", "pocket", 200, "", `"PROVISIONING"`},
		{"GET", "/v1/projects/" + Number + "/zones/" + Location + "/clusters/prod", "pocket", 200, "", `"PROVISIONING"`},
		{"GET", clusters, "pocket", 200, "", `"prod"`},
		{"GET", clusters + "/nosuch", "pocket", 404, gkeRule, `"NOT_FOUND"`},
		{"GET", clusters + "/prod", "other", 401, "", `"UNAUTHENTICATED"`},
		{"DELETE", clusters + "/prod", "pocket", 501, "", `"UNIMPLEMENTED"`},
		{"GET", "/v1/projects/other/locations/" + Location + "/clusters/prod", "pocket", 404, "", ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), k.method, c.url+k.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+k.token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != k.status || !strings.Contains(string(body), k.want) || k.rule != "" && resp.Header.Get(gapi.RuleHeader) != k.rule {
			t.Errorf("%s %s: %d, rule %q: %s", k.method, k.path, resp.StatusCode, resp.Header.Get(gapi.RuleHeader), body)
		}
	}
	c.Policy().Deny("container.clusters.get")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+clusters+"/prod", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer pocket")
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("without the right: %v, %v", resp, err)
	}
}

package azure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAzAKS lets a client that nobody here wrote fetch kubeconfigs of clusters.
func TestAzAKS(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCloud(t, Options{})
	c.PutCluster(ManagedCluster{Name: "prod", Server: "https://prod.example:443", Authority: []byte("PEM")})
	c.PutCluster(ManagedCluster{Name: "local", Server: "https://local.example:443", Authority: []byte("PEM"), Certificate: []byte("CERT"), Key: []byte("KEY")})
	a := newAz(t, c)
	for _, k := range []struct {
		name, format, want, user string
	}{
		{"prod", "exec", "https://prod.example:443", "kubelogin"},
		{"prod", "azure", "https://prod.example:443", clusterApp},
		{"local", "exec", "https://local.example:443", "client-certificate-data"},
	} {
		file := filepath.Join(t.TempDir(), "kubeconfig")
		a.run(t, "aks", "get-credentials", "--resource-group", ResourceGroup, "--name", k.name, "--file", file, "--format", k.format)
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), k.want) || !strings.Contains(string(text), k.user) {
			t.Errorf("%s in the form %s: %v: %s", k.name, k.format, err, text)
		}
	}
	if out, err := a.command(t, "aks", "get-credentials", "--resource-group", ResourceGroup, "--name", "nosuch", "--file", "-").CombinedOutput(); err == nil || !strings.Contains(string(out), "(ResourceNotFound)") {
		t.Errorf("credentials of none: %v: %s", err, out)
	}
}

// TestClusterTokens: a token for clusters is one that was issued for their application.
func TestClusterTokens(t *testing.T) {
	c := newCloud(t, Options{})
	for name, k := range map[string]struct {
		token string
		ok    bool
	}{
		"of clusters":         {c.AccessToken(clusterApp), true},
		"of Resource Manager": {c.AccessToken("https://management.azure.com"), false},
		"none":                {"", false},
	} {
		if client, ok := c.ClusterCaller(k.token); ok != k.ok || ok && client == "" {
			t.Errorf("%s: %q, %t", name, client, ok)
		}
	}
}

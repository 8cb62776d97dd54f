package azure

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-run/windlass/internal/testneed"
)

// TestNode lets a client that nobody here wrote go through a secret's life.
func TestNode(t *testing.T) {
	t.Parallel() // it mostly waits
	if testing.Short() {
		t.Skip("node's clients are slow: left out by -short")
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	// scripts/setup-test installs what testdata/npm asks for.
	folder := filepath.Join(cache, "windlass", "npm", "azure")
	if _, err := os.Stat(filepath.Join(folder, "node_modules", "@azure", "keyvault-secrets", "package.json")); err != nil {
		testneed.Missing(t, "the npm package @azure/keyvault-secrets", err, "run scripts/setup-test")
	}
	script, err := filepath.Abs("testdata/npm/client.mjs")
	if err != nil {
		t.Fatal(err)
	}
	c := newCloud(t, Options{})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, c.CA(), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), testneed.Program(t, "node"), script, c.url, TenantID)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+ca)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var got, want doc
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := json.Unmarshal([]byte(`{
		"asked": [[["https://vault.azure.net/.default"], "`+TenantID+`"]],
		"set": {"value": "hush", "tags": {"a": "b"}, "type": "text/plain", "vault": true, "enabled": true, "days": 90},
		"last": "louder",
		"first": "hush",
		"missing": {"status": 404, "code": "SecretNotFound"},
		"version": {"status": 404, "code": "SecretNotFound"},
		"disabled": {"status": 403, "code": "Forbidden"},
		"listed": {"pages": 2, "names": 31, "db": true},
		"versions": [false, true],
		"deleted": "db",
		"gone": {"status": 404, "code": "SecretNotFound"},
		"taken": {"status": 409, "code": "Conflict"},
		"again": "again"
	}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

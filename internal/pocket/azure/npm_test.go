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

// node runs a script of testdata with packages that scripts/setup-test installs, and
// returns what it saw.
func node(t *testing.T, pkg, name string) doc {
	t.Helper()
	if testing.Short() {
		t.Skip("node's clients are slow: left out by -short")
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	// scripts/setup-test installs what testdata/npm asks for.
	folder := filepath.Join(cache, "windlass", "npm", "azure")
	if _, err := os.Stat(filepath.Join(folder, "node_modules", pkg, "package.json")); err != nil {
		testneed.Missing(t, "the npm package "+pkg, err, "run scripts/setup-test")
	}
	script, err := filepath.Abs("testdata/npm/" + name)
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
	var got doc
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return got
}

// saw compares what a script saw.
func saw(t *testing.T, got doc, text string) {
	t.Helper()
	var want doc
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestNode lets a client that nobody here wrote go through a secret's life.
func TestNode(t *testing.T) {
	t.Parallel() // it mostly waits
	saw(t, node(t, "@azure/keyvault-secrets", "client.mjs"), `{
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
	}`)
}

// TestNodeSettings does so for a setting's.
func TestNodeSettings(t *testing.T) {
	t.Parallel() // it mostly waits
	saw(t, node(t, "@azure/app-configuration", "settings.mjs"), `{
		"asked": ["https://appconfig.azure.com/.default"],
		"added": {"value": "red", "tags": {"a": "b"}, "type": "text/plain", "label": "group/web", "locked": false, "dated": true},
		"twice": 412,
		"set": "blue",
		"stale": 412,
		"got": "blue",
		"unchanged": 304,
		"missing": 404,
		"listed": {"n": 120, "pages": 2},
		"locked": 409,
		"deleted": 200,
		"again": 204
	}`)
}

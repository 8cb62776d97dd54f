package digitalocean

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-run/windlass/internal/testneed"
)

// TestNode lets a client that nobody here wrote go through a job's life.
func TestNode(t *testing.T) {
	if testing.Short() {
		t.Skip("node's clients are slow: left out by -short")
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	// scripts/setup-test installs what testdata/npm asks for.
	folder := filepath.Join(cache, "windlass", "npm", "digitalocean")
	if _, err := os.Stat(filepath.Join(folder, "node_modules", "dots-wrapper", "package.json")); err != nil {
		testneed.Missing(t, "the npm package dots-wrapper", err, "run scripts/setup-test")
	}
	script, err := filepath.Abs("testdata/npm/client.mjs")
	if err != nil {
		t.Fatal(err)
	}
	c := newCloud(t, Options{})
	cmd := exec.CommandContext(t.Context(), testneed.Program(t, "node"), script, c.url)
	cmd.Dir = folder
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	out = regexp.MustCompile(`main [0-9T:.-]+Z`).ReplaceAll(out, []byte("main TIME"))
	var got, want doc
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := json.Unmarshal([]byte(`{
		"account": "active",
		"region": "fra",
		"first": {"phase": "ACTIVE", "steps": 5, "created": true},
		"log": "main TIME hello\n",
		"whole": "main TIME hello\n",
		"second": {"phase": "ERROR", "reason": "DeployContainerExitNonZero"},
		"deployments": {"page": 2, "total": 3, "next": true},
		"cancelled": "CANCELED",
		"apps": [["slow", true], ["node", true]],
		"taken": {"status": 409, "id": "conflict"},
		"invalid": {"status": 400, "id": "bad_request"},
		"gone": {"status": 404, "id": "not_found"}
	}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

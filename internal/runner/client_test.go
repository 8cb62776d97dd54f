package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

func none(string) (string, bool) { return "", false }

func TestReadClients(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("token", tokenB+"\n")
	path := write("clients.yaml", `clients:
  deployer:
    token_file: token
  ci:
    token_env: CI_TOKEN
    profile: standard
    secrets: [secret://env/NPM_TOKEN, secret://file//run/ci/*]
    max_jobs: 3
  probe: {}
`)
	vars := func(name string) (string, bool) { return tokenA, name == "CI_TOKEN" }
	got, err := ReadClients(path, vars)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[0].Name != "ci" || got[0].Profile != sdk.ProfileStandard || len(got[0].Secrets) != 2 || got[0].MaxJobs != 3 ||
		string(got[0].Token.Reveal()) != tokenA || got[1].Name != "deployer" || string(got[1].Token.Reveal()) != tokenB || got[2].Token.Reveal() != nil {
		t.Errorf("got %+v", got)
	}
	for name, text := range map[string]string{
		"empty":              "",
		"no clients":         "clients: {}",
		"unknown key":        "clients:\n  ci:\n    secret: [x]\n",
		"unknown top key":    "client:\n  ci: {}\n",
		"twice":              "clients:\n  ci: {}\n  ci: {}\n",
		"two tokens":         "clients:\n  ci: {token_env: CI_TOKEN, token_file: token}\n",
		"unset variable":     "clients:\n  ci: {token_env: OTHER}\n",
		"no such token file": "clients:\n  ci: {token_file: nowhere}\n",
		"short token":        "clients:\n  ci: {token_file: short}\n",
		"token with a space": "clients:\n  ci: {token_file: spaced}\n",
		"bad profile":        "clients:\n  ci: {profile: loose}\n",
		"bad grant":          "clients:\n  ci: {secrets: [\"secret://env/*\"]}\n",
		"bad name":           "clients:\n  \"a b\": {}\n",
		"no number":          "clients:\n  ci: {max_jobs: many}\n",
		"no YAML":            "clients: [",
		"two documents":      "clients:\n  ci: {}\n---\nclients:\n  other: {}\n",
	} {
		write("short", "canary")
		write("spaced", "canary canary canary canary")
		_, err := ReadClients(write("bad.yaml", text), vars)
		var e *sdk.Error
		if !errors.As(err, &e) || e.ID != ErrClients || !strings.Contains(err.Error(), "bad.yaml") || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := ReadClients(write("ends.yaml", "---\n# one document\nclients:\n  ci: {}\n---\n"), vars); err != nil || len(got) != 1 {
		t.Errorf("one document: %v, %v", got, err)
	}
	if _, err := ReadClients(filepath.Join(dir, "gone.yaml"), none); err == nil {
		t.Error("reads a file that isn't there")
	}
}

// TestReadClientsTellsAll: every client that is wrong is told of, in one order; a
// file without an end is refused.
func TestReadClientsTellsAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clients.yaml")
	text := "clients:\n  b: {profile: loose}\n  a: {token_env: GONE}\n  d: {}\n  c: {token_file: /dev/zero}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ReadClients(path, none)
	at := -1
	for _, part := range []string{"client a: token_env", "client b: ", "client c: token_file: /dev/zero can't be read: it has more than 1048576 bytes"} {
		next := strings.Index(fmt.Sprint(err), part)
		if next <= at {
			t.Errorf("%q isn't told, or not in order: %v", part, err)
		}
		at = next
	}
	if _, err := ReadClients("/dev/zero", none); err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("a file without an end: %v", err)
	}
}

// FuzzParseClients: whatever the file, what comes back are clients that a door takes,
// but for one that two of them share.
func FuzzParseClients(f *testing.F) {
	f.Add([]byte("clients:\n  ci:\n    secrets: [secret://env/A]\n    profile: strict\n"))
	f.Add([]byte("clients:\n  ci: {token_env: A, max_jobs: 1}\n  b: {}\n"))
	f.Add([]byte("clients: &a\n  x: *a\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		clients, err := parseClients(data, func(string) (string, bool) { return tokenA, true }, "/nowhere")
		if err != nil {
			return
		}
		if len(clients) == 0 {
			t.Fatal("no clients and no error")
		}
		if _, err := newDoor(clients, false); err != nil && !strings.Contains(err.Error(), "same token") {
			t.Fatal(err)
		}
	})
}

package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/config"
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
	if len(got) != 3 || got[1].Name != "ci" || got[1].Profile != sdk.ProfileStandard || len(got[1].Secrets) != 2 || got[1].MaxJobs != 3 ||
		string(got[1].Token.Reveal()) != tokenA || got[0].Name != "deployer" || string(got[0].Token.Reveal()) != tokenB || got[2].Token.Reveal() != nil {
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
		"a list":             "clients: [ci]\n",
		"a client of text":   "clients:\n  ci: standard\n",
		"secrets of text":    "clients:\n  ci: {secrets: secret://env/A}\n",
		"an empty profile":   "clients:\n  ci: {profile: ''}\n",
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

// TestReadClientsTellsAll: all that is wrong with a file is told at once, of every
// kind, each with its line; a file without an end is refused.
func TestReadClientsTellsAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clients.yaml")
	text := `clients:
  b: {profile: loose, max_jobs: -1}
  a:
    token_env: GONE
    secrets:
      - secret://env/*
      - 5
  c: {token_file: /dev/zero, profil: strict}
  d: {token_env: TOKEN}
  e: {token_env: TOKEN, max_jobs: 1.5}
  "f@x": {token_env: TOKEN, token_file: x}
clint: {}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ReadClients(path, func(name string) (string, bool) { return tokenA, name == "TOKEN" })
	var got []string
	for _, p := range config.ProblemsOf(err) {
		got = append(got, strings.TrimPrefix(p.String(), path+":"))
	}
	want := []string{
		`2:16: clients.b.profile: "loose" is none of strict, standard, permissive`,
		`2:33: clients.b.max_jobs: -1 is below 0`,
		`4:16: clients.a.token_env: the variable GONE isn't set`,
		`6:9: clients.a.secrets[0]: "secret://env/*": it would allow every secret of the scheme; name a folder`,
		`7:9: clients.a.secrets[1]: wants a reference, has a whole number`,
		`8:19: clients.c.token_file: /dev/zero can't be read: it has more than 1048576 bytes`,
		`8:30: clients.c.profil: is not known (did you mean "profile"?); here may stand token_env, token_file, profile, secrets, max_jobs`,
		`10:18: clients.e.token_env: has the same token as client d; each has its own`,
		`10:35: clients.e.max_jobs: wants a whole number`,
		`11:3: clients.f@x: the name "f@x" isn't made of 1 to 128 letters, digits, dots, dashes and underscores`,
		`11:41: clients.f@x.token_file: stands beside token_env; keep one of them`,
		`12:1: clint: is not known (did you mean "clients"?); here may stand clients`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if strings.Contains(fmt.Sprint(err), tokenA) {
		t.Errorf("it has a token: %v", err)
	}
	if _, err := ReadClients("/dev/zero", none); err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("a file without an end: %v", err)
	}
}

// FuzzParseClients: whatever the file, what comes back are clients that a door takes.
func FuzzParseClients(f *testing.F) {
	f.Add([]byte("clients:\n  ci:\n    secrets: [secret://env/A]\n    profile: strict\n"))
	f.Add([]byte("clients:\n  ci: {token_env: A, max_jobs: 1}\n  b: {}\n"))
	f.Add([]byte("clients: &a\n  x: *a\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newClientReader("/nowhere/clients.yaml", func(string) (string, bool) { return tokenA, true })
		r.file(data)
		if len(r.problems) > 0 {
			return
		}
		if len(r.clients) == 0 {
			t.Fatal("no clients and no problem")
		}
		if _, err := newDoor(r.clients, false); err != nil {
			t.Fatal(err)
		}
	})
}

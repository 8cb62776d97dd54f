//go:build linux

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const page = "../../docs/write-a-provider.md"

// TestPage holds the page and this folder together: its pieces of each file are, one
// after the other, the file.
func TestPage(t *testing.T) {
	files := pieces(t)
	for _, name := range []string{"driver.go", "jobs.go", "suite_test.go", "plugin.json"} {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if files[name] != string(want) {
			t.Errorf("the page's %s isn't that of this folder", name)
		}
	}
	lines := strings.Count(files["driver.go"], "\n") + strings.Count(files["jobs.go"], "\n")
	if lines >= 300 {
		t.Errorf("the plugin has %d lines, it is to have less than 300", lines)
	}
}

// pieces returns the page's code by file, and its commands as "sh". A block may start
// with a line that is empty in the file.
func pieces(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, m := range regexp.MustCompile("(?ms)^```(?:(?:go|json) (\\S+)|(sh))\n(.*?)^```$").FindAllSubmatch(text, -1) {
		out[string(m[1])+string(m[2])] += string(m[3])
	}
	return out
}

// TestPageFromAnEmptyFolder does what the page says, with nothing but the page, and a clone
// beside the folder, which is this tree; nothing comes from a network.
func TestPageFromAnEmptyFolder(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a module of its own")
	}
	files := pieces(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(root, filepath.Join(dir, "windlass")); err != nil {
		t.Fatal(err)
	}
	replaced := false
	run := func(command ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=mod -trimpath", "GOWORK=off", "GONOSUMDB=*", "GONOSUMCHECK=1")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(command ...string) {
		t.Helper()
		if out, err := run(command...); err != nil {
			t.Fatalf("%s: %v: %s", strings.Join(command, " "), err, out)
		}
	}
	for line := range strings.Lines(files["sh"]) {
		words := strings.Fields(line)
		switch {
		case line == "cd folder\n":
			dir = filepath.Join(dir, "folder")
		case strings.HasPrefix(line, "go mod edit "):
			must(words...)
			replaced = true
			for name, text := range files {
				if name == "sh" {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, "go.sum"), bytes.Clone(sum), 0o600); err != nil {
				t.Fatal(err)
			}
		case line == "go mod tidy\n":
			// It would ask the network for the tests of others.
		default:
			must(words...)
		}
	}
	if !replaced {
		t.Error("the page doesn't say how to do without a release")
	}
	out, err := run("./folder")
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(out, "folder 0.1.0 is a provider plugin") {
		t.Errorf("by hand: %v: %s", err, out)
	}
}

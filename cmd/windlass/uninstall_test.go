//go:build linux

package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/internal/testwait"
)

// TestUninstall follows docs/uninstall.md after jobs with a secret, a keeper and,
// where there is one, a Docker engine: no file, process or container is left.
func TestUninstall(t *testing.T) {
	t.Parallel()
	p := withKeeper(t)
	home, temp := filepath.Join(p.dir, "home"), filepath.Join(p.dir, "temp")
	for _, dir := range []string{home, temp} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// The default place of the state, and nothing of ours in the folder of the work.
	state := filepath.Join(home, ".local", "state", "windlass")
	p.env = append(p.env, "HOME="+home, "TMPDIR="+temp, "WINDLASS_STATE="+state, "UNINSTALL_TOKEN=canary", "GOCOVERDIR="+t.TempDir())
	must := func(args ...string) string {
		t.Helper()
		out, code := p.do(args...)
		if code != 0 {
			t.Fatalf("windlass %s: exit %d: %s", strings.Join(args, " "), code, out)
		}
		return out
	}
	must("run", "--secret", "TOKEN=secret://env/UNINSTALL_TOKEN", "--", "sh", "-c", "test -n \"$TOKEN\" && echo done")
	must("run", "-d", "--name", "later", "--on", "fake", "--image", "i", "--", "lines", "100", ";", "sleep", "1s")
	if hasDocker(t) {
		if host := os.Getenv(testneed.DockerEnv); host != "" {
			p.env = append(p.env, "DOCKER_HOST="+host)
		}
		must("run", "--image", "busybox:local", "--", "echo", "done")
	}
	must("wait", "later")
	testwait.Until(t, soon, "nothing is open", func() bool { return strings.Count(must("ps"), "\n") <= 1 })
	// Other tests have theirs on the same engine.
	ours := strings.TrimSuffix(strings.Fields(must("ledger", "verify"))[1], ":")
	if out := must("reap", "--dry-run", "--json"); strings.Contains(out, `"ledger": "`+ours+`"`) {
		t.Errorf("left on backends: %s", out)
	}
	if outside := files(t, p.dir, state); len(outside) != 1 || filepath.Base(outside[0]) != "windlass.yaml" {
		t.Errorf("files that docs/uninstall.md doesn't name: %v", outside)
	}
	dismiss(t, state)
	testwait.Until(t, soon, "no process is left", func() bool { return len(processes(t, home)) == 0 })
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	if left := files(t, home, ""); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// files lists the files under a folder, but for those under another.
func files(t *testing.T, root, but string) (out []string) {
	t.Helper()
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == but:
			return filepath.SkipDir
		case !d.IsDir():
			out = append(out, path)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// processes lists those whose environment names a folder as their home.
func processes(t *testing.T, home string) (out []string) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte("HOME="+home+"\x00")) {
			out = append(out, name)
		}
	}
	return out
}

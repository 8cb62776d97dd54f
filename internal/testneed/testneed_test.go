package testneed

import (
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// verdict is how a need ended a child process's test.
func verdict(t *testing.T, test string, env ...string) (skipped bool, output string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), append([]string{"TESTNEED_CHILD=1", "CI=", "GORACE=atexit_sleep_ms=0"}, env...)...)
	out, err := cmd.CombinedOutput()
	output = string(out)
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	switch {
	case err != nil && strings.Contains(output, "--- FAIL: "+test):
		return false, output
	case err == nil && strings.Contains(output, "--- SKIP: "+test):
		return true, output
	}
	t.Fatalf("the child neither skipped nor failed (%v):\n%s", err, output)
	return false, ""
}

func TestChildDocker(t *testing.T) {
	if os.Getenv("TESTNEED_CHILD") == "" {
		return // it is TestMissingDocker that runs it, in a child
	}
	Docker(t)
	t.Fatal("an engine was found")
}

func TestMissingDocker(t *testing.T) {
	nowhere := "unix://" + filepath.Join(t.TempDir(), "none.sock")
	for _, c := range []struct {
		name string
		env  []string
		skip bool
		want string
	}{
		{"skips on a developer's machine", []string{DockerEnv + "=" + nowhere}, true, "none.sock"},
		{"fails in CI", []string{DockerEnv + "=" + nowhere, "CI=true"}, false, "run scripts/setup-test"},
		{"turned off", []string{DockerEnv + "=" + DockerOff}, true, "turned off by"},
		{"turned off in CI", []string{DockerEnv + "=" + DockerOff, "CI=true"}, false, "turned off by"},
		{"by way of ssh", []string{DockerEnv + "=ssh://host"}, true, "unix:// or plain tcp:// only"},
		{"DOCKER_HOST", []string{DockerEnv + "=", "DOCKER_HOST=" + nowhere}, true, "none.sock"},
	} {
		t.Run(c.name, func(t *testing.T) {
			skip, out := verdict(t, "TestChildDocker", c.env...)
			if skip != c.skip {
				t.Errorf("skipped = %v, want %v:\n%s", skip, c.skip, out)
			}
			if !strings.Contains(out, c.want) {
				t.Errorf("output lacks %q:\n%s", c.want, out)
			}
		})
	}
}

func TestProbeDocker(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		want   string // in the error; empty for none
	}{
		{"there", http.StatusOK, ""},
		{"no image", http.StatusNotFound, "has no image " + Image},
		{"sick", http.StatusInternalServerError, "500"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var path string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				path = r.URL.Path
				w.WriteHeader(c.status)
			}))
			defer server.Close()
			err := probeDocker(t.Context(), "tcp://"+server.Listener.Addr().String())
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error = %v, want %q", err, c.want)
			}
			if path != "/images/"+Image+"/json" {
				t.Errorf("asked for %q", path)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := probeDocker(t.Context(), "tcp://"+addr); err == nil || !strings.Contains(err.Error(), addr) {
			t.Errorf("error = %v, want one that names %s", err, addr)
		}
	})
}

func TestDockerHost(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{nil, defaultDocker},
		{map[string]string{"DOCKER_HOST": "tcp://a:1"}, "tcp://a:1"},
		{map[string]string{"DOCKER_HOST": "tcp://a:1", DockerEnv: "unix:///b"}, "unix:///b"},
	} {
		if got := dockerHost(func(k string) string { return c.env[k] }); got != c.want {
			t.Errorf("dockerHost(%v) = %q, want %q", c.env, got, c.want)
		}
	}
}

func TestProbeCgroup(t *testing.T) {
	write := func(t *testing.T, root, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, "cgroup.controllers"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mkdir := func(t *testing.T, root string, names ...string) {
		t.Helper()
		for _, n := range names {
			if err := os.Mkdir(filepath.Join(root, n), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, root string)
		version int
	}{
		{"v2", func(t *testing.T, root string) { write(t, root, "cpu memory pids\n") }, 2},
		{"v2 without pids", func(t *testing.T, root string) { write(t, root, "cpu memory\n") }, 0},
		{"v1", func(t *testing.T, root string) { mkdir(t, root, "memory", "pids") }, 1},
		{"v1 without pids", func(t *testing.T, root string) { mkdir(t, root, "memory") }, 0},
		{"none", func(*testing.T, string) {}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			c.prepare(t, root)
			got, err := probeCgroup(root)
			if got != c.version || (err == nil) != (c.version != 0) {
				t.Fatalf("probeCgroup = %d, %v; want version %d", got, err, c.version)
			}
			err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if err == nil && strings.Contains(d.Name(), "windlass-probe-") {
					t.Errorf("%s was left behind", path)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

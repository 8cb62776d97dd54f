// Package testneed says what a test needs of the machine and decides what
// happens where that is missing: the test skips on a developer's machine, and
// fails where CI=true, so that a broken service can't make a run look green.
// With -short the needs that stand for slow tests skip everywhere.
//
// It is imported by tests alone. scripts/setup-test provides what it asks for.
package testneed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// DockerEnv names the engine that tests use, as DOCKER_HOST is written;
	// DockerOff in it says that there is none to be used.
	DockerEnv = "WINDLASS_TEST_DOCKER"
	// DockerOff as the value of DockerEnv turns the tests with an engine off.
	DockerOff = "off"
	// Image is the small image that every test engine has: a static busybox
	// with all its applets, and a shell as its command.
	Image = "busybox:local"

	// ClusterEnv holds the cluster that a run of tests shares, as scripts/cluster
	// tells of it; ClusterLater in it says that another run has one.
	ClusterEnv = "WINDLASS_TEST_CLUSTER"
	// ClusterLater as the value of ClusterEnv skips the tests with a real cluster,
	// in CI too: `make test` runs them in a stage of their own.
	ClusterLater = "later"

	// WireEnv set to WireAll has every driver's suite run whole through a plugin's
	// wire. Without it a driver is tried by what a wire can spoil.
	WireEnv = "WINDLASS_TEST_WIRE"
	// WireAll is the value of WireEnv.
	WireAll = "all"

	// ComposeEnv names the Compose plugin that tests use, in place of the one that
	// scripts/setup-test builds.
	ComposeEnv = "WINDLASS_TEST_COMPOSE"

	defaultDocker = "unix:///var/run/docker.sock"
	probeTimeout  = 10 * time.Second
)

// WholeWireSuite reports whether the whole suite is to run through a plugin's wire.
func WholeWireSuite() bool { return os.Getenv(WireEnv) == WireAll }

// Docker returns the address of a Docker engine that answers and has Image, in
// the form of DOCKER_HOST: that of WINDLASS_TEST_DOCKER, else of DOCKER_HOST,
// else the default socket. The test is skipped under -short.
func Docker(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a Docker engine: left out by -short")
	}
	host := dockerHost(os.Getenv)
	if err := probeDocker(t.Context(), host); err != nil {
		missing(t, "a Docker engine", err, "run scripts/setup-test")
	}
	return host
}

// Cluster returns what ClusterEnv holds: empty is that the test starts a cluster
// itself, as internal/testneed/cluster does. The test is skipped under -short.
func Cluster(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a Kubernetes cluster: left out by -short")
	}
	shared := os.Getenv(ClusterEnv)
	if shared == ClusterLater {
		t.Skip("needs a Kubernetes cluster: left to the run that has one (" + ClusterEnv + "=" + ClusterLater + ")")
	}
	return shared
}

// Root ends the test unless it runs with an effective user ID of 0.
func Root(t testing.TB) {
	t.Helper()
	if id := os.Geteuid(); id != 0 {
		missing(t, "root", fmt.Errorf("the effective user ID is %d", id), "run the tests as root")
	}
}

// Cgroup returns the version, 1 or 2, of the cgroup hierarchy in which the test
// may make groups that limit memory and the number of processes.
func Cgroup(t testing.TB) int {
	t.Helper()
	version, err := probeCgroup("/sys/fs/cgroup")
	if err != nil {
		missing(t, "a writable cgroup", err, "run the tests as root on Linux with /sys/fs/cgroup mounted read-write")
	}
	return version
}

// Program returns the path of the program with that name in PATH.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, "the program "+name, err, "install it, or run scripts/setup-test")
	}
	return path
}

// Compose returns the path of the Compose plugin: that of WINDLASS_TEST_COMPOSE,
// else the one that scripts/setup-test made. The test is skipped under -short.
func Compose(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs Compose: left out by -short")
	}
	path := os.Getenv(ComposeEnv)
	if path == "" {
		path = filepath.Join(cache(), "tools", "docker-compose")
	}
	if _, err := os.Stat(path); err != nil {
		missing(t, "the Compose plugin", err, "run scripts/setup-test")
	}
	return path
}

// Tool returns the path of a development tool that scripts/setup-test built. The test
// is skipped under -short.
func Tool(t testing.TB, name string) string {
	t.Helper()
	return fromSetup(t, name, filepath.Join(cache(), "tools", name))
}

// NodeProgram returns the path of a program of a folder's packages for Node.js, which
// scripts/setup-test installed. The test is skipped under -short.
func NodeProgram(t testing.TB, folder, name string) string {
	t.Helper()
	return fromSetup(t, name, filepath.Join(cache(), "npm", folder, "node_modules", ".bin", name))
}

// fromSetup returns the path of something that scripts/setup-test made.
func fromSetup(t testing.TB, name, path string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs " + name + ": left out by -short")
	}
	if _, err := os.Stat(path); err != nil {
		missing(t, name, err, "run scripts/setup-test")
	}
	return path
}

// cache is the folder in which the scripts keep what they make.
func cache() string {
	home := os.Getenv("XDG_CACHE_HOME")
	if home == "" {
		home = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	return filepath.Join(home, "windlass")
}

// Missing ends a test that found out by itself that something isn't there; err
// says how, and remedy what to do.
func Missing(t testing.TB, what string, err error, remedy string) {
	t.Helper()
	missing(t, what, err, remedy)
}

// missing ends the test: by a failure in CI, else by a skip.
func missing(t testing.TB, what string, err error, remedy string) {
	t.Helper()
	text := fmt.Sprintf("needs %s: %v; %s", what, err, remedy)
	if mustHave(os.Getenv) {
		t.Fatal(text)
	}
	t.Skip(text)
}

func mustHave(getenv func(string) string) bool { return getenv("CI") == "true" }

func dockerHost(getenv func(string) string) string {
	for _, name := range []string{DockerEnv, "DOCKER_HOST"} {
		if v := getenv(name); v != "" {
			return v
		}
	}
	return defaultDocker
}

// probeDocker asks the engine for Image, which proves that both are there.
func probeDocker(ctx context.Context, host string) error {
	if host == DockerOff {
		return fmt.Errorf("turned off by %s=%s", DockerEnv, DockerOff)
	}
	u, err := url.Parse(host)
	if err != nil {
		return fmt.Errorf("address %q: %w", host, err)
	}
	var network, addr string
	switch u.Scheme {
	case "unix":
		network, addr = "unix", u.Path
	case "tcp":
		network, addr = "tcp", u.Host
	default:
		return fmt.Errorf("address %q: tests reach an engine by unix:// or plain tcp:// only", host)
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/images/"+Image+"/json", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("none answers at %s: %w", host, errors.Unwrap(err))
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusNotFound:
		return fmt.Errorf("the engine at %s has no image %s", host, Image)
	default:
		return fmt.Errorf("the engine at %s answers %s", host, resp.Status)
	}
}

// probeCgroup finds the hierarchy under root by making and removing a group.
func probeCgroup(root string) (version int, err error) {
	if data, err := os.ReadFile(filepath.Join(root, "cgroup.controllers")); err == nil {
		for _, c := range []string{"memory", "pids"} {
			if !slices.Contains(strings.Fields(string(data)), c) {
				return 0, fmt.Errorf("%s has no controller %s", root, c)
			}
		}
		return 2, probeDir(root)
	}
	for _, c := range []string{"memory", "pids"} {
		if err := probeDir(filepath.Join(root, c)); err != nil {
			return 0, err
		}
	}
	return 1, nil
}

func probeDir(parent string) error {
	dir, err := os.MkdirTemp(parent, "windlass-probe-")
	if err != nil {
		return err
	}
	return os.Remove(dir)
}

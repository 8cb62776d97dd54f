//go:build linux

// Package cluster gives tests a real one-node Kubernetes: etcd, the control plane,
// a kubelet and containers, built by scripts/cluster from test/cluster.
//
// A cluster has namespaces of its own and no way out. Nothing can be pulled there:
// its images are busybox, with the tags local, 1 and latest. It ends with the test,
// or with the test's process however that ends.
//
// It is imported by tests alone.
package cluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/internal/testwait"
)

// Level is how much of a cluster there is.
type Level string

// The levels, each with what the one before it has.
const (
	API  Level = "api"  // etcd and the API server
	Node Level = "node" // controllers, the scheduler, and a node that runs pods
	Argo Level = "argo" // Argo's controller, for the namespace argo
)

// patience bounds each wait for the cluster.
const patience = 5 * time.Minute

// Cluster is one that is ready.
type Cluster struct {
	// Kubeconfig names a file for an administrator.
	Kubeconfig string `json:"kubeconfig"`
	// Server, Token and Authority, a PEM, are what stands in it.
	Server    string `json:"server"`
	Token     string `json:"token"`
	Authority string `json:"authority"`
	// Dir has its state, logs in log/; Programs what runs in it.
	Dir      string `json:"dir"`
	Programs string `json:"programs"`
	Level    Level  `json:"level"`
}

// Join returns the cluster that this run of tests shares, or else one of the
// test's own. It has the level at least.
func Join(t testing.TB, level Level) *Cluster {
	t.Helper()
	shared := testneed.Cluster(t)
	if shared == "" {
		return Start(t, level)
	}
	c := &Cluster{}
	if err := json.Unmarshal([]byte(shared), c); err != nil {
		t.Fatalf("%s: %v", testneed.ClusterEnv, err)
	}
	levels := []Level{API, Node, Argo}
	if slices.Index(levels, c.Level) < slices.Index(levels, level) {
		t.Fatalf("the run's cluster has the level %s, and the test needs %s", c.Level, level)
	}
	return c
}

// Start starts a cluster of the test's own, of which it may break what it likes.
func Start(t testing.TB, level Level) *Cluster {
	t.Helper()
	testneed.Cluster(t)
	programs, err := built(t)
	if err != nil {
		testneed.Missing(t, "the programs of the test cluster", err, "run scripts/cluster build")
	}
	var words bytes.Buffer
	// It outlives the test's context: closing its standard input ends it.
	cmd := exec.Command(filepath.Join(programs, "bin", "cluster"), "up", "-level", string(level)) //nolint:noctx // the cleanup ends it
	cmd.Stderr = &words
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		const impossible = 3
		exit := new(exec.ExitError)
		if werr := cmd.Wait(); errors.As(werr, &exit) && exit.ExitCode() == impossible {
			testneed.Missing(t, "a Kubernetes cluster", errors.New(strings.TrimSpace(words.String())), "run the tests on a machine that can run one")
		}
		t.Fatalf("start of the cluster: %v\n%s", err, words.String())
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("end of the cluster: %v\n%s", err, words.String())
		}
	})
	c := &Cluster{}
	if err := json.Unmarshal(line, c); err != nil {
		t.Fatalf("the cluster says %q: %v", line, err)
	}
	return c
}

// built returns the folder of the programs.
func built(t testing.TB) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		script := filepath.Join(dir, "scripts", "cluster")
		if _, err := os.Stat(script); err == nil {
			var words bytes.Buffer
			cmd := exec.CommandContext(t.Context(), "bash", script, "path")
			cmd.Stderr = &words
			out, err := cmd.Output()
			if err != nil {
				return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(words.String()))
			}
			return strings.TrimSpace(string(out)), nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no folder above this one has scripts/cluster")
		}
		dir = up
	}
}

// Kubectl runs kubectl as the administrator and returns what it prints.
func (c *Cluster) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	var words bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(c.Programs, "bin", "kube"), append([]string{"kubectl", "--kubeconfig", c.Kubeconfig}, args...)...)
	cmd.Stderr = &words
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, words.String())
	}
	return string(out)
}

// The parts that can be killed.
const (
	APIServer = "apiserver"
	Kubelet   = "kubelet"
)

// Kill ends a part by SIGKILL; it stays away until Restart. Of a cluster that
// others share it is the test's duty to restart it.
func (c *Cluster) Kill(t testing.TB, part string) {
	t.Helper()
	c.tell(t, "kill", part)
	c.until(t, part, "down")
}

// Restart starts a part again, and returns once its process is there.
func (c *Cluster) Restart(t testing.TB, part string) {
	t.Helper()
	c.tell(t, "start", part)
	c.until(t, part, "up")
	if part == APIServer {
		testwait.Until(t, patience, "the API server's answer", func() bool {
			status, err := c.call(t, "GET", "/readyz", nil, nil)
			return err == nil && status == 200
		})
	}
}

// Import gives the node the image of an archive, as `docker save` and `ctr images export`
// write them, by the name that the archive has for it.
func (c *Cluster) Import(t testing.TB, archive string) {
	t.Helper()
	// The socket is in the mount namespace of the cluster, which a process of it leads to.
	socket := fmt.Sprintf("/proc/%d/root/run/containerd/containerd.sock", c.pid(t, "containerd"))
	ctr := exec.CommandContext(t.Context(), filepath.Join(c.Programs, "deb", "usr", "bin", "ctr"), "-a", socket, "-n", "k8s.io", "images", "import", archive)
	if out, err := ctr.CombinedOutput(); err != nil {
		t.Fatalf("import of %s: %v\n%s", archive, err, out)
	}
}

// pid is that of a part of the cluster, by its program's name: parts work in a folder of
// the cluster's own.
func (c *Cluster) pid(t testing.TB, program string) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range all {
		// One that has just ended has neither.
		name, _ := os.ReadFile(filepath.Join(dir, "comm"))
		work, _ := os.Readlink(filepath.Join(dir, "cwd"))
		if strings.TrimSpace(string(name)) == program && work == filepath.Join(c.Dir, "etc") {
			pid, err := strconv.Atoi(filepath.Base(dir))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatalf("no %s works in %s", program, c.Dir)
	return 0
}

func (c *Cluster) tell(t testing.TB, verb, part string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(c.Dir, "control"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(f, verb+" "+part+"\n")
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func (c *Cluster) until(t testing.TB, part, state string) {
	t.Helper()
	testwait.Until(t, patience, part+" is "+state, func() bool {
		data, err := os.ReadFile(filepath.Join(c.Dir, "parts", part))
		return err == nil && strings.TrimSpace(string(data)) == state
	})
}

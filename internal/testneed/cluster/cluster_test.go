//go:build linux

package cluster

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/internal/testwait"
)

// groups are the control groups of a cluster.
func groups(t *testing.T, c *Cluster) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.Dir, "cgroups"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(data))
}

// nothingLeft waits until there is nothing of a cluster, whose folder's name stands
// in the arguments of each of its processes' keeper.
func nothingLeft(t *testing.T, c *Cluster, groups []string) {
	t.Helper()
	testwait.Until(t, patience, "end of "+c.Dir, func() bool {
		for _, p := range append([]string{c.Dir, c.Dir + ".lock"}, groups...) {
			if _, err := os.Lstat(p); err == nil {
				return false
			}
		}
		return true
	})
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if args, err := os.ReadFile(f); err == nil && strings.Contains(string(args), c.Dir+"/") {
			t.Errorf("left running: %q", args)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), c.Dir) {
		t.Errorf("left mounted:\n%s", mounts)
	}
}

// TestNode starts a node, runs a Job whose process ends with 3, restarts the API
// server and the kubelet, reads code and log, and ends the cluster without a trace.
func TestNode(t *testing.T) {
	testneed.Cluster(t) // a skip is the whole test's
	var c *Cluster
	var of []string
	t.Run("life", func(t *testing.T) {
		c = Start(t, Node)
		of = groups(t, c)
		if len(of) == 0 {
			t.Error("it has no control groups")
		}
		ns := c.Namespace(t)
		job := map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": "three"}, "spec": map[string]any{"backoffLimit": 0,
			"template": map[string]any{"spec": map[string]any{"restartPolicy": "Never", "containers": []any{
				map[string]any{"name": "main", "image": testneed.Image, "command": []string{"sh", "-c", "echo hello; exit 3"}}}}}}}
		c.Do(t, "POST", "/apis/batch/v1/namespaces/"+ns+"/jobs", job, nil)
		c.Kill(t, APIServer)
		if _, err := c.call(t, "GET", "/readyz", nil, nil); err == nil {
			t.Error("a killed API server answers")
		}
		c.Restart(t, APIServer)
		c.Kill(t, Kubelet)
		c.Restart(t, Kubelet)
		var pods struct {
			Items []struct {
				Metadata struct{ Name string }
				Status   struct {
					Phase             string
					ContainerStatuses []struct {
						State struct{ Terminated struct{ ExitCode int } }
					}
				}
			}
		}
		testwait.Until(t, patience, "end of the Job", func() bool {
			c.Do(t, "GET", "/api/v1/namespaces/"+ns+"/pods?labelSelector=job-name%3Dthree", nil, &pods)
			return len(pods.Items) == 1 && pods.Items[0].Status.Phase == "Failed"
		})
		if code := pods.Items[0].Status.ContainerStatuses[0].State.Terminated.ExitCode; code != 3 {
			t.Errorf("the code is %d", code)
		}
		var log string
		c.Do(t, "GET", "/api/v1/namespaces/"+ns+"/pods/"+pods.Items[0].Metadata.Name+"/log", nil, &log)
		if log != "hello\n" {
			t.Errorf("the log is %q", log)
		}
		testwait.Until(t, patience, "the Job's count", func() bool {
			return c.Kubectl(t, "get", "job", "three", "-n", ns, "-o", "jsonpath={.status.failed}") == "1"
		})
	})
	nothingLeft(t, c, of)
}

// TestAPI starts what needs no node.
func TestAPI(t *testing.T) {
	c := Start(t, API)
	ns := c.Namespace(t)
	var got struct{ Metadata struct{ Name string } }
	c.Do(t, "GET", "/api/v1/namespaces/"+ns, nil, &got)
	if got.Metadata.Name != ns {
		t.Errorf("got %q", got.Metadata.Name)
	}
}

// TestChildStart is TestKilled's child: it tells of a cluster and waits to be killed.
func TestChildStart(t *testing.T) {
	if os.Getenv("CLUSTER_CHILD") == "" {
		return
	}
	c := Start(t, API)
	if err := json.NewEncoder(os.Stdout).Encode(c); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// TestKilled kills the test that has started a cluster, and then the program that
// holds one: what even that leaves, the next start removes.
func TestKilled(t *testing.T) {
	testneed.Cluster(t)
	t.Run("test", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildStart$", "-test.count=1")
		cmd.Env = append(os.Environ(), "CLUSTER_CHILD=1", testneed.ClusterEnv+"=", "GORACE=atexit_sleep_ms=0")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if !strings.HasPrefix(line, "{") {
			rest, _ := io.ReadAll(out)
			_ = cmd.Wait()
			if strings.Contains(line+string(rest), "SKIP") || strings.HasPrefix(line, "PASS") {
				t.Skip("the child found no cluster")
			}
			t.Fatalf("the child says %q: %v", line+string(rest), err)
		}
		c := &Cluster{}
		if err := json.Unmarshal([]byte(line), c); err != nil {
			t.Fatal(err)
		}
		of := groups(t, c)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		nothingLeft(t, c, of)
	})
	t.Run("holder", func(t *testing.T) {
		programs, err := built(t)
		if err != nil {
			testneed.Missing(t, "the programs of the test cluster", err, "run scripts/cluster build")
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(programs, "bin", "cluster"), "up", "-level", "api")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		c := &Cluster{}
		if err := json.NewDecoder(out).Decode(c); err != nil {
			t.Fatal(err)
		}
		of := groups(t, c)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		Start(t, API)
		nothingLeft(t, c, of)
	})
}

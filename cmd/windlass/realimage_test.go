//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testneed/cluster"
	"github.com/windlass-run/windlass/internal/testwait"
)

// TestRealImage runs the released image in a pod of a real Kubernetes, by the manifest of
// docs/install.md: it takes the file and the environment as its configuration, runs a job
// with the rights of the pod's account, passes its output and its code through, and leaves
// nothing.
func TestRealImage(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a cluster of its own: left out by -short")
	}
	c := cluster.Join(t, cluster.Node)
	ref := fmt.Sprintf("windlass:t%d", time.Now().UnixNano())
	c.Import(t, releasedImage(t, ref))
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)<!-- file: windlass.yaml -->\n```yaml\n(.*?)```\n").FindSubmatch(page)
	if found == nil {
		t.Fatal("docs/install.md has no manifest")
	}
	text := string(found[1])
	for from, to := range map[string]string{
		"registry.example/windlass:VERSION": ref,
		"--image, busybox,":                 "--image, 'busybox:local',",
		"echo from a job; exit 7":           "echo from a job; echo in words >&2; exit 7",
	} {
		if strings.Count(text, from) != 1 {
			t.Fatalf("the manifest has %q not once", from)
		}
		text = strings.Replace(text, from, to, 1)
	}
	file := filepath.Join(t.TempDir(), "windlass.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	namespace := c.Namespace(t)
	kubectl := func(args ...string) string { return c.Kubectl(t, append([]string{"-n", namespace}, args...)...) }
	kubectl("apply", "-f", file)
	const code = `{range .items[*].status.containerStatuses[*]}{.state.terminated.exitCode}{.state.waiting.reason}{.state.waiting.message}{end}`
	ended := ""
	testwait.Until(t, realPatience, "the end of the pod", func() bool {
		ended = kubectl("get", "pods", "-l", "job-name=nightly", "-o", "jsonpath="+code)
		return ended != "" && !strings.HasPrefix(ended, "ContainerCreating") && !strings.HasPrefix(ended, "PodInitializing")
	})
	logs := kubectl("logs", "job/nightly")
	if ended != "7" || !strings.Contains(logs, "from a job\n") || !strings.Contains(logs, "in words\n") || strings.Count(logs, "\n") != 2 {
		t.Errorf("the pod ended with %q and put out:\n%s\n%s", ended, logs, kubectl("get", "pods,events"))
	}
	if left := strings.TrimSpace(kubectl("get", "jobs,secrets,networkpolicies", "-o", "name")); left != "job.batch/nightly" {
		t.Errorf("left: %s", left)
	}
}

// releasedImage is the archive of an image, made as a release makes it.
func releasedImage(t *testing.T, ref string) string {
	t.Helper()
	dir := t.TempDir()
	program, maker, archive := filepath.Join(dir, "windlass"), filepath.Join(dir, "image"), filepath.Join(dir, "x.tar")
	_, tag, _ := strings.Cut(ref, ":")
	for _, args := range [][]string{
		{"go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=v0.0.0-image", "-o", program, "."},
		{"go", "-C", "../../release", "build", "-trimpath", "-o", maker, "./image"},
		{maker, "-version", tag, "-time", "2026-01-01T00:00:00Z", "-o", archive, program},
	} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	return archive
}

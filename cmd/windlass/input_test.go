//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/testneed"
)

// TestDetachedInputIsWhole: the command of a detached run is gone long before a
// container has read its input, which comes over a connection that some process
// must hold.
func TestDetachedInputIsWhole(t *testing.T) {
	t.Parallel()
	testneed.Docker(t)
	p := newProgram(t, "on")
	if host := os.Getenv(testneed.DockerEnv); host != "" {
		p.env = append(p.env, "DOCKER_HOST="+host)
	}
	t.Cleanup(p.dismiss)
	const size = "8388608"
	big := filepath.Join(p.dir, "big")
	if err := os.WriteFile(big, bytes.Repeat([]byte("0123456\n"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(big)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	cmd := p.command("run", "-d", "-i", "--name", "reads", "--image", "busybox:local", "--", "sh", "-c", "sleep 1; wc -c")
	cmd.Stdin, cmd.Stderr = f, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if _, code := p.do("wait", "reads"); code != 0 {
		t.Errorf("wait: %d", code)
	}
	if out, _ := p.do("logs", "reads"); strings.TrimSpace(out) != size {
		t.Errorf("the job read %q bytes of %s", strings.TrimSpace(out), size)
	}
}

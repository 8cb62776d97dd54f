package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/testneed"
)

// TestOverviewAsksTheEngine: `windlass` alone says of docker whether it answers,
// waits for none that doesn't, and makes nothing.
func TestOverviewAsksTheEngine(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "on")
	silent, err := net.Listen("unix", filepath.Join(p.dir, "silent.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	base := p.env
	for _, host := range []string{"unix:///no/such/socket", "unix://" + silent.Addr().String()} {
		p.env = append(base[:len(base):len(base)], "DOCKER_HOST="+host)
		if out, code := p.do(); code != 0 || !strings.Contains(out, "docker (doesn't answer)") {
			t.Errorf("%s: %d: %s", host, code, out)
		}
	}
	if _, err := os.Stat(p.stateDir()); err == nil {
		t.Error("a state folder was made")
	}
	p.env = append(base[:len(base):len(base)], "DOCKER_HOST="+testneed.Docker(t))
	if out, code := p.do(); code != 0 || !strings.Contains(out, "docker (answers)") {
		t.Errorf("%d: %s", code, out)
	}
}

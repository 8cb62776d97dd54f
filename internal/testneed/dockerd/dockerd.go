//go:build linux

// Package dockerd starts Docker engines of a test's own, which it may kill and
// start again without disturbing anybody else.
//
// It is imported by tests alone.
package dockerd

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/internal/testwait"
)

// patience bounds each wait for an engine.
const patience = 2 * time.Minute

// Engine is a dockerd with folders, a socket and a pid file of its own. It has
// a network namespace of its own too, since an engine without a bridge takes
// the machine's bridge away from the others: its containers have the networks
// none and host alone.
type Engine struct {
	// Host is its address, in the form of DOCKER_HOST.
	Host string
	// PID is that of the process that runs now; zero is none.
	PID int

	t    testing.TB
	dir  string
	cmd  *exec.Cmd
	log  bytes.Buffer
	args []string
}

// Start starts an engine that has testneed.Image, with further arguments for
// dockerd. It ends with the test, and what it ran with it.
func Start(t testing.TB, args ...string) *Engine {
	t.Helper()
	shared := testneed.Docker(t)
	testneed.Root(t)
	testneed.Program(t, "dockerd")
	testneed.Program(t, "unshare")
	// A socket's path is bounded by 108 bytes; a test's own folder can be longer.
	dir, err := os.MkdirTemp("", "wl")
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{t: t, dir: dir, Host: "unix://" + filepath.Join(dir, "s"), args: args}
	t.Cleanup(func() {
		e.Stop(syscall.SIGTERM)
		e.clear()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	e.Start()
	e.load(shared)
	return e
}

// Start starts the engine again after Stop, over what it had on disk.
func (e *Engine) Start() {
	e.t.Helper()
	at := func(name string) string { return filepath.Join(e.dir, name) }
	for _, f := range []string{"pid", "exec/containerd/containerd.pid"} {
		_ = os.Remove(at(f)) // a killed engine leaves them
	}
	// It outlives the test's context: Cleanup ends it.
	e.cmd = exec.CommandContext(context.Background(), "unshare", append([]string{"--net", "--", "dockerd", "--data-root", at("root"), "--exec-root", at("exec"), "--pidfile", at("pid"), "--host", e.Host,
		"--bridge", "none", "--iptables=false", "--ip-forward=false", "--shutdown-timeout", "5"}, e.args...)...)
	e.cmd.Stdout, e.cmd.Stderr = &e.log, &e.log
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	e.PID = e.cmd.Process.Pid
	testwait.Until(e.t, patience, "engine", func() bool {
		return exec.CommandContext(e.t.Context(), "docker", "-H", e.Host, "version").Run() == nil
	})
}

// Signal sends a signal to the engine.
func (e *Engine) Signal(s syscall.Signal) {
	e.t.Helper()
	if err := e.cmd.Process.Signal(s); err != nil {
		e.t.Fatal(err)
	}
}

// Stop ends the engine by a signal and waits for it.
func (e *Engine) Stop(s syscall.Signal) {
	if e.cmd == nil || e.cmd.Process.Signal(s) != nil {
		return
	}
	_ = e.cmd.Wait()
	e.cmd, e.PID = nil, 0
	if e.t.Failed() {
		lines := strings.Split(e.log.String(), "\n")
		e.t.Logf("the engine's last words:\n%s", strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
}

// clear takes away what a killed engine left: its containers' keepers, told by
// the engine's folder in their arguments, with their children, and its mounts.
func (e *Engine) clear() {
	keepers, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		e.t.Error(err)
	}
	for _, f := range keepers {
		args, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(args), e.dir+"/exec") {
			continue
		}
		pid := filepath.Base(filepath.Dir(f))
		children, _ := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children"))
		for _, p := range append(strings.Fields(string(children)), pid) {
			if n, err := strconv.Atoi(p); err == nil {
				_ = syscall.Kill(n, syscall.SIGKILL)
			}
		}
	}
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		e.t.Error(err)
		return
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], e.dir+"/") {
			_ = syscall.Unmount(f[4], syscall.MNT_DETACH)
		}
	}
}

// load copies the test image from another engine.
func (e *Engine) load(from string) {
	e.t.Helper()
	file := filepath.Join(e.dir, "image.tar")
	for _, args := range [][]string{{"-H", from, "save", "-o", file, testneed.Image}, {"-H", e.Host, "load", "-q", "-i", file}} {
		if out, err := exec.CommandContext(e.t.Context(), "docker", args...).CombinedOutput(); err != nil {
			e.t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

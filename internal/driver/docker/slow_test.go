//go:build linux

package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	engine "github.com/windlass-run/windlass/internal/cloud/docker"
	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// The tests of this file belong to the slow group: they start engines of their
// own, to be able to stop them.

// ownEngine is a dockerd with folders, a socket and a pid file of its own. It
// has a network namespace of its own too: an engine without a bridge takes the
// machine's bridge away from the others.
type ownEngine struct {
	t    *testing.T
	dir  string
	host string
	cmd  *exec.Cmd
	log  bytes.Buffer
}

func newOwnEngine(t *testing.T) *ownEngine {
	t.Helper()
	shared := testneed.Docker(t)
	testneed.Root(t)
	testneed.Program(t, "dockerd")
	testneed.Program(t, "unshare")
	e := &ownEngine{t: t, dir: shortDir(t)}
	e.host = "unix://" + filepath.Join(e.dir, "s")
	t.Cleanup(func() {
		e.stop(syscall.SIGTERM)
		e.unmount()
	})
	e.start()
	e.load(shared)
	return e
}

func (e *ownEngine) start() {
	e.t.Helper()
	at := func(name string) string { return filepath.Join(e.dir, name) }
	for _, f := range []string{"pid", "exec/containerd/containerd.pid"} {
		_ = os.Remove(at(f)) // a killed engine leaves them
	}
	e.cmd = exec.Command("unshare", "--net", "--", "dockerd", "--data-root", at("root"), "--exec-root", at("exec"), "--pidfile", at("pid"), "--host", e.host,
		"--bridge", "none", "--iptables=false", "--ip-forward=false", "--shutdown-timeout", "5")
	e.cmd.Stdout, e.cmd.Stderr = &e.log, &e.log
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	testwait.Until(e.t, patience, "engine", func() bool {
		return exec.Command("docker", "-H", e.host, "version").Run() == nil
	})
}

// stop ends the engine by a signal and waits for it.
func (e *ownEngine) stop(s syscall.Signal) {
	if e.cmd == nil || e.cmd.Process.Signal(s) != nil {
		return
	}
	_ = e.cmd.Wait()
	e.cmd = nil
	if e.t.Failed() {
		lines := strings.Split(e.log.String(), "\n")
		e.t.Logf("the engine's last words:\n%s", strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
}

// unmount takes away what a killed engine left: its containers' keepers, told by
// the engine's folder in their arguments, with their children, and its mounts.
func (e *ownEngine) unmount() {
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
func (e *ownEngine) load(from string) {
	e.t.Helper()
	ep, err := engine.Resolve(engine.Settings{Host: from})
	if err != nil {
		e.t.Fatal(err)
	}
	src, err := engine.New(ep, "from", patience)
	if err != nil {
		e.t.Fatal(err)
	}
	defer src.Close()
	if ep, err = engine.Resolve(engine.Settings{Host: e.host}); err != nil {
		e.t.Fatal(err)
	}
	dst, err := engine.New(ep, "to", patience)
	if err != nil {
		e.t.Fatal(err)
	}
	defer dst.Close()
	err = src.Call(e.t.Context(), "save", func(ctx context.Context, api *client.Client) error {
		image, err := api.ImageSave(ctx, []string{testneed.Image})
		if err != nil {
			return err
		}
		defer image.Close()
		return dst.Call(ctx, "load", func(ctx context.Context, api *client.Client) error {
			res, err := api.ImageLoad(ctx, image)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, res)
			return errors.Join(err, res.Close())
		})
	})
	if err != nil {
		e.t.Fatal(err)
	}
}

// An engine that is restarted in the middle of a run ends the job; the run's end
// says what happened, its log is whole, and nobody took the outage for an end.
func TestSlowEngineRestarted(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"stopped": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			e := newOwnEngine(t)
			b := openTest(t, e.host)
			spec := sh(`i=0; while :; do echo "line $i"; i=$((i+1)); sleep 0.1; done`)
			spec.Network = networkNone
			h := b.run(t, spec)
			over := b.run(t, sdk.JobSpec{Image: testneed.Image, Network: networkNone, Args: sdk.Argv{"sh", "-c", "echo done; exit 3"}})
			b.ended(t, over)
			testwait.Until(t, patience, "output", func() bool { return len(b.logs(t, h, false, nil).out) > 30 })
			followed := make(chan output, 1)
			go func() {
				o, err := b.readLogs(t.Context(), h, true, nil)
				if err != nil {
					t.Error(err)
				}
				followed <- o
			}()
			e.stop(signal)
			if _, err := b.JobStatus(t.Context(), sdk.JobStatusRequest{Handle: h}); !sdk.IsRetryable(err) || sdk.IsClear(err) {
				t.Errorf("status without an engine: %v", err)
			}
			e.start()
			st := b.ended(t, h)
			if st.State != sdk.StateFailed || *st.ExitCode != killedCode {
				t.Errorf("got %+v", st)
			}
			// An engine that shuts down answers to the last, so that only its
			// sudden death is seen as what ended the job.
			if signal == syscall.SIGKILL && (st.Reason != sdk.ReasonInfrastructure || st.Message == "") {
				t.Errorf("got %+v", st)
			}
			o := testwait.Receive(t, patience, "end of the log", followed)
			lines := strings.Split(strings.TrimSuffix(o.out, "\n"), "\n")
			for i, l := range lines {
				if want := fmt.Sprintf("line %d", i); l != want {
					t.Fatalf("line %d is %q", i, l)
				}
			}
			if o.verdict != sdk.VerdictComplete || o.gaps != 0 {
				t.Errorf("%d lines, %d gaps, %s", len(lines), o.gaps, o.verdict)
			}
			// What had ended before is as it was.
			if st := b.ended(t, over); st.Reason != sdk.ReasonNonzeroExit || *st.ExitCode != 3 {
				t.Errorf("a job that had ended: %+v", st)
			}
			if o := b.logs(t, over, true, nil); o.out != "done\n" || o.verdict != sdk.VerdictComplete {
				t.Errorf("its log: %+v", o)
			}
			b.clean(t, h)
			b.clean(t, over)
		})
	}
}

// A start whose engine dies under it is cleared up once the engine is back.
func TestSlowEngineDiesAtTheStart(t *testing.T) {
	e := newOwnEngine(t)
	b := openTest(t, e.host, func(r *sdk.OpenRequest) { r.CallTimeout = 5 * time.Second })
	spec := sh(`echo once; exit 5`)
	spec.Network = networkNone
	l := b.prepare(t, spec)
	if err := e.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := b.RunJob(t.Context(), sdk.RunJobRequest{Launch: l}); err == nil || sdk.IsClear(err) {
		t.Errorf("run on an engine that hangs: %v", err)
	}
	if err := e.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	h := b.send(t, l)
	if st := b.ended(t, h); *st.ExitCode != 5 {
		t.Errorf("got %+v", st)
	}
	if o := b.logs(t, h, true, nil); o.out != "once\n" {
		t.Errorf("got %+v", o)
	}
	found, err := b.FindJobs(t.Context(), sdk.FindJobsRequest{RunID: l.RunID})
	if err != nil || len(found.Jobs) != 1 {
		t.Errorf("found %+v, %v", found, err)
	}
	b.clean(t, h)
}

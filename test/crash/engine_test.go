//go:build linux

package crash

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/testneed/dockerd"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// TestEveryBoundaryOfTheEngine kills the Docker engine while commands stand at
// each boundary, starts it again, and lets them go on.
func TestEveryBoundaryOfTheEngine(t *testing.T) {
	for _, mode := range []struct {
		name string
		args []string
	}{
		// The engine's start ends what ran before.
		{name: "containers end"},
		{name: "containers live", args: []string{"--live-restore"}},
	} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			e := dockerd.Start(t, mode.args...)
			for i := range rounds(t, 3) {
				if engineOnce(t, e, len(mode.args) > 0); t.Failed() {
					t.Fatalf("in round %d", i+1)
				}
			}
		})
	}
}

// standing is a command that has stopped itself at a boundary.
type standing struct {
	*host
	point string
	sc    scenario
	cmd   *exec.Cmd
	errs  bytes.Buffer
}

// engineOnce brings one command to each boundary, and then kills the engine
// under all of them.
func engineOnce(t *testing.T, e *dockerd.Engine, live bool) {
	t.Helper()
	var all []*standing
	for _, point := range control.Failpoints() {
		sc := scenarioOf(point)
		if sc == never || !reachable("docker", sc) {
			continue
		}
		s := &standing{host: newHost(t, "docker"), point: point, sc: sc}
		s.docker, s.network, s.held = e.Host, "none", sc == plain && s.cutOff()
		all = append(all, s)
	}
	each(t, all, "stand", func(s *standing) {
		s.stand(t.Context())
		s.awaitHit("command/" + s.point)
	})
	e.Stop(syscall.SIGKILL)
	e.Start()
	each(t, all, "judge", func(s *standing) {
		s.release()
		s.resume()
		s.judge(live)
	})
}

// each takes a step with all commands, some at once, as a test of its own.
func each(t *testing.T, all []*standing, step string, take func(*standing)) {
	t.Helper()
	var steps sync.WaitGroup
	room := make(chan struct{}, atOnce/2) // for each of two engines
	for _, s := range all {
		steps.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			t.Run(step+" "+s.point, func(t *testing.T) {
				s.t = t
				take(s)
			})
		})
	}
	steps.Wait()
	for _, s := range all {
		s.t = t
	}
	if t.Failed() {
		t.FailNow()
	}
}

// stand starts a command that stops itself at its boundary, and lasts no longer
// than ctx.
func (s *standing) stand(ctx context.Context) {
	s.t.Helper()
	var args []string
	switch s.sc {
	case kept:
		args = s.job("--cleanup", "never")
	case refused:
		args = s.backend.refused(s.host)
	case doubtful:
		s.alone("command/call.run.after=kill", s.job()...)
		rows := s.rows()
		if len(rows) != 1 {
			s.t.Fatalf("%d rows after a lost reply", len(rows))
		}
		args = []string{"wait", rows[0].ID.String()}
	case cancelled:
		id := s.running("")
		s.stopKeeper()
		args = []string{"cancel", id}
	default:
		args = s.job()
	}
	s.keeperOff = true
	s.cmd = s.command(ctx, "command/"+s.point+"=stop", args...)
	s.keeperOff = false
	s.cmd.Stderr = &s.errs
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// resume lets the command go on, once its stop has taken effect.
func (s *standing) resume() {
	s.t.Helper()
	testwait.Until(s.t, patience, "stop at "+s.point, func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
		return err == nil && strings.HasPrefix(string(b[bytes.LastIndexByte(b, ')')+1:]), " T")
	})
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		s.t.Fatal(err)
	}
}

// judge asserts one run's end: the job ran once and whole, or was cut off by the
// engine's end, and then the record says so.
func (s *standing) judge(live bool) {
	s.t.Helper()
	err := s.cmd.Wait()
	where := func() string {
		return "at " + s.point + ": " + strconv.Itoa(s.cmd.ProcessState.ExitCode()) + " " + s.errs.String()
	}
	if s.cmd.ProcessState.ExitCode() < 0 {
		s.t.Errorf("%s: %v", where(), err)
		return
	}
	rows := s.rows()
	if len(rows) == 0 && strings.HasPrefix(s.point, "call.prepare.") && s.cmd.ProcessState.ExitCode() == 125 {
		// It was stopped for longer than a call may take, before its row.
		if n := s.effects(); n != 0 {
			s.t.Errorf("%s: %d jobs ran without a row", where(), n)
		}
		s.nothingLeft()
		s.stopKeeper()
		return
	}
	if len(rows) != 1 {
		s.t.Errorf("%s: %d rows", where(), len(rows))
		return
	}
	id := rows[0].ID
	w := s.run("", "wait", id.String())
	got, n := s.finished(id), s.effects()
	switch {
	case s.sc == refused:
		if got.State != sdk.StateFailed || n != 0 || w.code != 125 {
			s.t.Errorf("%s: %d effects, code %d, of %+v", where(), n, w.code, got)
		}
	case s.sc == cancelled && got.State == sdk.StateCancelled:
		if n != 1 || w.code != 130 {
			s.t.Errorf("%s: %d effects, code %d, of %+v", where(), n, w.code, got)
		}
	case !live && s.cutOff() && got.State == sdk.StateFailed && got.ExitCode != nil && *got.ExitCode == 137:
		// Why depends on what the engine still tells of its own kill.
		if n > 1 || w.code != 137 {
			s.t.Errorf("%s: %d effects, code %d, of %+v", where(), n, w.code, got)
		}
	case s.sc != cancelled && got.State == sdk.StateFailed && got.Reason == sdk.ReasonNonzeroExit:
		if n != 1 || w.code != 7 || got.ExitCode == nil || *got.ExitCode != 7 {
			s.t.Errorf("%s: %d effects, code %d, of %+v", where(), n, w.code, got)
		}
		s.wholeOutput(id)
	case s.sc == cancelled && got.State == sdk.StateFailed && got.Reason == sdk.ReasonNonzeroExit && !live:
		// The engine told it to end as it started again.
		if n != 1 || got.ExitCode == nil || *got.ExitCode != 9 {
			s.t.Errorf("%s: %d effects, of %+v", where(), n, got)
		}
	default:
		s.t.Errorf("%s: %d effects, code %d, of %+v", where(), n, w.code, got)
	}
	if s.sc == kept {
		if r := s.run("", "rm", id.String()); r.code != 0 {
			s.t.Errorf("rm: %d %s", r.code, r.stderr)
		}
	}
	s.nothingLeft()
	s.ledgerSound()
	s.stopKeeper()
	s.t.Logf("%s: %s, %s, %d effects", s.point, got.State, got.Reason, n)
	if s.t.Failed() {
		s.t.Log(where())
	}
}

// cutOff says whether the job may be running when the engine dies: before the
// boundaries of the launch it isn't there yet, behind the sight of its end it
// has ended.
func (s *standing) cutOff() bool {
	for _, p := range []string{"call.run.after", "write.submitted", "write.running", "call.status", "call.watch", "call.logs.before", "call.find", "write.adopted", "call.cancel"} {
		if strings.HasPrefix(s.point, p) {
			return true
		}
	}
	return false
}

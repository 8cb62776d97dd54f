//go:build linux || darwin

package local

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/driver/local/attempt"
	"github.com/windlass-run/windlass/internal/driver/local/proc"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

func (w *world) cancel(h sdk.JobHandle, grace *time.Duration) sdk.CancelJobResult {
	w.Helper()
	res, err := w.p.CancelJob(w.Context(), sdk.CancelJobRequest{Handle: h, Grace: grace, Why: "test"})
	if err != nil {
		w.Fatal(err)
	}
	return res
}

// up waits until the job has printed a line.
func (w *world) up(h sdk.JobHandle) {
	w.Helper()
	testwait.Until(w, patience, "line of the job", func() bool {
		return strings.Contains(w.logs(h, nil, false).stdout.String(), "up\n")
	})
}

func span(d time.Duration) *time.Duration { return &d }

// processes returns the living processes that belong to an attempt.
func processes(t testing.TB, h sdk.JobHandle) []proc.Identity {
	t.Helper()
	list, err := proc.Marked(attemptVariable + "=" + h.ID)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestF77Trees: TERM, grace, KILL reach every process, and the record says
// which of them ended the job.
func TestF77Trees(t *testing.T) {
	for _, c := range []struct {
		name, script string
		grace        *time.Duration
		by           string // which signal ended the job's own process
		signal       string
		code         string
		min, max     time.Duration
	}{
		{"heeds TERM", "echo up; exec sleep 1000", nil, "SIGTERM", "SIGTERM", "", 0, time.Minute},
		{"handles TERM", "trap 'exit 7' TERM; echo up; sleep 1000 & wait", nil, "SIGTERM", "", "7", 0, time.Minute},
		{"shell without trap", "echo up; sleep 1000; echo no", nil, "SIGTERM", "SIGTERM", "", 0, time.Minute},
		{"trap behind a child", "trap 'exit 7' TERM; echo up; sleep 1000", nil, "SIGTERM", "", "7", 0, time.Minute},
		{"ignores TERM", "trap '' TERM; echo up; sleep 1000 & wait; sleep 1000", span(300 * time.Millisecond), "SIGKILL", "SIGKILL", "", 300 * time.Millisecond, time.Minute},
		{"at once", "trap '' TERM; echo up; sleep 1000 & wait; sleep 1000", span(0), "SIGKILL", "SIGKILL", "", 0, time.Minute},
		{"daemon that heeds TERM", "setsid sleep 1000 & echo up; wait", nil, "SIGTERM", "SIGTERM", "", 0, time.Minute},
		{"daemon that ignores TERM", "setsid sh -c 'trap \"\" TERM HUP; echo up; sleep 1000 & wait; sleep 1000' & exec sleep 1000", span(500 * time.Millisecond),
			"SIGTERM", "SIGTERM", "", 500 * time.Millisecond, time.Minute},
		{"stopped", "echo up; kill -STOP $$; sleep 1000", nil, "SIGTERM", "SIGTERM", "", 0, time.Minute},
		{"orphaned daemon", "sh -c 'setsid sleep 1000 & exit'; echo up; exec sleep 1000", nil, "SIGTERM", "SIGTERM", "", 0, time.Minute},
		{"daemon without its mark", "env -i $(command -v setsid) $(command -v sh) -c 'trap \"\" TERM; echo up; sleep 1000 & wait; sleep 1000' & exec sleep 1000", span(300 * time.Millisecond),
			"SIGTERM", "SIGTERM", "", 300 * time.Millisecond, time.Minute},
	} {
		for _, config := range []string{`{}`, `{"cgroup":"off"}`} {
			t.Run(c.name+config, func(t *testing.T) {
				w := newWorld(t, config)
				h := w.run(sh(c.script))
				w.up(h)
				supervisor := supervisorOf(t, h)
				begun := time.Now()
				if res := w.cancel(h, c.grace); !res.Accepted || res.Gone {
					t.Fatalf("cancel: %+v", res)
				}
				res := w.ended(h)
				took := time.Since(begun)
				if res.State != sdk.StateCancelled || res.Raw["ended_by"] != c.by || res.Signal != c.signal || res.Raw["exit_code"] != c.code || res.Raw["cause"] != "cancel" {
					t.Errorf("got %s, %s, %v", res.State, res.Message, res.Raw)
				}
				if took < c.min || took > c.max {
					t.Errorf("took %s, want %s to %s", took, c.min, c.max)
				}
				if list := processes(t, h); len(list) > 0 {
					t.Errorf("left: %v", list)
				}
				if below, err := proc.Descendants(supervisor); err != nil || len(below) > 0 {
					t.Errorf("left below the supervisor: %v, %v", below, err)
				}
				if res := w.cancel(h, nil); !res.Gone {
					t.Errorf("cancel of what has ended: %+v", res)
				}
				w.cleanUp(h)
				if res := w.cancel(h, nil); !res.Gone {
					t.Errorf("cancel of what is gone: %+v", res)
				}
			})
		}
	}
}

// TestF77LeftBehind: what a job's own process leaves is killed when it exits,
// and the end is not held up by the pipe that it holds.
func TestF77LeftBehind(t *testing.T) {
	for _, config := range []string{`{}`, `{"cgroup":"off"}`} {
		t.Run(config, func(t *testing.T) {
			w := newWorld(t, config)
			h := w.run(sh("f=$(mktemp -u); export f; setsid sh -c 'trap \"\" TERM; echo from below; : >\"$f\"; sleep 1000 & wait; sleep 1000' & until [ -e \"$f\" ]; do sleep 0.05; done; rm \"$f\"; echo up; exit 5"))
			out := w.logs(h, nil, true)
			if out.verdict != sdk.VerdictComplete || out.stdout.String() != "from below\nup\n" {
				t.Errorf("log: %q, %s", out.stdout.String(), out.verdict)
			}
			res := w.ended(h)
			if res.ExitCode == nil || *res.ExitCode != 5 || res.Raw["rest_killed"] == "" {
				t.Errorf("got %s, %v", res.Message, res.Raw)
			}
			if list := processes(t, h); len(list) > 0 {
				t.Errorf("left: %v", list)
			}
		})
	}
}

// TestF77Multiplying: a tree that makes processes all the time is ended.
func TestF77Multiplying(t *testing.T) {
	for _, config := range []string{`{}`, `{"cgroup":"off"}`} {
		t.Run(config, func(t *testing.T) {
			w := newWorld(t, config)
			spec := sh(`trap '' TERM; echo up; while :; do (setsid sh -c 'trap "" TERM; sleep 3' &) ; done`)
			h := w.run(spec)
			w.up(h)
			w.cancel(h, span(50*time.Millisecond))
			w.ended(h)
			if list := processes(t, h); len(list) > 0 {
				t.Errorf("left: %v", list)
			}
		})
	}
}

// TestCancelHurries: a second cancel can shorten the grace, and a first one's
// is not stretched.
func TestCancelHurries(t *testing.T) {
	w := newWorld(t, "")
	h := w.run(sh("trap '' TERM; echo up; sleep 1000 & wait; sleep 1000"))
	w.up(h)
	w.cancel(h, span(time.Hour))
	w.cancel(h, span(2*time.Hour))
	if res := w.status(h); res.State != sdk.StateRunning {
		t.Fatalf("got %s", res.State)
	}
	w.cancel(h, span(0))
	if res := w.ended(h); res.Raw["ended_by"] != "SIGKILL" {
		t.Errorf("got %v", res.Raw)
	}
}

// TestCancelBeforeStart: a cancel that comes before the start is not lost.
func TestCancelBeforeStart(t *testing.T) {
	w := newWorld(t, "")
	l := w.launch(sh(w.mark("ran")))
	cmd := w.submitter(l, pointFolder)
	_ = cmd.Wait()
	h := w.p.handle(attempt.Launch{AttemptID: l.AttemptID}, proc.Identity{})
	if res := w.cancel(h, nil); !res.Gone {
		t.Errorf("cancel: %+v", res)
	}
	if res := w.status(h); res.State != sdk.StateCancelled {
		t.Errorf("got %s", res.State)
	}
	again, err := w.p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l, Ambient: ambient()})
	if err != nil {
		t.Fatal(err)
	}
	res := w.ended(again.Handle)
	if res.State != sdk.StateCancelled || res.Launches != 0 || w.marked("ran") != 0 {
		t.Errorf("got %s, %d launches, %d marks", res.State, res.Launches, w.marked("ran"))
	}
	w.cleanUp(h)
}

// TestCancelStoppedSupervisor: a cancel wakes a supervisor that was stopped.
func TestCancelStoppedSupervisor(t *testing.T) {
	w := newWorld(t, "")
	h := w.run(sh("echo up; exec sleep 1000"))
	w.up(h)
	if err := syscall.Kill(supervisorOf(t, h), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if res := w.status(h); res.State != sdk.StateRunning {
		t.Errorf("got %s", res.State)
	}
	w.cancel(h, nil)
	if res := w.ended(h); res.State != sdk.StateCancelled {
		t.Errorf("got %s", res.State)
	}
}

// TestSupervisorTerminated: a supervisor that is asked to end, as at a shutdown
// of the machine, ends its job and records that.
func TestSupervisorTerminated(t *testing.T) {
	w := newWorld(t, "")
	h := w.run(sh("echo up; exec sleep 1000"))
	w.up(h)
	if err := syscall.Kill(supervisorOf(t, h), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if res := w.ended(h); res.State != sdk.StateFailed || res.Signal != "SIGTERM" || res.Raw["cause"] != "terminated" {
		t.Errorf("got %s, %v", res.State, res.Raw)
	}
	h = w.run(sh("trap 'exit 0' TERM; echo up; sleep 1000 & wait"))
	w.up(h)
	if err := syscall.Kill(supervisorOf(t, h), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if res := w.ended(h); res.State != sdk.StateFailed || res.Reason != sdk.ReasonInfrastructure || res.ExitCode != nil {
		t.Errorf("an interrupted job that exits with 0 is no success: %s, %s, %v", res.State, res.Reason, res.ExitCode)
	}
}

// TestFolderRemoved: a job whose folder was taken away can be seen and ended by
// nobody, so its supervisor ends it.
func TestFolderRemoved(t *testing.T) {
	w := newWorld(t, "")
	h := w.run(sh("echo up; exec sleep 1000"))
	w.up(h)
	id, err := proc.Of(supervisorOf(t, h))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(w.state, h.ID)); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "end of the supervisor", func() bool {
		l, err := id.Look()
		return err == nil && l == proc.Dead
	})
	if list := processes(t, h); len(list) > 0 {
		t.Errorf("left: %v", list)
	}
	if left, err := w.leftovers(mustID(t, h.ID)); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestHangup: a supervisor doesn't mind that terminals close.
func TestHangup(t *testing.T) {
	w := newWorld(t, "")
	h := w.run(sh("echo up; sleep 0.3; exit 6"))
	w.up(h)
	if err := syscall.Kill(supervisorOf(t, h), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if res := w.ended(h); res.ExitCode == nil || *res.ExitCode != 6 {
		t.Errorf("got %s", res.Message)
	}
}

// TestF80PIDReuse: a process that has the supervisor's PID by now is not taken
// for it, and not signalled.
func TestF80PIDReuse(t *testing.T) {
	w := newWorld(t, "")
	h := w.run(sh("exit 0"))
	w.ended(h)
	f := attempt.Folder(filepath.Join(w.state, h.ID))
	if err := os.Remove(f.Path(attempt.EndFile)); err != nil {
		t.Fatal(err)
	}
	b, err := attempt.Read[attempt.Begun](f, attempt.BegunFile)
	if err != nil {
		t.Fatal(err)
	}
	b.Supervisor.PID = os.Getpid() // somebody else, with another start
	if err := attempt.Write(f, attempt.BegunFile, b, attempt.Visible); err != nil {
		t.Fatal(err)
	}
	if res := w.status(h); res.Reason != sdk.ReasonSupervisorLost {
		t.Errorf("got %s, %s", res.State, res.Reason)
	}
	if res := w.cancel(h, span(0)); !res.Gone {
		t.Errorf("cancel: %+v", res)
	}
}

// TestReboot: what the machine took down with it is lost, and there is nothing
// to be ended.
func TestReboot(t *testing.T) {
	for _, begun := range []bool{true, false} {
		t.Run(strconv.FormatBool(begun), func(t *testing.T) {
			w := newWorld(t, "")
			l := w.launch(sh(w.mark("ran")))
			res, err := w.p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l, Ambient: ambient()})
			if err != nil {
				t.Fatal(err)
			}
			w.ended(res.Handle)
			f := attempt.Folder(filepath.Join(w.state, res.Handle.ID))
			la, err := attempt.Read[attempt.Launch](f, attempt.LaunchFile)
			if err != nil {
				t.Fatal(err)
			}
			b, err := attempt.Read[attempt.Begun](f, attempt.BegunFile)
			if err != nil {
				t.Fatal(err)
			}
			la.BootID, b.Supervisor.BootID, b.Cgroup = "before", "before", nil
			err = errors.Join(attempt.Write(f, attempt.LaunchFile, la, attempt.Visible), attempt.Write(f, attempt.BegunFile, b, attempt.Visible),
				os.Remove(f.Path(attempt.EndFile)))
			if !begun {
				// The record of the start need not be on the disk after a crash.
				err = errors.Join(err, os.Remove(f.Path(attempt.BegunFile)), os.Remove(f.Path(attempt.StartedFile)))
			}
			if err != nil {
				t.Fatal(err)
			}
			found := w.find(l)
			if found.Outcome != sdk.FindFound {
				t.Fatalf("found: %+v", found)
			}
			h := found.Jobs[0].Handle
			st := w.status(h)
			if st.State != sdk.StateUnknown || st.Reason != sdk.ReasonSupervisorLost || !strings.Contains(st.Message, "rebooted") {
				t.Errorf("got %s, %s, %s", st.State, st.Reason, st.Message)
			}
			if again, err := w.p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l, Ambient: ambient()}); err != nil || !again.Adopted {
				t.Errorf("sent again: %+v, %v", again, err)
			}
			if res := w.cancel(h, nil); !res.Gone {
				t.Errorf("cancel: %+v", res)
			}
			if w.marked("ran") != 1 {
				t.Errorf("the job ran %d times", w.marked("ran"))
			}
			w.cleanUp(h)
		})
	}
}

// TestCleanupRefusesLive: clean-up takes nothing from a job that runs.
func TestCleanupRefusesLive(t *testing.T) {
	w := newWorld(t, "")
	h := w.run(sh("echo up; exec sleep 1000"))
	w.up(h)
	if _, err := w.p.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("got %v, want FailedPrecondition", err)
	}
	if res := w.status(h); res.State != sdk.StateRunning {
		t.Errorf("got %s", res.State)
	}
	w.cancel(h, span(0))
	w.ended(h)
	w.cleanUp(h)
}

//go:build linux || darwin

package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/driver/local/supervisor"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

const submitVerb = "submit-and-die"

// submitAndExit is a submitter that dies at a point: its arguments are the
// state folder, the file with the launch, and the point.
func submitAndExit(args []string) {
	err := func() error {
		b, err := os.ReadFile(args[1])
		if err != nil {
			return err
		}
		l, err := sdk.DecodeLaunch(b)
		if err != nil {
			return err
		}
		p, err := open(context.Background(), sdk.OpenRequest{Name: "dying", StateDir: args[0]})
		if err != nil {
			return err
		}
		p.hit = func(point string) {
			if point == args[2] {
				killSelf()
			}
		}
		_, err = p.RunJob(context.Background(), sdk.RunJobRequest{Launch: l, Ambient: ambient()})
		return err
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// submitter starts this test's program as a submitter in a process of its own.
func (w *world) submitter(l sdk.Launch, point string) *exec.Cmd {
	w.Helper()
	b, err := l.Encode()
	if err != nil {
		w.Fatal(err)
	}
	file := filepath.Join(w.TempDir(), "launch")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		w.Fatal(err)
	}
	cmd := exec.CommandContext(w.Context(), os.Args[0], submitVerb, w.state, file, point)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	return cmd
}

func (w *world) find(l sdk.Launch) sdk.FindJobsResult {
	w.Helper()
	var res sdk.FindJobsResult
	testwait.Until(w, patience, "a settled attempt", func() bool {
		var err error
		if res, err = w.p.FindJobs(w.Context(), sdk.FindJobsRequest{Launch: &l}); err != nil {
			w.Fatal(err)
		}
		return res.Outcome != sdk.FindNotVisible
	})
	return res
}

// settle does what the engine does with a launch in doubt.
func (w *world) settle(l sdk.Launch) sdk.JobHandle {
	w.Helper()
	res := w.find(l)
	if res.Outcome == sdk.FindFound {
		return res.Jobs[0].Handle
	}
	again, err := w.p.RunJob(w.Context(), sdk.RunJobRequest{Launch: l, Ambient: ambient()})
	if err != nil {
		w.Fatal(err)
	}
	return again.Handle
}

func (w *world) cleanUp(h sdk.JobHandle) {
	w.Helper()
	if _, err := w.p.CleanupJob(w.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
		w.Fatal(err)
	}
	if left, err := w.leftovers(mustID(w, h.ID)); err != nil || len(left) > 0 {
		w.Errorf("left: %v, %v", left, err)
	}
	if _, err := w.p.JobStatus(w.Context(), sdk.JobStatusRequest{Handle: h}); !errors.Is(err, sdk.NotFound) {
		w.Errorf("status after clean-up: %v", err)
	}
}

func mustID(t testing.TB, s string) sdk.ID {
	t.Helper()
	id, err := sdk.ParseID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestF80SubmitterDies: at whatever point a submitter is killed, the job runs
// once, and whoever comes next finds that out.
func TestF80SubmitterDies(t *testing.T) {
	submitter, _ := Failpoints()
	for _, point := range submitter {
		t.Run(point, func(t *testing.T) {
			w := newWorld(t, "")
			l := w.launch(sh(w.mark("ran") + "; exit 4"))
			cmd := w.submitter(l, point)
			if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Fatalf("the submitter was not killed at %s: %v", point, err)
			}
			h := w.settle(l)
			res := w.ended(h)
			if res.ExitCode == nil || *res.ExitCode != 4 {
				t.Errorf("got %s, %s, %v", res.State, res.Message, res.ExitCode)
			}
			if n := w.marked("ran"); n != 1 {
				t.Errorf("the job ran %d times", n)
			}
			w.cleanUp(h)
		})
	}
}

// TestF80SupervisorDies: at whatever point a supervisor is killed, the job runs
// at most once, its whole tree can be ended, and the end is never invented.
func TestF80SupervisorDies(t *testing.T) {
	for _, config := range []string{`{}`, `{"cgroup":"off"}`} {
		for _, point := range supervisor.Points() {
			t.Run(config+point, func(t *testing.T) {
				w := newWorld(t, config)
				if err := os.WriteFile(filepath.Join(w.state, pointFile), []byte(point), 0o600); err != nil {
					t.Fatal(err)
				}
				script := w.mark("ran") + "; setsid sleep 1000 & exit 4"
				if point == supervisor.PointForked || point == supervisor.PointStarted {
					script = w.mark("ran") + "; setsid sleep 1000 & sleep 1000"
				}
				l := w.launch(sh(script))
				res, err := w.p.RunJob(w.Context(), sdk.RunJobRequest{Launch: l, Ambient: ambient()})
				if point == supervisor.PointOrdered {
					// Nothing was begun, so it may be sent again.
					if err == nil || sdk.IsClear(err) {
						t.Fatalf("got %v, want an error that leaves it in doubt", err)
					}
					if err := os.Remove(filepath.Join(w.state, pointFile)); err != nil {
						t.Fatal(err)
					}
					if out := w.find(l); out.Outcome != sdk.FindAbsent {
						t.Fatalf("found: %v", out)
					}
					h := w.settle(l)
					if st := w.ended(h); st.ExitCode == nil || *st.ExitCode != 4 || w.marked("ran") != 1 {
						t.Errorf("got %s, %d marks", st.Message, w.marked("ran"))
					}
					w.cleanUp(h)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				h := res.Handle
				if point == supervisor.PointRecorded {
					if st := w.ended(h); st.ExitCode == nil || *st.ExitCode != 4 || w.marked("ran") != 1 {
						t.Errorf("got %s, %d marks", st.Message, w.marked("ran"))
					}
					w.cleanUp(h)
					return
				}
				w.lost(h)
				// Sent again it is adopted, and not run again.
				again, err := w.p.RunJob(w.Context(), sdk.RunJobRequest{Launch: l, Ambient: ambient()})
				if err != nil || !again.Adopted {
					t.Fatalf("sent again: %v, adopted %t", err, again.Adopted)
				}
				if out := w.logs(h, nil, true); out.verdict != sdk.VerdictGap || len(out.gaps) == 0 {
					t.Errorf("log: %s with %d gaps", out.verdict, len(out.gaps))
				}
				c, err := w.p.CancelJob(w.Context(), sdk.CancelJobRequest{Handle: h, Grace: new(time.Duration)})
				if err != nil || !c.Gone {
					t.Fatalf("cancel: %+v, %v", c, err)
				}
				w.lost(h)
				if n := w.marked("ran"); n > 1 || n == 0 && point == supervisor.PointExited {
					t.Errorf("the job ran %d times", n)
				}
				w.cleanUp(h)
			})
		}
	}
}

func (w *world) lost(h sdk.JobHandle) {
	w.Helper()
	testwait.Until(w, patience, "lost supervisor", func() bool {
		st := w.status(h)
		if st.State.Terminal() || st.ExitCode != nil {
			w.Fatalf("an end was invented: %s, %s", st.State, st.Message)
		}
		return st.Reason == sdk.ReasonSupervisorLost
	})
}

// TestF80ManySubmitters: processes that send the same launch at once start one
// job.
func TestF80ManySubmitters(t *testing.T) {
	w := newWorld(t, "")
	l := w.launch(sh(w.mark("ran")))
	var cmds []*exec.Cmd
	for range 4 {
		cmds = append(cmds, w.submitter(l, ""))
	}
	var wg sync.WaitGroup
	handles := make([]sdk.JobHandle, 8)
	for i := range handles {
		wg.Go(func() {
			p := openIn(t, w.state, "")
			res, err := p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l, Ambient: ambient()})
			if err != nil {
				t.Error(err)
			}
			handles[i] = res.Handle
		})
	}
	wg.Wait()
	for _, c := range cmds {
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
	for _, h := range handles {
		if a, b := fmt.Sprint(h), fmt.Sprint(handles[0]); a != b {
			t.Errorf("handles differ: %s and %s", a, b)
		}
	}
	w.ended(handles[0])
	if n := w.marked("ran"); n != 1 {
		t.Errorf("the job ran %d times", n)
	}
}

// TestRunAnotherLaunch: an attempt is of one launch.
func TestRunAnotherLaunch(t *testing.T) {
	w := newWorld(t, "")
	l := w.launch(sh("exit 0"))
	if _, err := w.p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l, Ambient: ambient()}); err != nil {
		t.Fatal(err)
	}
	other := w.launch(sh("exit 1"))
	other.AttemptID = l.AttemptID
	if _, err := w.p.RunJob(t.Context(), sdk.RunJobRequest{Launch: other, Ambient: ambient()}); !errors.Is(err, sdk.AlreadyExists) {
		t.Errorf("got %v, want AlreadyExists", err)
	}
}

// TestRefusedRunLeavesNothing: what proves that nothing was begun leaves no
// folder.
func TestRefusedRunLeavesNothing(t *testing.T) {
	w := newWorld(t, "")
	bad := w.launch(sh("exit 0"))
	bad.Secrets = map[string]sdk.SecretRef{"X": "secret://env/NOWHERE"}
	w.p.exe = "/no/such/windlass"
	for name, l := range map[string]sdk.Launch{"secret": bad, "supervisor": w.launch(sh("exit 0"))} {
		_, err := w.p.RunJob(t.Context(), sdk.RunJobRequest{Launch: l, Ambient: ambient()})
		if !sdk.IsClear(err) {
			t.Errorf("%s: got %v, want a clear refusal", name, err)
		}
	}
	w.p.exe = "/bin/true" // a program that is no supervisor
	_, err := w.p.RunJob(t.Context(), sdk.RunJobRequest{Launch: w.launch(sh("exit 0")), Ambient: ambient()})
	if !sdk.IsClear(err) || !strings.Contains(err.Error(), "local.Supervise") {
		t.Errorf("got %v, want a clear refusal that says how to mend it", err)
	}
	if list, err := os.ReadDir(w.state); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}

package fake_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

func d(x time.Duration) fake.Duration { return fake.Duration(x) }

// virtual runs a test in virtual time.
func virtual(t *testing.T, s fake.Settings, k fake.Knobs, f func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newBench(t, s, k)) })
}

// pass lets virtual time pass.
func (b *bench) pass(x time.Duration) {
	b.t.Helper()
	if err := sdk.SystemClock().Sleep(b.t.Context(), x); err != nil {
		b.t.Error(err)
	}
}

func weaker(change func(g *sdk.Guarantees)) fake.Settings {
	g := fake.BestGuarantees()
	change(&g)
	return fake.Settings{Guarantees: &g}
}

func (b *bench) status(h sdk.JobHandle) (sdk.JobStatusResult, error) {
	r, _ := sdk.Of(b.p, sdk.Runner())
	return r.JobStatus(b.t.Context(), sdk.JobStatusRequest{Handle: h})
}

func (b *bench) state(h sdk.JobHandle) sdk.JobState {
	b.t.Helper()
	st, err := b.status(h)
	if err != nil {
		b.t.Fatal(err)
	}
	return st.State
}

func (b *bench) send(l sdk.Launch) (sdk.RunJobResult, error) {
	r, _ := sdk.Of(b.p, sdk.Runner())
	return r.RunJob(b.t.Context(), sdk.RunJobRequest{Launch: l})
}

func TestTimeline(t *testing.T) {
	virtual(t, fake.Settings{}, fake.Knobs{StartDelay: d(time.Second)}, func(t *testing.T, b *bench) {
		h := b.run("sleep", "10s", ";", "exit", "4")
		for _, c := range []struct {
			wait time.Duration
			want sdk.JobState
		}{{0, sdk.StatePending}, {time.Second - 1, sdk.StatePending}, {1, sdk.StateRunning}, {10*time.Second - 1, sdk.StateRunning}, {1, sdk.StateFailed}, {time.Hour, sdk.StateFailed}} {
			b.pass(c.wait)
			if got := b.state(h); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		}
		st, _ := b.status(h)
		if st.StartedAt.Sub(st.CreatedAt) != time.Second || st.EndedAt.Sub(st.StartedAt) != 10*time.Second || st.Launches != 1 {
			t.Errorf("got %+v", st)
		}
	})
}

// TestEndings holds every kind of ending against what is told of it.
func TestEndings(t *testing.T) {
	code := func(n int) *int { return &n }
	for _, c := range []struct {
		words  string
		want   sdk.JobStatusResult
		cancel bool
	}{
		{"true", sdk.JobStatusResult{State: sdk.StateSucceeded, Reason: sdk.ReasonCompleted, ExitCode: code(0)}, false},
		{"false", sdk.JobStatusResult{State: sdk.StateFailed, Reason: sdk.ReasonNonzeroExit, ExitCode: code(1)}, false},
		{"signal SEGV", sdk.JobStatusResult{State: sdk.StateFailed, Reason: sdk.ReasonSignaled, Signal: "SIGSEGV"}, false},
		{"oom", sdk.JobStatusResult{State: sdk.StateFailed, Reason: sdk.ReasonOOMKilled, ExitCode: code(137), OOMObserved: true}, false},
		{"oom 0", sdk.JobStatusResult{State: sdk.StateSucceeded, Reason: sdk.ReasonCompleted, ExitCode: code(0), OOMObserved: true}, false},
		{"child-oom ; exit 3", sdk.JobStatusResult{State: sdk.StateFailed, Reason: sdk.ReasonNonzeroExit, ExitCode: code(3), OOMObserved: true}, false},
		{"fail preempted", sdk.JobStatusResult{State: sdk.StateFailed, Reason: sdk.ReasonPreempted}, false},
		{"fail image_pull", sdk.JobStatusResult{State: sdk.StateFailed, Reason: sdk.ReasonImagePull}, false},
		{"hang", sdk.JobStatusResult{State: sdk.StateCancelled, Reason: sdk.ReasonCancelled, Signal: "SIGTERM"}, true},
		{"ignore-term ; hang", sdk.JobStatusResult{State: sdk.StateCancelled, Reason: sdk.ReasonCancelled, Signal: "SIGKILL"}, true},
		{"on-term 7 ; hang", sdk.JobStatusResult{State: sdk.StateCancelled, Reason: sdk.ReasonCancelled, ExitCode: code(7)}, true},
		{"ignore-term ; sleep 5s ; exit 2", sdk.JobStatusResult{State: sdk.StateCancelled, Reason: sdk.ReasonCancelled, ExitCode: code(2)}, true},
	} {
		t.Run(c.words, func(t *testing.T) {
			virtual(t, fake.Settings{}, fake.Knobs{}, func(t *testing.T, b *bench) {
				h := b.run(strings.Fields(c.words)...)
				b.pass(time.Second)
				if c.cancel {
					can, _ := sdk.Of(b.p, sdk.Canceler())
					if _, err := can.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h}); err != nil {
						t.Fatal(err)
					}
				}
				b.pass(time.Hour)
				st, err := b.status(h)
				if err != nil {
					t.Fatal(err)
				}
				same := (st.ExitCode == nil) == (c.want.ExitCode == nil) && (st.ExitCode == nil || *st.ExitCode == *c.want.ExitCode)
				if st.State != c.want.State || st.Reason != c.want.Reason || st.Signal != c.want.Signal || st.OOMObserved != c.want.OOMObserved || !same {
					t.Errorf("got %+v, want %+v", st, c.want)
				}
				if !sdk.LegalReason(st.State, st.Reason) {
					t.Errorf("%s: %s is not legal", st.State, st.Reason)
				}
			})
		})
	}
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault fake.Fault
		code  sdk.Code
		retry bool
		made  int
	}{
		{"reset", fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultReset}, sdk.Unavailable, true, 0},
		{"lost reply", fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultLostReply}, sdk.Unavailable, true, 1},
		{"capacity", fake.Capacity(1), sdk.ResourceExhausted, true, 0},
		{"quota", fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultError, Status: 400, Code: "Quota"}, sdk.ResourceExhausted, false, 0},
		{"throttled", fake.Throttled(fake.OpRunJob, 1, time.Second), sdk.ResourceExhausted, true, 0},
		{"503", fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultError, Status: 503}, sdk.Unavailable, true, 0},
		{"403", fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultError, Status: 403}, sdk.PermissionDenied, false, 0},
		{"401", fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultError, Status: 401}, sdk.Unauthenticated, false, 0},
		{"409", fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultError, Status: 409}, sdk.Aborted, false, 0},
		{"412", fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultError, Status: 412}, sdk.Aborted, false, 0},
		{"400", fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultError, Status: 400}, sdk.InvalidArgument, false, 0},
		{"418", fake.Fault{Op: fake.OpRunJob, Kind: fake.FaultError, Status: 418}, sdk.Unknown, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtual(t, fake.Settings{}, fake.Knobs{}, func(t *testing.T, b *bench) {
				l := b.prepare(sdk.JobSpec{Args: sdk.Argv{"true"}})
				b.cloud.Inject(c.fault)
				_, err := b.send(l)
				var api *fake.APIError
				if sdk.CodeOf(err) != c.code || sdk.IsRetryable(err) != c.retry || !errors.As(err, &api) {
					t.Errorf("got %v (retryable %t), want %s", err, sdk.IsRetryable(err), c.code)
				}
				if got := b.cloud.Made(l.AttemptID); got != c.made {
					t.Errorf("%d objects, want %d", got, c.made)
				}
				if c.name == "throttled" && sdk.RetryAfter(err) != time.Second {
					t.Errorf("retry after %s", sdk.RetryAfter(err))
				}
				res, err := b.send(l)
				if err != nil || res.Adopted != (c.made == 1) || b.cloud.Made(l.AttemptID) != 1 || b.cloud.Calls(fake.OpRunJob) != 2 {
					t.Errorf("again: adopted %t, %v; %d objects, %d calls", res.Adopted, err, b.cloud.Made(l.AttemptID), b.cloud.Calls(fake.OpRunJob))
				}
			})
		})
	}
}

func TestFaultsByNumber(t *testing.T) {
	faults := []fake.Fault{{Op: fake.OpJobStatus, Kind: fake.FaultError, Status: 503, Nth: 3, Times: 2}}
	virtual(t, fake.Settings{}, fake.Knobs{Faults: faults}, func(t *testing.T, b *bench) {
		h := b.run("true")
		var got []bool
		for range 6 {
			_, err := b.status(h)
			got = append(got, err != nil)
		}
		for i, want := range []bool{false, false, true, true, false, false} {
			if got[i] != want {
				t.Errorf("call %d: failed is %t", i+1, got[i])
			}
		}
	})
}

func TestDuplicatesWithoutNames(t *testing.T) {
	for _, c := range []struct {
		by    sdk.SubmitBy
		later time.Duration
		made  int
	}{{sdk.SubmitByToken, 0, 1}, {sdk.SubmitByToken, 2 * time.Minute, 2}, {sdk.SubmitBySearch, 0, 2}, {sdk.SubmitByNothing, 0, 2}} {
		s := weaker(func(g *sdk.Guarantees) {
			g.Submit.By = c.by
			if c.by == sdk.SubmitByToken {
				g.Submit.TokenWindow = time.Minute
			}
		})
		virtual(t, s, fake.Knobs{}, func(t *testing.T, b *bench) {
			l := b.prepare(sdk.JobSpec{Args: sdk.Argv{"true"}})
			for range 2 {
				if _, err := b.send(l); err != nil {
					t.Fatal(err)
				}
				b.pass(c.later)
			}
			if got := b.cloud.Made(l.AttemptID); got != c.made {
				t.Errorf("%s after %s: %d objects, want %d", c.by, c.later, got, c.made)
			}
		})
	}
}

// TestNotFoundGrace: what the cloud may hide for a while is pending, and
// not found afterwards.
func TestNotFoundGrace(t *testing.T) {
	s := weaker(func(g *sdk.Guarantees) { g.Found.Within = time.Minute })
	virtual(t, s, fake.Knobs{NotFoundFor: d(30 * time.Second)}, func(t *testing.T, b *bench) {
		h := b.run("sleep", "5m")
		if got := b.state(h); got != sdk.StatePending {
			t.Errorf("got %s", got)
		}
		b.pass(30 * time.Second)
		if got := b.state(h); got != sdk.StateRunning {
			t.Errorf("got %s", got)
		}
		b.cloud.Vanish(h.ID)
		b.pass(time.Minute)
		if _, err := b.status(h); !errors.Is(err, sdk.NotFound) {
			t.Errorf("got %v", err)
		}
	})
}

func TestEvidenceExpires(t *testing.T) {
	virtual(t, fake.Settings{}, fake.Knobs{Forget: d(time.Hour), ForgetLogs: d(time.Minute)}, func(t *testing.T, b *bench) {
		h := b.run("echo", "x")
		if out, v := b.logs(h, true); out != "x\n" || v != sdk.VerdictComplete {
			t.Errorf("got %q, %s", out, v)
		}
		b.pass(time.Minute)
		if out, v := b.logs(h, true); out != "" || v != sdk.VerdictUnavailable {
			t.Errorf("forgotten log: got %q, %s", out, v)
		}
		if got := b.state(h); got != sdk.StateSucceeded {
			t.Errorf("got %s", got)
		}
		b.pass(time.Hour)
		if _, err := b.status(h); !errors.Is(err, sdk.NotFound) {
			t.Errorf("got %v", err)
		}
	})
}

func TestFlickerEndsWithTheJob(t *testing.T) {
	virtual(t, fake.Settings{}, fake.Knobs{Flicker: 2}, func(t *testing.T, b *bench) {
		h := b.run("sleep", "10s")
		unknown := 0
		for range 10 {
			if b.state(h) == sdk.StateUnknown {
				unknown++
			}
		}
		b.pass(10 * time.Second)
		for range 10 {
			if got := b.state(h); got != sdk.StateSucceeded {
				t.Errorf("an ended job is %s", got)
			}
		}
		if unknown != 5 {
			t.Errorf("%d of 10 were unknown", unknown)
		}
	})
}

func TestRateLimit(t *testing.T) {
	virtual(t, fake.Settings{}, fake.Knobs{}, func(t *testing.T, b *bench) {
		h := b.run("hang")
		b.cloud.Change(func(k *fake.Knobs) { k.Rate = 5 })
		refused := 0
		for range 20 {
			if _, err := b.status(h); errors.Is(err, sdk.ResourceExhausted) && sdk.RetryAfter(err) > 0 {
				refused++
			}
		}
		if refused != 15 {
			t.Errorf("%d of 20 calls in one second were refused", refused)
		}
		b.pass(time.Second)
		b.state(h)
	})
}

// TestF49LateLogs: all output can be read only after the job has ended.
func TestF49LateLogs(t *testing.T) {
	virtual(t, fake.Settings{}, fake.Knobs{LateLogs: d(8 * time.Second)}, func(t *testing.T, b *bench) {
		h := b.run("echo", "a", ";", "sleep", "1s", ";", "echo", "b")
		if out, v := b.logs(h, false); out != "" || v != sdk.VerdictQuiet {
			t.Errorf("at once: %q, %s", out, v)
		}
		began := time.Now()
		if out, v := b.logs(h, true); out != "a\nb\n" || v != sdk.VerdictComplete || time.Since(began) != 9*time.Second {
			t.Errorf("followed: %q, %s after %s", out, v, time.Since(began))
		}
	})
}

// TestF54CutLogs: bytes come once however the connection is cut.
func TestF54CutLogs(t *testing.T) {
	for _, lines := range []bool{false, true} {
		for cut := 1; cut < 40; cut++ {
			s := weaker(func(g *sdk.Guarantees) {
				if lines {
					g.Logs.Fidelity = sdk.LogLines
				}
			})
			virtual(t, s, fake.Knobs{LogCut: cut, DuplicateLogs: cut%2 == 0}, func(t *testing.T, b *bench) {
				h := b.run("echo", "one", ";", "echo", ";", "lines", "20", ";", "sleep", "1s", ";", "echo", "é家🚀")
				var want strings.Builder
				want.WriteString("one\n\n")
				for i := range 20 {
					want.WriteString("line " + string(rune('0'+i/10)) + string(rune('0'+i%10)) + "\n")
				}
				want.WriteString("é家🚀\n")
				full := strings.ReplaceAll(want.String(), "line 0", "line ")
				got, v := b.logs(h, true)
				if lines {
					full = strings.ReplaceAll(full, "\n", "")
				}
				if got != full || v != sdk.VerdictComplete {
					t.Errorf("cut after %d: %q, %s", cut, got, v)
				}
			})
		}
	}
}

func TestFollowBearsOutages(t *testing.T) {
	faults := []fake.Fault{{Op: fake.OpJobLogs, Kind: fake.FaultError, Status: 503, Nth: 2, Times: 3}}
	virtual(t, fake.Settings{}, fake.Knobs{Faults: faults}, func(t *testing.T, b *bench) {
		if out, v := b.logs(b.run("echo", "a", ";", "sleep", "1s", ";", "echo", "b"), true); out != "a\nb\n" || v != sdk.VerdictComplete {
			t.Errorf("got %q, %s", out, v)
		}
		b.cloud.Inject(fake.Fault{Op: fake.OpJobLogs, Kind: fake.FaultError, Status: 503, Times: -1})
		lg, _ := sdk.Of(b.p, sdk.Logger())
		var last error
		for _, err := range lg.JobLogs(t.Context(), sdk.JobLogsRequest{Handle: b.run("hang"), Follow: true}) {
			last = err
		}
		if !errors.Is(last, sdk.Unavailable) {
			t.Errorf("an outage without end: got %v", last)
		}
	})
}

func TestMissingImage(t *testing.T) {
	virtual(t, fake.Settings{}, fake.Knobs{MissingImages: []string{"app:0"}}, func(t *testing.T, b *bench) {
		res, err := b.send(b.prepare(sdk.JobSpec{Image: "app:0", Args: sdk.Argv{"true"}}))
		if err != nil {
			t.Fatal(err)
		}
		if st, err := b.status(res.Handle); err != nil || st.Reason != sdk.ReasonImagePull || !st.StartedAt.IsZero() || !strings.Contains(st.Message, "app:0") {
			t.Errorf("got %+v, %v", st, err)
		}
	})
}

func TestCallTimeout(t *testing.T) {
	virtual(t, fake.Settings{}, fake.Knobs{}, func(t *testing.T, b *bench) {
		h := b.run("hang")
		_, release := b.cloud.Block(fake.OpJobStatus)
		defer release()
		began := time.Now()
		if _, err := b.status(h); !errors.Is(err, sdk.DeadlineExceeded) || time.Since(began) != 30*time.Second {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	})
}

// TestStdinEndsWithTheProvider: a pipe that is lost is the end of input.
func TestStdinEndsWithTheProvider(t *testing.T) {
	virtual(t, fake.Settings{}, fake.Knobs{}, func(t *testing.T, b *bench) {
		r, w := io.Pipe()
		defer func() { _ = w.Close() }()
		l := b.prepare(sdk.JobSpec{Args: sdk.Argv{"cat"}, Stdin: sdk.StdinAttached})
		run, _ := sdk.Of(b.p, sdk.Runner())
		res, err := run.RunJob(t.Context(), sdk.RunJobRequest{Launch: l, Stdin: r})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("half")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := b.state(res.Handle); got != sdk.StateRunning {
			t.Errorf("got %s", got)
		}
		if err := b.p.Close(); err != nil {
			t.Fatal(err)
		}
		if out, _ := b.logs(res.Handle, true); out != "half" {
			t.Errorf("got %q", out)
		}
	})
}

// runOf is the run that a job was made for.
func runOf(t *testing.T, b *bench, h sdk.JobHandle) sdk.ID {
	t.Helper()
	var rec struct {
		Run sdk.ID `json:"run_id"`
	}
	if err := json.Unmarshal(b.cloud.Describe(h.ID), &rec); err != nil || rec.Run.IsZero() {
		t.Fatalf("%s: %v", b.cloud.Describe(h.ID), err)
	}
	return rec.Run
}

// TestGate: a job waits at its gate, however long, until that is opened for its run or
// for all; one that is cancelled doesn't, and one that comes to an open gate goes on.
func TestGate(t *testing.T) {
	virtual(t, fake.Settings{}, fake.Knobs{}, func(t *testing.T, b *bench) {
		one, two, three := b.run("echo", "a", ";", "gate", ";", "echo", "b"), b.run("gate"), b.run("gate", ";", "exit", "3")
		slow := b.run("sleep", "1h", ";", "gate")
		b.pass(time.Minute)
		for _, h := range []sdk.JobHandle{one, two, three, slow} {
			if got := b.state(h); got != sdk.StateRunning {
				t.Errorf("%s before its gate is open", got)
			}
		}
		if err := b.cloud.OpenGate(runOf(t, b, one)); err != nil {
			t.Fatal(err)
		}
		b.pass(time.Second)
		if a, z := b.state(one), b.state(two); a != sdk.StateSucceeded || z != sdk.StateRunning {
			t.Errorf("%s and %s", a, z)
		}
		if out, _ := b.logs(one, true); out != "a\nb\n" {
			t.Errorf("%q", out)
		}
		if err := b.cloud.OpenGate(sdk.ID{}); err != nil {
			t.Fatal(err)
		}
		b.pass(time.Second)
		if a, z, s := b.state(two), b.state(three), b.state(slow); a != sdk.StateSucceeded || z != sdk.StateFailed || s != sdk.StateRunning {
			t.Errorf("%s, %s and %s", a, z, s)
		}
		b.pass(time.Hour)
		if s := b.state(slow); s != sdk.StateSucceeded {
			t.Errorf("%s behind an open gate", s)
		}
	})
}

func TestWatchTellsEachChange(t *testing.T) {
	virtual(t, fake.Settings{}, fake.Knobs{StartDelay: d(time.Second)}, func(t *testing.T, b *bench) {
		b.run("sleep", "1m") // there before, but it changes later
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		w, _ := sdk.Of(b.p, sdk.Watcher())
		var at []time.Duration
		began := time.Now()
		go func() {
			b.pass(10 * time.Second)
			b.run("sleep", "5s")
		}()
		for e, err := range w.WatchJobs(ctx, sdk.WatchJobsRequest{Owner: "me"}) {
			if err != nil {
				break
			}
			if e.AttemptID.IsZero() {
				t.Error("an event without an attempt")
			}
			at = append(at, time.Since(began))
		}
		want := []time.Duration{time.Second, 10 * time.Second, 11 * time.Second, 16 * time.Second, 61 * time.Second}
		if len(at) != len(want) {
			t.Fatalf("events at %s, want %s", at, want)
		}
		for i := range want {
			if at[i] != want[i] {
				t.Errorf("events at %s, want %s", at, want)
				break
			}
		}
	})
}

// TestEndedCancelStaysEnded: a cancel never changes what may have been seen.
func TestEndedCancelStaysEnded(t *testing.T) {
	virtual(t, fake.Settings{}, fake.Knobs{}, func(t *testing.T, b *bench) {
		h := b.run("echo", "x", ";", "exit", "3")
		can, _ := sdk.Of(b.p, sdk.Canceler())
		res, err := can.CancelJob(t.Context(), sdk.CancelJobRequest{Handle: h})
		if err != nil || !res.Gone {
			t.Errorf("got %+v, %v", res, err)
		}
		if st, _ := b.status(h); st.State != sdk.StateFailed || *st.ExitCode != 3 {
			t.Errorf("got %+v", st)
		}
	})
}

func TestNativeDeadline(t *testing.T) {
	virtual(t, fake.Settings{}, fake.Knobs{}, func(t *testing.T, b *bench) {
		l := b.prepare(sdk.JobSpec{Args: sdk.Argv{"ignore-term", ";", "hang"}, Timeout: 10 * time.Second})
		if l.NativeDeadline != 11*time.Second {
			t.Errorf("native deadline %s", l.NativeDeadline)
		}
		res, err := b.send(l)
		if err != nil {
			t.Fatal(err)
		}
		b.pass(time.Minute)
		st, _ := b.status(res.Handle)
		if st.State != sdk.StateFailed || st.Reason != sdk.ReasonTimedOut || st.Signal != "SIGKILL" || st.EndedAt.Sub(st.StartedAt) != 21*time.Second {
			t.Errorf("got %+v", st)
		}
	})
}

func TestMarksOutliveTheirJobs(t *testing.T) {
	virtual(t, fake.Settings{}, fake.Knobs{}, func(t *testing.T, b *bench) {
		h := b.run("mark", "k", ";", "sleep", "1s", ";", "mark", "k", ";", "grandchild", "k", "1h")
		if got := b.cloud.Marks("k"); got != 1 {
			t.Errorf("%d marks", got)
		}
		b.pass(time.Minute)
		cl, _ := sdk.Of(b.p, sdk.Cleaner())
		if _, err := cl.CleanupJob(t.Context(), sdk.CleanupJobRequest{Handle: h}); err != nil {
			t.Fatal(err)
		}
		b.pass(2 * time.Hour)
		if got := b.cloud.Marks("k"); got != 2 {
			t.Errorf("%d marks, want 2: the job's end ends its grandchild", got)
		}
	})
}

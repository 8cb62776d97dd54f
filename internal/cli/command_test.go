package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// seeded is a world with one run of each sort.
func seeded(t *testing.T) (*world, map[string]sdk.ID) {
	w := newWorld(t)
	ids := map[string]sdk.ID{}
	w.seed(func(s *scripted) {
		spec := func(name string) sdk.JobSpec {
			return sdk.JobSpec{V: 1, Name: name, Args: sdk.Argv{"sh", "-c", "echo $X"}, Env: sdk.Env{"X": "canary"}}
		}
		ids["good"] = s.add("local", spec("good"), "")
		s.start(ids["good"])
		s.finish(ids["good"], sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0)})
		ids["bad"] = s.add("docker", spec("bad"), "")
		s.start(ids["bad"])
		s.finish(ids["bad"], sdk.StateFailed, sdk.ReasonNonzeroExit, ledger.Change{ExitCode: code(3), Raw: map[string]string{"Status": "exited\x1b"}})
		ids["running"] = s.add("local", spec("running"), "")
		s.start(ids["running"])
		ids["doubt"] = s.add("docker", spec("doubt"), "")
		why, message := sdk.ReasonCredentials, "the token has expired"
		s.write(ids["doubt"], ledger.NewEvent{Attempt: 1, Kind: ledger.KindObserved, Actor: "engine",
			Change: ledger.Change{V: 1, State: sdk.StateUnknown, Reason: &why, Message: &message}})
	})
	w.now = time.Now()
	return w, ids
}

func TestPs(t *testing.T) {
	w := newWorld(t)
	if out := w.ok("ps"); !strings.HasPrefix(out, "RUN") {
		t.Errorf("without a ledger: %s", out)
	}
	if _, err := os.Stat(w.state); err == nil {
		t.Error("looking made a ledger")
	}
	w, ids := seeded(t)
	lines := func(args ...string) string {
		var got []string
		for _, l := range strings.Split(strings.TrimSpace(w.ok(args...)), "\n")[1:] {
			for name, id := range ids {
				if strings.HasPrefix(l, id.Short()) {
					got = append(got, name)
				}
			}
		}
		return strings.Join(got, " ")
	}
	for _, c := range []struct{ args, want string }{
		{"ps", "doubt running"}, {"ps -a", "doubt running bad good"}, {"ps -n 3", "doubt running bad"},
		{"ps --filter state=failed --filter state=succeeded", "bad good"}, {"ps -a --filter provider=docker", "doubt bad"},
		{"ps -a --filter name=good", "good"}, {"ps --filter actor=nobody", ""},
	} {
		if got := lines(strings.Fields(c.args)...); got != c.want {
			t.Errorf("%s: %s, want %s", c.args, got, c.want)
		}
	}
	if out := w.ok("ps", "-a"); !strings.Contains(out, "failed (exit 3)") || !strings.Contains(out, "unknown (credentials)") || strings.Contains(out, "\x1b") {
		t.Errorf("%s", out)
	}
	if out := w.ok("ps", "-q"); out != ids["doubt"].String()+"\n"+ids["running"].String()+"\n" {
		t.Errorf("ps -q: %s", out)
	}
	out := w.ok("ps", "-a", "--json")
	validate(t, out)
	if views := decode[[]RunView](t, out); len(views) != 4 || views[2].ExitCode == nil || *views[2].ExitCode != 3 || *views[2].Exit != 3 || views[0].Exit != nil {
		t.Errorf("%s", out)
	}
}

func TestStatusSaysWhy(t *testing.T) {
	w, ids := seeded(t)
	for name, wants := range map[string][]string{
		"bad":     {"failed (exit 3)", "a code other than 0", "Provider says", `Status: exited\x1b`, "windlass rerun", "windlass logs", "complete"},
		"doubt":   {"unknown (credentials)", "the token has expired", "renew the credentials", "windlass cancel"},
		"running": {"running", "It runs.", "windlass logs -f", "no process looks after it"},
	} {
		out := w.ok("status", name)
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("status %s lacks %q:\n%s", name, want, out)
			}
		}
	}
	// By suffix, and by whole ID.
	for _, ref := range []string{ids["good"].Short(), ids["good"].String()} {
		if out := w.ok("status", ref); !strings.Contains(out, "succeeded") {
			t.Errorf("%s", out)
		}
	}
	out := w.ok("status", "bad", "--json")
	validate(t, out)
	v := decode[RunView](t, out)
	if len(v.Attempts) != 1 || v.Attempts[0].Raw["Status"] != "exited\x1b" || len(v.Next) == 0 {
		t.Errorf("%s", out)
	}
	if strings.Contains(out, "canary") || strings.Contains(out, "Y2FuYXJ5") || !strings.Contains(out, "echo $X") {
		t.Errorf("the spec isn't shown as it should be: %s", out)
	}
	w.fails(ExitWindlass, "status", "nothing")
	w.fails(ExitWindlass, "status", "nothing", "--json")
	validate(t, w.out.String())
}

// TestStatusOfAKilledHolder: the row of a run whose holder was killed names it still;
// whether one lives is asked.
func TestStatusOfAKilledHolder(t *testing.T) {
	w := newWorld(t)
	var id sdk.ID
	w.seed(func(s *scripted) {
		id = s.add("local", sdk.JobSpec{V: 1, Name: "one", Args: sdk.Argv{"x"}}, "")
		s.start(id)
		holder := s.id()
		if err := s.store.PutHolder(t.Context(), ledger.Holder{ID: holder, Kind: "keeper", Expires: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		run, err := s.store.Run(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.store.Claim(t.Context(), id, holder, run.Fence); err != nil {
			t.Fatal(err)
		}
	})
	for dead, want := range map[bool]string{false: "a process looks after it", true: "no process looks after it at the moment; windlass wait " + id.Short()} {
		w.engine.orphaned = dead
		if out := w.ok("status", "one"); !strings.Contains(out, want) {
			t.Errorf("dead %t: %s", dead, out)
		}
		if v := decode[RunView](t, w.ok("status", "one", "--json")); v.Held == nil || *v.Held == dead {
			t.Errorf("dead %t: held %v", dead, v.Held)
		}
	}
}

// TestPsOfAKilledHolder: the list says beside a run that nobody looks after it, and
// what takes it up; in JSON, too.
func TestPsOfAKilledHolder(t *testing.T) {
	w := newWorld(t)
	var left, held, ended sdk.ID
	w.seed(func(s *scripted) {
		claim := func(name, lock string) sdk.ID {
			id := s.add("local", sdk.JobSpec{V: 1, Name: name, Args: sdk.Argv{"x"}}, "")
			s.start(id)
			holder := s.id()
			if err := s.store.PutHolder(t.Context(), ledger.Holder{ID: holder, Kind: "keeper", LockFile: lock, Expires: w.now.Add(time.Hour)}); err != nil {
				t.Fatal(err)
			}
			run, err := s.store.Run(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.store.Claim(t.Context(), id, holder, run.Fence); err != nil {
				t.Fatal(err)
			}
			return id
		}
		left, held = claim("left", filepath.Join(w.dir, "gone.lock")), claim("held", "")
		ended = claim("ended", filepath.Join(w.dir, "gone.lock"))
		s.finish(ended, sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0)})
	})
	out := w.ok("ps", "-a")
	for _, line := range strings.Split(out, "\n") {
		if strings.Contains(line, "nobody looks after it") != strings.HasPrefix(line, left.Short()) {
			t.Errorf("%s", line)
		}
	}
	if e := w.err.String(); !strings.Contains(e, "nobody looks after 1 of these runs: windlass wait RUN takes one up, windlass reap all") {
		t.Errorf("%s", e)
	}
	out = w.ok("ps", "-a", "--json")
	validate(t, out)
	for _, v := range decode[[]RunView](t, out) {
		if v.Held == nil || *v.Held != (v.ID == held.String()) {
			t.Errorf("%s: held %v", v.Name, v.Held)
		}
	}
	if out := w.ok("ps", "-q"); !strings.Contains(out, left.String()) || w.err.String() != "" {
		t.Errorf("%s%s", out, w.err.String())
	}
}

// TestNewestOfName: a name that several runs have had means the newest, unless
// more than one is open.
func TestNewestOfName(t *testing.T) {
	w := newWorld(t)
	var ids []sdk.ID
	w.seed(func(s *scripted) {
		for n := range 3 {
			id := s.add("local", sdk.JobSpec{V: 1, Name: "nightly", Args: sdk.Argv{"true"}}, "")
			s.finish(id, sdk.StateFailed, sdk.ReasonNonzeroExit, ledger.Change{ExitCode: code(n + 1)})
			ids = append(ids, id)
		}
	})
	w.fails(3, "wait", "nightly")
	if out := w.ok("status", "nightly"); !strings.Contains(out, ids[2].String()) {
		t.Errorf("%s", out)
	}
	w.seed(func(s *scripted) {
		for range 2 {
			s.add("local", sdk.JobSpec{V: 1, Name: "nightly", Args: sdk.Argv{"true"}}, "")
		}
	})
	if text := w.fails(ExitWindlass, "cancel", "nightly"); !strings.Contains(text, "run.ambiguous") {
		t.Errorf("%s", text)
	}
}

// TestF40WaitReturnsOnAnyEnd: wait returns on any terminal state, with the job's
// own code.
func TestF40WaitReturnsOnAnyEnd(t *testing.T) {
	for _, c := range []struct {
		state sdk.JobState
		why   sdk.Reason
		c     ledger.Change
		exit  int
	}{
		{sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0)}, 0},
		{sdk.StateFailed, sdk.ReasonNonzeroExit, ledger.Change{ExitCode: code(42)}, 42},
		{sdk.StateFailed, sdk.ReasonTimedOut, ledger.Change{ExitCode: code(137)}, 124},
		{sdk.StateCancelled, sdk.ReasonCancelled, ledger.Change{}, 130},
		{sdk.StateLost, sdk.ReasonLost, ledger.Change{}, 125},
	} {
		w, ids := seeded(t)
		done := make(chan int, 1)
		w.start(nil)
		go func() { done <- run(t.Context(), w.f, []string{"wait", "running"}) }()
		testwait.Until(t, soon, "waiting command", func() bool { w.engine.mu.Lock(); defer w.engine.mu.Unlock(); return w.engine.recovered > 0 })
		w.engine.finish(ids["running"], c.state, c.why, c.c)
		if got := testwait.Receive(t, soon, "exit", done); got != c.exit {
			t.Errorf("%s: exit %d, want %d", c.state, got, c.exit)
		}
	}
}

func TestWaitForSeveral(t *testing.T) {
	w, ids := seeded(t)
	w.fails(3, "wait", "good", "bad")
	for _, want := range []string{ids["good"].String() + " succeeded 0\n", ids["bad"].String() + " failed 3\n"} {
		if !strings.Contains(w.out.String(), want) {
			t.Errorf("stdout lacks %q: %s", want, w.out.String())
		}
	}
	w.fails(3, "wait", "--json", "good", "bad")
	validate(t, w.out.String())
}

// TestF42WaitTimeout: the wait's time-out is never a success, and leaves the
// run alone.
func TestF42WaitTimeout(t *testing.T) {
	w, ids := seeded(t)
	text := w.fails(ExitWindlass, "wait", "--timeout", "20ms", "running")
	if !strings.Contains(text, "hasn't ended within 20ms") || !strings.Contains(text, "windlass explain wait.timeout") {
		t.Errorf("%s", text)
	}
	if len(w.engine.cancels) > 0 {
		t.Error("the wait cancelled the run")
	}
	// One of several in time isn't enough.
	w.fails(ExitWindlass, "wait", "--timeout", "20ms", "good", "running")
	w.fails(ExitWindlass, "wait", "--timeout", "20ms", "--json", "running")
	validate(t, w.out.String())
	if e := decodeError(t, w.out.String()); e.ID != idWaitTimeout || e.Run != ids["running"].String() {
		t.Errorf("%+v", e)
	}
}

func decodeError(t *testing.T, text string) ErrorBody {
	t.Helper()
	var e struct{ Error *ErrorBody }
	if err := json.Unmarshal([]byte(text), &e); err != nil || e.Error == nil {
		t.Fatalf("no error in %s: %v", text, err)
	}
	return *e.Error
}

// TestInterruptedWait leaves the run alone and ends with 130.
func TestInterruptedWait(t *testing.T) {
	w, _ := seeded(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	w.start(nil)
	done := make(chan int, 1)
	go func() { done <- run(ctx, w.f, []string{"wait", "running"}) }()
	testwait.Until(t, soon, "waiting command", func() bool { w.engine.mu.Lock(); defer w.engine.mu.Unlock(); return w.engine.recovered > 0 })
	cancel(errInterrupted)
	if got := testwait.Receive(t, soon, "exit", done); got != ExitInterrupted {
		t.Errorf("exit %d", got)
	}
	if len(w.engine.cancels) > 0 {
		t.Error("the run was cancelled")
	}
}

// TestF71CancelFromAnotherProcess ends a run that another process submitted.
func TestF71CancelFromAnotherProcess(t *testing.T) {
	w, ids := seeded(t)
	w.engine.onCancel = func(s *scripted, id sdk.ID) { s.finish(id, sdk.StateCancelled, sdk.ReasonCancelled, ledger.Change{}) }
	if out := w.ok("cancel", "--reason", "wrong branch", "running"); out != ids["running"].Short()+" cancelled\n" {
		t.Errorf("stdout %q", out)
	}
	if c := w.engine.cancels[0]; c.Actor != "tester@here" || c.Why != "wrong branch" {
		t.Errorf("%+v", c)
	}
	if out := w.ok("status", "running"); !strings.Contains(out, "asked for by tester@here") || !strings.Contains(out, "wrong branch") {
		t.Errorf("%s", out)
	}
	// One that has ended is no error, and neither is asking twice.
	if out := w.ok("cancel", "bad", "running"); !strings.Contains(out, "had ended before: failed (exit 3)") {
		t.Errorf("stdout %q", out)
	}
	w.engine.onCancel = nil
	if out := w.ok("cancel", "--no-wait", "doubt"); !strings.Contains(out, "is asked to end") {
		t.Errorf("stdout %q", out)
	}
	w.ok("cancel", "--json", "bad")
	validate(t, w.out.String())
	w.fails(ExitWindlass, "cancel", "bad", "nothing")
}

func TestRemote(t *testing.T) {
	w := newWorld(t)
	id := sdk.ID{15: 9, 6: 0x70, 8: 0x80}
	w.engine.remote = control.RemoteJob{Found: sdk.FoundJob{RunID: id, Attempt: 2, Owner: "team", Handle: sdk.JobHandle{ID: "c0ffee", Identity: sdk.Identity{Kind: "docker"}}},
		Status: sdk.JobStatusResult{State: sdk.StateFailed, Reason: sdk.ReasonOOMKilled, ExitCode: code(137), Raw: map[string]string{"OOMKilled": "true"}}}
	out := w.ok("status", "--on", "docker", id.String())
	for _, want := range []string{"failed (oom_killed)", "memory limit", "c0ffee", "team", "windlass adopt --on docker"} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	validate(t, w.ok("status", "--on", "docker", "--json", id.String()))
	if text := w.fails(ExitWindlass, "status", "--on", "docker", "nightly"); !strings.Contains(text, "no full ID") {
		t.Errorf("%s", text)
	}
	if out := w.ok("cancel", "--on", "docker", id.String()); !strings.Contains(out, "is gone from docker") {
		t.Errorf("%s", out)
	}
	cancelled := func() RemoteCancelView {
		out := w.ok("cancel", "--on", "docker", "--json", id.String())
		validate(t, out)
		return decode[[]RemoteCancelView](t, out)[0]
	}
	if v := cancelled(); !v.Gone || v.Evidence != "removed" {
		t.Errorf("%+v", v)
	}
	// Where the proof comes after the cancel's own look, it is told, too.
	w.engine.remoteCancel = sdk.CancelJobResult{Accepted: true, Evidence: "state running"}
	if v := cancelled(); !v.Gone || v.Evidence != "state running; afterwards: failed (oom_killed), OOMKilled true" {
		t.Errorf("%+v", v)
	}
	w.engine.remoteCancel.Evidence = ""
	if v := cancelled(); v.Evidence != "failed (oom_killed), OOMKilled true" {
		t.Errorf("%+v", v)
	}
	w.engine.say(sdk.StreamStdout, "far away\n")
	w.engine.say(sdk.StreamStderr, "not this\n")
	if out := w.ok("logs", "--on", "docker", "--stream", "stdout", id.String()); out != "far away\n" {
		t.Errorf("%q", out)
	}
	w.ok("adopt", "--on", "docker", id.String())
	w.fails(ExitWindlass, "adopt", "--on", "docker", id.String())
	id[15]++
	validate(t, w.ok("adopt", "--on", "docker", "--json", id.String()))
	w.engine.remoteErr = sdk.Errorf(sdk.NotFound, "find run", "nothing carries it")
	w.fails(ExitWindlass, "adopt", "--on", "docker", id.String())
	w.fails(ExitWindlass, "logs", "--on", "docker", id.String())
}

func TestLogs(t *testing.T) {
	w, _ := seeded(t)
	w.engine.say(sdk.StreamStdout, "one\ntw")
	w.engine.say(sdk.StreamStdout, "o\n")
	w.engine.say(sdk.StreamStderr, "\xff\x00err\n")
	w.engine.say(sdk.StreamSystem, "pulled\n")
	if out := w.ok("logs", "good"); out != "one\ntwo\n" {
		t.Errorf("stdout %q", out)
	}
	if s := w.err.String(); !strings.HasPrefix(s, "\xff\x00err\n") || !strings.Contains(s, prefix) || !strings.Contains(s, "pulled") {
		t.Errorf("stderr %q", s)
	}
	out := w.ok("logs", "--timestamps", "--stream", "stdout", "good")
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		if stamp, rest, _ := strings.Cut(line, " "); rest != "one" && rest != "two" || len(stamp) < 20 {
			t.Errorf("line %q", line)
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(w.ok("logs", "--json", "good")), "\n") {
		validate(t, line)
	}
	w.ok("logs", "--show-cursor", "good")
	if !strings.Contains(w.err.String(), "cursor: ") {
		t.Errorf("stderr %q", w.err.String())
	}
}

// TestLogsFollow follows from another process until the run ends.
func TestLogsFollow(t *testing.T) {
	w, ids := seeded(t)
	w.engine.logEnd = false
	w.start(nil)
	done := make(chan int, 1)
	go func() { done <- run(t.Context(), w.f, []string{"logs", "-f", "running"}) }()
	testwait.Until(t, soon, "follower", func() bool { w.engine.mu.Lock(); defer w.engine.mu.Unlock(); return w.engine.recovered > 0 })
	w.engine.say(sdk.StreamStdout, "live\n")
	testwait.Until(t, soon, "output", func() bool { return w.out.String() == "live\n" })
	w.engine.finish(ids["running"], sdk.StateFailed, sdk.ReasonNonzeroExit, ledger.Change{ExitCode: code(1)})
	if got := testwait.Receive(t, soon, "exit", done); got != 0 {
		t.Errorf("exit %d: logs shows, it doesn't judge", got)
	}
}

func TestAbandonRmRerun(t *testing.T) {
	w, ids := seeded(t)
	w.ok("abandon", "doubt", "--reason", "account closed")
	if out := w.ok("status", "doubt"); !strings.Contains(out, "lost") || !strings.Contains(out, "account closed") {
		t.Errorf("%s", out)
	}
	if out := w.ok("rm", "good", "bad"); out != ids["good"].String()+"\n"+ids["bad"].String()+"\n" {
		t.Errorf("%s", out)
	}
	if text := w.fails(ExitWindlass, "rm", "running"); !strings.Contains(text, "rm --force") {
		t.Errorf("%s", text)
	}
	w.engine.onCancel = func(s *scripted, id sdk.ID) { s.finish(id, sdk.StateCancelled, sdk.ReasonCancelled, ledger.Change{}) }
	validate(t, w.ok("rm", "--force", "--json", "running"))
	validate(t, w.ok("rm", "--expired", "--json"))

	w.engine.logEnd, w.engine.log = false, nil
	w.engine.script = endsWith(sdk.StateFailed, sdk.ReasonNonzeroExit, ledger.Change{ExitCode: code(5)})
	w.fails(5, "rerun", "good")
	r := w.engine.submitted[0]
	if r.Provider != "local" || r.Spec.Env["X"] != "canary" || r.Ambient == nil || r.Actor != "tester@here" {
		t.Errorf("%+v", r)
	}
	w.fails(5, "rerun", "good", "--on", "docker", "-i")
	if r := w.engine.submitted[1]; r.Provider != "docker" || r.Ambient != nil || r.Spec.Stdin != sdk.StdinAttached || r.Stdin == nil {
		t.Errorf("%+v", r)
	}
}

// TestRmExpired lets go what retention.logs says.
func TestRmExpired(t *testing.T) {
	w, ids := seeded(t)
	w.env["WINDLASS_RETENTION_LOGS"] = "1h"
	if v := decode[RemovedView](t, w.ok("rm", "--expired", "--json")); len(v.Runs) != 0 {
		t.Errorf("removed %v", v.Runs)
	}
	w.now = w.now.Add(48 * time.Hour)
	v := decode[RemovedView](t, w.ok("rm", "--expired", "--json"))
	if len(v.Runs) != 2 || !strings.Contains(strings.Join(v.Runs, " "), ids["bad"].String()) {
		t.Errorf("removed %v", v.Runs)
	}
}

// TestSweep applies retention at the end of a run, as the configuration says.
func TestSweep(t *testing.T) {
	w, ids := seeded(t)
	w.env["WINDLASS_RETENTION_LEDGER"], w.env["WINDLASS_RETENTION_LOG_BYTES"] = "365d", "1Gi"
	w.engine.script = endsWith(sdk.StateSucceeded, sdk.ReasonCompleted, ledger.Change{ExitCode: code(0)})
	w.ok("run", "--", "true")
	if len(w.engine.removed) > 0 {
		t.Errorf("removed %v", w.engine.removed)
	}
	if want := (control.Retention{Logs: 30 * 24 * time.Hour, LogBytes: 1 << 30, Ledger: 365 * 24 * time.Hour}); w.engine.retention != want {
		t.Errorf("retention %+v, want %+v", w.engine.retention, want)
	}
	w.now = w.now.Add(40 * 24 * time.Hour)
	w.ok("run", "--", "true")
	if len(w.engine.removed) < 2 || w.engine.removed[0] != ids["good"] || w.engine.removed[1] != ids["bad"] {
		t.Errorf("removed %v", w.engine.removed)
	}
	// retention.runs takes ended runs off the list, and off nothing else.
	w.env["WINDLASS_RETENTION_RUNS"] = "1d"
	if out := w.ok("ps", "-a"); strings.Contains(out, "bad") || !strings.Contains(out, "running") {
		t.Errorf("%s", out)
	}
	if out := w.ok("ledger", "log"); !strings.Contains(out, ids["bad"].Short()) {
		t.Errorf("%s", out)
	}
}

func TestLedgerCommands(t *testing.T) {
	w := newWorld(t)
	if text := w.fails(ExitWindlass, "ledger", "log"); !strings.Contains(text, "windlass explain ledger.none") {
		t.Errorf("%s", text)
	}
	w, ids := seeded(t)
	out := w.ok("ledger", "log")
	if strings.Count(out, "\n") != 5 || !strings.Contains(out, "tester@here") {
		t.Errorf("%s", out)
	}
	validate(t, w.ok("ledger", "log", "--json"))
	if out := w.ok("ledger", "log", "--actor", "nobody"); strings.Count(out, "\n") != 1 {
		t.Errorf("%s", out)
	}
	out = w.ok("ledger", "log", "--run", "bad")
	for _, want := range []string{"requested", "ended", "failed, nonzero_exit, exit code 3", "cleaned"} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	out = w.ok("ledger", "log", "--events", "--json")
	validate(t, out)
	if strings.Contains(out, "canary") || strings.Contains(out, "Y2FuYXJ5") {
		t.Error("a variable's value is shown")
	}
	all := strings.Count(w.ok("ledger", "log", "--events"), "\n") - 1
	for flag, values := range map[string][2]string{"--target": {"nothing", ""}, "--provider": {"nope", "docker"}, "--action": {"svc.scale", "run"}, "--last": {"", "2"}} {
		if none := values[0]; none != "" && strings.Count(w.ok("ledger", "log", "--events", flag, none), "\n") != 1 {
			t.Errorf("%s %s chooses events", flag, none)
		}
		if some := values[1]; some != "" {
			if got := strings.Count(w.ok("ledger", "log", "--events", flag, some), "\n") - 1; got == 0 || flag == "--last" && got != 2 || flag == "--provider" && got >= all || got > all {
				t.Errorf("%s %s chooses %d of %d events", flag, some, got, all)
			}
		}
	}
	out = w.ok("ledger", "export")
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		validate(t, line)
	}
	if strings.Contains(out, "canary") || !strings.Contains(out, ids["bad"].String()) || !strings.Contains(out, `"type":"end"`) {
		t.Errorf("%s", out)
	}
	if out := w.ok("ledger", "export", "--run", "bad"); strings.Contains(out, ids["good"].String()) {
		t.Errorf("%s", out)
	}
	head := w.ok("ledger", "export", "--head")
	file := filepath.Join(w.dir, "head.json")
	if err := os.WriteFile(file, []byte(head), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := w.ok("ledger", "verify", "--head", file); !strings.Contains(out, "sound") {
		t.Errorf("%s", out)
	}
	validate(t, w.ok("ledger", "verify", "--json"))
	forged := strings.Replace(head, `"hash":"`, `"hash":"00`, 1)
	forged = forged[:strings.LastIndex(forged, `"}`)-2] + `"}` + "\n"
	if err := os.WriteFile(file, []byte(forged), 0o600); err != nil {
		t.Fatal(err)
	}
	w.fails(ExitFaults, "ledger", "verify", "--head", file)
	if !strings.Contains(w.out.String(), "fault") {
		t.Errorf("%s", w.out.String())
	}
	w.fails(ExitFaults, "ledger", "verify", "--head", file, "--json")
	validate(t, w.out.String())
	if text := w.fails(ExitWindlass, "ledger", "prune", "--before", "0s"); !strings.Contains(text, "--yes") {
		t.Errorf("%s", text)
	}
	w.now = w.now.Add(time.Hour)
	validate(t, w.ok("ledger", "prune", "--before", "0s", "--yes", "--json"))
	w.ok("ledger", "verify")
}

// TestVerifyWithoutHead: a head file that is missing beside a ledger with events
// is a fault, since the end may have been cut off, but not where an exported head
// says where the end was.
func TestVerifyWithoutHead(t *testing.T) {
	w := newWorld(t)
	w.seed(func(*scripted) {})
	if err := os.Remove(filepath.Join(w.state, ledger.HeadFile)); err != nil {
		t.Fatal(err)
	}
	if out := w.ok("ledger", "verify"); !strings.Contains(out, "sound in 0 events") {
		t.Errorf("an empty ledger: %s", out)
	}
	w, _ = seeded(t)
	exported := filepath.Join(w.dir, "head.json")
	if err := os.WriteFile(exported, []byte(w.ok("ledger", "export", "--head")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(w.state, ledger.HeadFile)); err != nil {
		t.Fatal(err)
	}
	w.fails(ExitFaults, "ledger", "verify")
	if out := w.out.String(); !strings.Contains(out, "no_head: end: ") || !strings.Contains(out, "--head FILE") || !strings.Contains(out, "1 fault") {
		t.Errorf("%s", out)
	}
	w.fails(ExitFaults, "ledger", "verify", "--json")
	validate(t, w.out.String())
	if out := w.out.String(); !strings.Contains(out, `"what": "no_head"`) {
		t.Errorf("%s", out)
	}
	if out := w.ok("ledger", "verify", "--head", exported); !strings.Contains(out, "sound") {
		t.Errorf("%s", out)
	}
	if text := w.err.String(); !strings.Contains(text, "ledger.head is missing") {
		t.Errorf("stderr: %s", text)
	}
	// Reading puts no head in its place.
	w.fails(ExitFaults, "ledger", "verify")
}

func TestSetup(t *testing.T) {
	w := newWorld(t)
	if out := w.ok("version"); !strings.HasPrefix(out, "windlass v1.2.3 (go") || !strings.Contains(out, "0123456789") {
		t.Errorf("%s", out)
	}
	validate(t, w.ok("version", "--json"))
	out := w.ok()
	for _, want := range []string{"v1.2.3", "docker, local", "none yet", "windlass run -- sh -c 'echo hello; exit 3'"} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	if _, err := os.Stat(w.state); err == nil {
		t.Error("looking made a state folder")
	}
	validate(t, w.ok("init", "--json"))
	if text := w.fails(ExitWindlass, "init"); !strings.Contains(text, "--force") {
		t.Errorf("%s", text)
	}
	w.ok("init", "--force", "--default", "docker")
	if out := w.ok("config", "show", "--origin"); !strings.Contains(out, "windlass.yaml:") {
		t.Errorf("%s", out)
	}
	validate(t, w.ok("config", "show", "--json"))
	if out := w.ok("config", "schema"); !json.Valid([]byte(out)) {
		t.Errorf("%s", out)
	}
	if out := w.ok("provider", "ls"); !strings.Contains(out, "yes") {
		t.Errorf("%s", out)
	}
	validate(t, w.ok("provider", "ls", "--json"))
	validate(t, w.ok("provider", "ls", "--kinds", "--json"))
	if out := w.ok("provider", "describe", "docker"); !strings.Contains(out, "platform") || !strings.Contains(out, "Not opened") {
		t.Errorf("%s", out)
	}
	validate(t, w.ok("provider", "describe", "docker", "--json"))
	w.fails(ExitWindlass, "provider", "describe", "nowhere")
	w.fails(ExitFaults, "provider", "check", "docker")
	if !strings.Contains(w.out.String(), "to do: start it") {
		t.Errorf("%s", w.out.String())
	}
	w.fails(ExitFaults, "provider", "check", "docker", "--json")
	validate(t, w.out.String())
	w.fails(ExitFaults, "doctor", "--json") // docker is the default now, and doesn't answer
	validate(t, w.out.String())
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := w.ok("completion", shell); !strings.Contains(out, "windlass") {
			t.Errorf("%s: %s", shell, out)
		}
	}
}

func TestDoctorNamesEachMend(t *testing.T) {
	w := newWorld(t)
	if err := os.MkdirAll(w.state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(w.state, 0o777); err != nil {
		t.Fatal(err)
	}
	w.fails(ExitFaults, "doctor")
	if out := w.out.String(); !strings.Contains(out, "FAIL  state") || !strings.Contains(out, "chmod 700") {
		t.Errorf("%s", out)
	}
	w, _ = seeded(t)
	w.fails(ExitFaults, "doctor")
	out := w.out.String()
	for _, want := range []string{"ok    ledger: open", "none  docker: open", "FAIL  local: open", "windlass wait", "without a process: 2 of 2"} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
}

func TestCompletion(t *testing.T) {
	w, ids := seeded(t)
	for _, c := range []struct {
		args []string
		want []string
		not  []string
	}{
		{[]string{"run", "--on", ""}, []string{"docker\tdocker", "local\tlocal"}, nil},
		{[]string{"run", "--profile", ""}, []string{"strict", "permissive"}, nil},
		{[]string{"status", ""}, []string{ids["good"].Short(), "nightly"[:0] + "running"}, nil},
		{[]string{"cancel", "r"}, []string{"running\t"}, []string{"bad\t"}},
		{[]string{"rm", ""}, []string{"bad\t"}, []string{"running\t"}},
		{[]string{"ps", "--filter", "state="}, []string{"state=failed"}, nil},
		{[]string{"explain", ""}, []string{"oom_killed\t", "run.refused\t"}, nil},
	} {
		out := w.ok(append([]string{"__complete"}, c.args...)...)
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("complete %q lacks %q:\n%s", c.args, want, out)
			}
		}
		for _, not := range c.not {
			if strings.Contains(out, not) {
				t.Errorf("complete %q has %q:\n%s", c.args, not, out)
			}
		}
	}
}

// TestNothingOpens checks that commands which need nothing open nothing.
func TestNothingOpens(t *testing.T) {
	w := newWorld(t)
	for _, args := range [][]string{{"version"}, {"--help"}, {"run", "--help"}, {"completion", "bash"}, {"explain", "125"}, {"provider", "ls"}, {"config", "show"}} {
		if got := w.runIn(t.Context(), func(f *Factory) {
			f.OpenStore = func(context.Context, string, Access) (ledger.Store, error) {
				t.Errorf("%q opens the ledger", args)
				return nil, os.ErrClosed
			}
			f.OpenSession = func(context.Context, SessionRequest) (*Session, error) {
				t.Errorf("%q opens a session", args)
				return nil, os.ErrClosed
			}
		}, args...); got != 0 {
			t.Errorf("%q: exit %d: %s", args, got, w.err.String())
		}
	}
}

// TestTestSeams checks that each command's run function can be replaced.
func TestTestSeams(t *testing.T) {
	var got *psOptions
	w := newWorld(t)
	w.start(nil)
	cmd := newPs(w.f, func(_ context.Context, o *psOptions) error { got = o; return nil })
	cmd.SetArgs([]string{"-a", "--filter", "state=lost"})
	if err := cmd.ExecuteContext(t.Context()); err != nil || got == nil || !got.all || got.filter[0] != "state=lost" {
		t.Errorf("%v %+v", err, got)
	}
}

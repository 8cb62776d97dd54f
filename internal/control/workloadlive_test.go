package control_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

func TestWorkloadExec(t *testing.T) {
	w := newWorld(t)
	rt := w.engine().Workloads()
	api := w.live("api", 1)
	for words, want := range map[string]struct {
		code   *int
		state  sdk.JobState
		reason sdk.Reason
	}{
		"echo hi":     {ptr(0), sdk.StateSucceeded, sdk.ReasonCompleted},
		"exit 3":      {ptr(3), sdk.StateFailed, sdk.ReasonNonzeroExit},
		"signal KILL": {nil, sdk.StateLost, sdk.ReasonLost},
	} {
		var out bytes.Buffer
		x, err := rt.Exec(w.ctx(), control.ExecRequest{ChangeRequest: on(api), Session: sdk.ExecWorkloadRequest{Command: strings.Fields(words), Stdout: &out}})
		if err != nil {
			t.Errorf("%s: %v", words, err)
		}
		w.expect(x.Row, want.state, want.reason)
		if x.Row.Open() || (x.Row.ExitCode == nil) != (want.code == nil) || want.code != nil && *x.Row.ExitCode != *want.code || x.Row.Action != "svc.exec" {
			t.Errorf("%s: row %+v", words, x.Row)
		}
		if words == "echo hi" && out.String() != "hi\n" {
			t.Errorf("output %q", out.String())
		}
	}
	if n := w.cloud.Versions(api.Path); n != 1 {
		t.Errorf("exec changed the workload %d times", n-1)
	}
}

func ptr(n int) *int { return &n }

// TestF92ExecWithoutItsEnd cuts a session: nothing says that it ended well.
func TestF92ExecWithoutItsEnd(t *testing.T) {
	w := newWorld(t)
	rt := w.engine().Workloads()
	api := w.live("api", 1)
	w.cloud.Inject(fake.Fault{Op: fake.OpExecWorkload, Kind: fake.FaultLostReply})
	x, err := rt.Exec(w.ctx(), control.ExecRequest{ChangeRequest: on(api), Session: sdk.ExecWorkloadRequest{Command: sdk.Argv{"true"}}})
	if err != nil || x.Result.ExitCode != nil || x.Result.Why == "" {
		t.Errorf("%+v, %v", x.Result, err)
	}
	w.expect(w.onlyRow(), sdk.StateLost, sdk.ReasonLost)
	w.cloud.Inject(fake.Fault{Op: fake.OpExecWorkload, Kind: fake.FaultReset})
	if _, err := rt.Exec(w.ctx(), control.ExecRequest{ChangeRequest: on(api), Session: sdk.ExecWorkloadRequest{Command: sdk.Argv{"true"}}}); err == nil {
		t.Error("a session that was never opened is a success")
	}
	w.expect(w.liveRows()[1], sdk.StateLost, sdk.ReasonSubmitUnconfirmed)
}

// TestF94WaitFollowsTheRollout waits through lag and delay, and to a failure.
func TestF94WaitFollowsTheRollout(t *testing.T) {
	w := newWorld(t)
	rt := w.engine().Workloads()
	api := w.live("api", 2)
	w.cloud.Set(fake.Knobs{RolloutDelay: fake.Duration(300 * time.Millisecond), ObserveLag: fake.Duration(100 * time.Millisecond), MissingImages: []string{"missing"}})
	c, err := rt.Scale(w.ctx(), on(api), 4)
	if err != nil {
		t.Fatal(err)
	}
	st, err := rt.Wait(w.ctx(), api, c.Op.Rollout, 0)
	if err != nil || *st.Ready != 4 || st.Rollout != sdk.RolloutComplete {
		t.Errorf("%+v, %v", st, err)
	}
	bad := sdk.Target{Provider: "fake", Path: "main/bad"}
	if c, err = rt.Start(w.ctx(), control.StartChange{ChangeRequest: on(bad), Spec: &sdk.DeploymentSpec{Name: "bad", Image: "missing"}}); err != nil {
		t.Fatal(err)
	}
	var e *sdk.Error
	if _, err = rt.Wait(w.ctx(), bad, c.Op.Rollout, 0); !errors.As(err, &e) || e.ID != control.ErrWorkloadRollout || !strings.Contains(err.Error(), "image_pull") {
		t.Errorf("a rollout that fails: %v", err)
	}
	// The accepted change stands as it was recorded: its rollout is another matter.
	for _, r := range w.liveRows() {
		w.expect(r, sdk.StateSucceeded, sdk.ReasonCompleted)
	}
	first, err := rt.Restart(w.ctx(), on(api))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Restart(w.ctx(), on(api)); err != nil {
		t.Fatal(err)
	}
	if _, err = rt.Wait(w.ctx(), api, first.Op.Rollout, 0); !errors.As(err, &e) || e.ID != control.ErrWorkloadRollout {
		t.Errorf("a rollout that another took the place of: %v", err)
	}
}

// TestF94WaitHasItsOwnDeadline gives up on the wait, and not on the change.
func TestF94WaitHasItsOwnDeadline(t *testing.T) {
	w := newWorld(t)
	rt := w.engine().Workloads()
	api := w.live("api", 2)
	w.cloud.Set(fake.Knobs{RolloutDelay: fake.Duration(time.Hour)})
	c, err := rt.Restart(w.ctx(), on(api))
	if err != nil {
		t.Fatal(err)
	}
	var e *sdk.Error
	if _, err := rt.Wait(w.ctx(), api, c.Op.Rollout, 50*time.Millisecond); !errors.As(err, &e) || e.Code != sdk.DeadlineExceeded || e.ID != control.ErrWorkloadWait {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(w.ctx())
	cancel()
	if _, err := rt.Wait(ctx, api, c.Op.Rollout, 0); !errors.Is(err, sdk.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	w.expect(w.onlyRow(), sdk.StateSucceeded, sdk.ReasonCompleted)
}

func TestWorkloadResolve(t *testing.T) {
	w := newWorld(t)
	w.also = []string{"twin"}
	rt := w.engine().Workloads()
	w.live("api", 1)
	for ref, want := range map[string]string{"fake/main/api": "fake/main/api", "twin/main/other": "twin/main/other"} {
		if got, err := rt.Resolve(w.ctx(), ref); err != nil || got.String() != want {
			t.Errorf("%s: %s, %v", ref, got, err)
		}
	}
	var e *sdk.Error
	if _, err := rt.Resolve(w.ctx(), "api"); !errors.As(err, &e) || e.ID != control.ErrWorkloadAmbiguous ||
		!strings.Contains(err.Error(), "fake/main/api, twin/main/api") {
		t.Errorf("one name on two providers: %v", err)
	}
	for _, ref := range []string{"none", "nowhere/main/api"} {
		if _, err := rt.Resolve(w.ctx(), ref); !errors.As(err, &e) || e.ID != control.ErrWorkloadUnknown {
			t.Errorf("%s: %v", ref, err)
		}
	}
	if _, err := rt.Resolve(w.ctx(), "main/api"); !errors.As(err, &e) || e.ID != control.ErrWorkloadUnknown || !strings.Contains(e.Remedy, "fake/main/api, twin/main/api") {
		t.Errorf("a path without its provider: %v, %q", err, e.Remedy)
	}
	w.also = nil
	alone := w.engine().Workloads()
	if got, err := alone.Resolve(w.ctx(), "api"); err != nil || got.String() != "fake/main/api" {
		t.Errorf("a name that is unique: %s, %v", got, err)
	}
	// While the provider doesn't answer, nothing is unique.
	w.cloud.Inject(fake.Throttled(fake.OpListWorkloads, 1, 0))
	if _, err := alone.Resolve(w.ctx(), "api"); !errors.Is(err, sdk.ResourceExhausted) {
		t.Errorf("a provider that doesn't answer: %v", err)
	}
}

// TestWorkloadLogs follows through a restart.
func TestWorkloadLogs(t *testing.T) {
	w := newWorld(t)
	rt := w.engine().Workloads()
	api := w.live("api", 1)
	ctx, cancel := context.WithCancel(w.ctx())
	defer cancel()
	var seen []string
	for it, err := range rt.Logs(ctx, api, sdk.TailLogsRequest{Follow: true}) {
		if err != nil {
			if !errors.Is(err, sdk.Canceled) {
				t.Error(err)
			}
			break
		}
		if seen = append(seen, it.Instance); len(seen) == 1 {
			if _, err := rt.Restart(w.ctx(), on(api)); err != nil {
				t.Fatal(err)
			}
		} else {
			cancel()
		}
	}
	if !slices.Equal(seen, []string{"api-1-0", "api-2-0"}) {
		t.Errorf("output of %q", seen)
	}
}

// TestExecRecorded keeps what a session writes, where that was asked for, and
// nothing else.
func TestExecRecorded(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	api := w.live("api", 1)
	exec := func(record bool, words ...string) control.Exec {
		t.Helper()
		x, err := e.Workloads().Exec(w.ctx(), control.ExecRequest{ChangeRequest: on(api), Record: record, Session: sdk.ExecWorkloadRequest{Command: words}})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	read := func(x control.Exec, follow bool) (streams map[sdk.Stream]string, ended bool) {
		t.Helper()
		streams = map[sdk.Stream]string{}
		for it, err := range e.Follow(w.ctx(), x.Row.ID, control.FollowOptions{Follow: follow}) {
			if err != nil {
				t.Fatal(err)
			}
			if it.Entry != nil {
				streams[it.Entry.Stream] += string(it.Entry.Data)
			}
			ended = ended || it.End != nil
		}
		return streams, ended
	}
	x := exec(true, "echo", "hi", ";", "err", "oh", ";", "exit", "3")
	if x.Verdict != sdk.VerdictComplete {
		t.Errorf("verdict %q", x.Verdict)
	}
	for _, follow := range []bool{false, true} {
		got, ended := read(x, follow)
		if !ended || got[sdk.StreamStdout] != "hi\n" || !strings.HasPrefix(got[sdk.StreamStderr], "oh") {
			t.Errorf("follow %v: ended %v, %q", follow, ended, got)
		}
	}
	x = exec(false, "echo", "hi")
	if got, _ := read(x, true); len(got) > 0 || x.Verdict != "" {
		t.Errorf("nobody asked for it: %q, %q", got, x.Verdict)
	}
}

// TestExecUnrecordable runs nothing where what it writes can't be kept.
func TestExecUnrecordable(t *testing.T) {
	w := newWorld(t)
	d := w.withDisk()
	e := w.engine()
	api := w.live("api", 1)
	d.onSync(func() error { return syscall.ENOSPC })
	_, err := e.Workloads().Exec(w.ctx(), control.ExecRequest{ChangeRequest: on(api), Record: true, Session: sdk.ExecWorkloadRequest{Command: sdk.Argv{"true"}}})
	if err == nil || !strings.Contains(err.Error(), "nothing was run") {
		t.Errorf("%v", err)
	}
	if n := w.cloud.Calls(fake.OpExecWorkload); n != 0 {
		t.Errorf("%d calls were made", n)
	}
	if row := w.onlyRow(); row.Open() || row.State != sdk.StateFailed {
		t.Errorf("row %+v", row)
	}
}

// TestExecDead closes the row of a session whose process died, and the log of it, so
// that nobody waits for its end.
func TestExecDead(t *testing.T) {
	w := newWorld(t)
	api := w.live("api", 1)
	e := w.engine()
	for _, spec := range []string{`{"command":["sh"]}`, `{"command":["sh"],"record":true}`} {
		id := w.rowOfTheDead(ledger.Requested{Action: "svc.exec", Target: api.String(), Spec: []byte(spec)})
		if _, err := e.Recover(w.ctx(), ""); err != nil {
			t.Fatal(err)
		}
		row, err := w.store.Run(w.ctx(), id)
		if err != nil {
			t.Fatal(err)
		}
		w.expect(row, sdk.StateLost, sdk.ReasonLost)
		for _, err := range e.Follow(w.ctx(), id, control.FollowOptions{Follow: true}) {
			if err != nil {
				t.Errorf("%s: %v", spec, err)
			}
		}
	}
}

// TestExecTerminalBringsInput: a backend that takes input through a terminal alone is
// given it there, and refuses it elsewhere.
func TestExecTerminalBringsInput(t *testing.T) {
	g := fake.BestGuarantees()
	g.Workload.Exec.Stdin = false
	w := newWorld(t, withSettings(fake.Settings{Guarantees: &g}))
	rt := w.engine().Workloads()
	api := w.live("api", 1)
	var out bytes.Buffer
	session := sdk.ExecWorkloadRequest{Command: sdk.Argv{"cat"}, Stdin: strings.NewReader("typed"), Stdout: &out}
	if _, err := rt.Exec(w.ctx(), control.ExecRequest{ChangeRequest: on(api), Session: session}); !errors.Is(err, sdk.Unimplemented) {
		t.Errorf("without a terminal: %v", err)
	}
	session.Stdin, session.Terminal = strings.NewReader("typed"), &sdk.TerminalSize{Columns: 80, Rows: 24}
	if x, err := rt.Exec(w.ctx(), control.ExecRequest{ChangeRequest: on(api), Session: session}); err != nil || x.Result.ExitCode == nil || out.String() != "typed" {
		t.Errorf("with one: %+v, %v, %q", x.Result, err, out.String())
	}
	if rows := w.liveRows(); len(rows) != 1 {
		t.Errorf("%d rows, want that of the session", len(rows))
	}
}

package runner

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/sandboxpb"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// TestExec: output apart by stream, the code, and a row whose actor is the name
// in the certificate and whose profile is strict.
func TestExec(t *testing.T) {
	w := newWorld(t)
	e := w.client(w.serve(w.options()), "ci.example.com")
	out := newOutput()
	res, err := e.Exec(w.ctx(), sandbox.Request{Exec: exec("echo hello; err oops; exit 7"), Output: out})
	if err != nil {
		t.Fatal(err)
	}
	if o, s := out.texts(); o != "hello\n" || s != "oops\n" {
		t.Errorf("stdout %q, stderr %q", o, s)
	}
	if res.ExitCode == nil || *res.ExitCode != 7 || res.State != sdk.StateFailed || res.Profile != sdk.ProfileStrict ||
		!res.RunID.IsZero() || res.Reason != "" || res.Verdict != "" || res.Duration <= 0 {
		t.Errorf("got %+v", res)
	}
	r := w.run()
	if s := w.spec(r); r.Actor != "ci.example.com" || s.Profile != sdk.ProfileStrict || s.Image != "img" || s.Timeout <= 0 {
		t.Errorf("row of %q, spec %+v", r.Actor, s)
	}
	if r.Reason != sdk.ReasonNonzeroExit || len(w.cloud.Jobs()) != 0 {
		t.Errorf("reason %s, left %v", r.Reason, w.cloud.Jobs())
	}
}

// TestF90ActorOfEveryCaller: a row's actor is who called, by token and by
// certificate, and never empty.
func TestF90ActorOfEveryCaller(t *testing.T) {
	w := newWorld(t)
	const tok = "0123456789abcdef0123"
	s := w.serve(w.options(Client{Name: "builder", Token: sdk.NewSecretValue([]byte(tok))}, Client{Name: "deployer"}))
	for _, e := range []*Environment{
		w.environment(ClientOptions{Name: "far", Address: s.addr, CAFile: w.ca.file, Token: sdk.NewSecretValue([]byte(tok))}),
		w.client(s, "deployer"),
	} {
		if _, err := e.Exec(w.ctx(), sandbox.Request{Exec: exec("true"), Output: newOutput()}); err != nil {
			t.Fatal(err)
		}
	}
	all := w.runs()
	if len(all) != 2 || all[0].Actor != "builder" || all[1].Actor != "deployer" {
		t.Errorf("got %+v", all)
	}
}

// TestF71CallerLeaves: a caller that goes away, without a word to the job, ends it
// at the backend, on record; the call's place is free only then.
func TestF71CallerLeaves(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.MaxJobs = 1
	s := w.serve(o)
	ctx, leave := context.WithCancel(w.ctx())
	defer leave()
	out := newOutput()
	ended := make(chan error, 1)
	e := w.client(s, "ci")
	go func() {
		_, err := e.Exec(ctx, sandbox.Request{Exec: exec("echo up; hang"), Output: out})
		ended <- err
	}()
	testwait.Receive(t, patience, "output", out.first)
	entered, release := w.cloud.Block(fake.OpCancelJob)
	leave()
	if err := testwait.Receive(t, patience, "the call's end", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	closed(t, "the cancel", entered)
	if _, err := e.Exec(w.ctx(), sandbox.Request{Exec: exec("true"), Output: newOutput()}); sdk.CodeOf(err) != sdk.ResourceExhausted || idOf(err) != ErrFull {
		t.Errorf("a place before the proof: %v", err)
	}
	release()
	r := w.run()
	if r.State != sdk.StateCancelled || r.CancelBy != "ci" || r.CancelWhy != "its caller has left" || len(w.cloud.Jobs()) != 0 {
		t.Errorf("got %+v, left %v", r, w.cloud.Jobs())
	}
	testwait.Until(t, patience, "a free place", func() bool {
		_, err := e.Exec(w.ctx(), sandbox.Request{Exec: exec("true"), Output: newOutput()})
		return err == nil
	})
}

// TestStop: the step's cancel ends the call at once and the job at the backend.
func TestStop(t *testing.T) {
	w := newWorld(t)
	e := w.client(w.serve(w.options()), "ci")
	out, stop := newOutput(), make(chan struct{})
	go func() {
		<-out.first
		close(stop)
	}()
	_, err := e.Exec(w.ctx(), sandbox.Request{Exec: exec("echo up; hang"), Output: out, Stop: stop, Why: func() string { return "Ctrl-C" }})
	if !errors.Is(err, sdk.Canceled) || idOf(err) != ErrGivenUp || !strings.Contains(err.Error(), "windlass ps -a on the runner's machine") {
		t.Errorf("got %v", err)
	}
	if r := w.run(); r.State != sdk.StateCancelled || len(w.cloud.Jobs()) != 0 {
		t.Errorf("got %+v", r)
	}
}

// TestTimeout: the deadline of the call ends the job, and is no passing failure.
func TestTimeout(t *testing.T) {
	w := newWorld(t)
	e := w.client(w.serve(w.options()), "ci")
	x := exec("hang")
	// On a slow machine the first time-outs may pass before the server has heard of the
	// call.
	for x.Timeout = 500 * time.Millisecond; len(w.runs()) == 0 && x.Timeout < patience; x.Timeout *= 2 {
		_, err := e.Exec(w.ctx(), sandbox.Request{Exec: x, Output: newOutput()})
		if idOf(err) != ErrReach && !errors.Is(err, sdk.DeadlineExceeded) || sdk.IsRetryable(err) {
			t.Errorf("got %v", err)
		}
	}
	for _, r := range w.runs() {
		r, err := w.engine.Wait(w.ctx(), r.ID, control.MilestoneFinished)
		if err != nil || r.State != sdk.StateCancelled && r.Reason != sdk.ReasonTimedOut {
			t.Errorf("got %+v, %v", r, err)
		}
		if s := w.spec(r); s.Timeout <= 0 || s.Timeout > x.Timeout+time.Second {
			t.Errorf("time-out %s of %s", s.Timeout, x.Timeout)
		}
	}
}

// TestTimeoutOf: never before the call's end, and no overflow for one without an end.
func TestTimeoutOf(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{
		-time.Second: time.Second, 0: time.Second, time.Millisecond: time.Second, 1500 * time.Millisecond: 2 * time.Second,
		time.Hour: time.Hour + time.Second, math.MaxInt64: 0,
	} {
		if got := timeoutOf(left); got != want {
			t.Errorf("%s: %s, want %s", left, got, want)
		}
	}
}

// TestServerStops: a server that is stopped cancels its jobs and ends when they are
// proven to be gone; their callers are told why, and who comes late is refused.
func TestServerStops(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.MaxJobs = 1 // who comes late is told of the stop, and not that there is no room
	stopping := make(chan int, 1)
	o.Stopping = func(jobs int) { stopping <- jobs }
	s := w.serve(o)
	e := w.client(s, "ci")
	out := newOutput()
	ended := make(chan error, 1)
	go func() {
		_, err := e.Exec(w.ctx(), sandbox.Request{Exec: exec("on-term 9; echo up; hang"), Output: out})
		ended <- err
	}()
	testwait.Receive(t, patience, "output", out.first)
	entered, release := w.cloud.Block(fake.OpCancelJob)
	s.stop()
	closed(t, "the cancel", entered)
	if n := testwait.Receive(t, patience, "word of the stop", stopping); n != 1 {
		t.Errorf("it waits for %d jobs", n)
	}
	select {
	case <-s.over:
		t.Error("it ended before its job was gone")
	default:
	}
	if _, err := e.Exec(w.ctx(), sandbox.Request{Exec: exec("true"), Output: newOutput()}); sdk.CodeOf(err) != sdk.Unavailable || idOf(err) != ErrStopping {
		t.Errorf("a late caller: %v", err)
	}
	release()
	if err := testwait.Receive(t, patience, "the call's end", ended); sdk.CodeOf(err) != sdk.Unavailable || idOf(err) != ErrStopping {
		t.Errorf("got %v", err)
	}
	s.end(t)
	r := w.run()
	if r.State != sdk.StateCancelled || r.CancelBy != "operator@test" || r.Open() || len(w.cloud.Jobs()) != 0 {
		t.Errorf("got %+v, left %v", r, w.cloud.Jobs())
	}
}

// TestStopsUnderADeafCaller: a caller that reads nothing doesn't keep the server
// from ending, nor its job from being cancelled.
func TestStopsUnderADeafCaller(t *testing.T) {
	w := newWorld(t)
	server, err := New(w.options())
	if err != nil {
		t.Fatal(err)
	}
	server.goodbye = 100 * time.Millisecond
	s := w.serveOn(server)
	stream, err := w.raw(s.addr, "ci").Exec(w.ctx(), &sandboxpb.SandboxExecRequest{Image: "img", Command: words("long-line 4000000; hang")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	s.end(t)
	if r := w.run(); r.State != sdk.StateCancelled || len(w.cloud.Jobs()) != 0 {
		t.Errorf("got %+v", r)
	}
}

// TestF11LeftByADeadServer: jobs whose server died, and with it every word of their
// callers, are cancelled by the next one; others' runs are left alone.
func TestF11LeftByADeadServer(t *testing.T) {
	w := newWorld(t)
	submit := func(e *control.Engine, key string) ledger.Run {
		sub, err := e.Submit(w.ctx(), control.SubmitRequest{Provider: "fake", Spec: sdk.JobSpec{Image: "img", Args: sdk.Argv{"hang"}}, Actor: "ci", IdempotencyKey: key})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Wait(w.ctx(), sub.Run.ID, control.MilestoneSubmitted); err != nil {
			t.Fatal(err)
		}
		return sub.Run
	}
	dead := w.newEngine()
	left, other := submit(dead, requestPrefix+"x"), submit(dead, "nightly")
	if err := dead.Close(w.ctx()); err != nil {
		t.Fatal(err)
	}
	s := w.serve(w.options())
	r, err := w.engine.Wait(w.ctx(), left.ID, control.MilestoneFinished)
	if err != nil || r.State != sdk.StateCancelled || r.CancelBy != "operator@test" {
		t.Errorf("got %+v, %v", r, err)
	}
	s.end(t)
	if r, err := w.store.Run(w.ctx(), other.ID); err != nil || r.State.Terminal() || !r.CancelAt.IsZero() {
		t.Errorf("another's run: %+v, %v", r, err)
	}
	w.must(w.engine.Cancel(w.ctx(), control.CancelRequest{Run: other.ID, Actor: "test", Why: "the end"}))
	if _, err := w.engine.Wait(w.ctx(), other.ID, control.MilestoneFinished); err != nil {
		t.Error(err)
	}
}

// TestOneServerEach: a second server of a provider and state folder is refused, and
// may serve once the first has gone.
func TestOneServerEach(t *testing.T) {
	w := newWorld(t)
	first, err := New(w.options())
	if err != nil {
		t.Fatal(err)
	}
	var e *sdk.Error
	if _, err := New(w.options()); !errors.As(err, &e) || e.ID != ErrBusy {
		t.Errorf("got %v", err)
	}
	w.must(first.Close())
	w.serve(w.options())
}

// TestLimits: jobs beyond the server's limit and the client's are refused at once.
func TestLimits(t *testing.T) {
	w := newWorld(t)
	o := w.options(Client{Name: "small", MaxJobs: 1}, Client{Name: "big"})
	o.MaxJobs = 2
	s := w.serve(o)
	small, big := w.client(s, "small"), w.client(s, "big")
	stop := make(chan struct{})
	done := make(chan error, 2)
	hang := func(e *Environment) {
		out := newOutput()
		go func() {
			_, err := e.Exec(w.ctx(), sandbox.Request{Exec: exec("echo up; hang"), Output: out, Stop: stop})
			done <- err
		}()
		testwait.Receive(t, patience, "output", out.first)
	}
	full := func(e *Environment) {
		t.Helper()
		_, err := e.Exec(w.ctx(), sandbox.Request{Exec: exec("true"), Output: newOutput()})
		if sdk.CodeOf(err) != sdk.ResourceExhausted {
			t.Errorf("got %v", err)
		}
	}
	hang(small)
	full(small)
	hang(big)
	full(big)
	if n := len(w.runs()); n != 2 {
		t.Errorf("%d runs", n)
	}
	close(stop)
	for range 2 {
		if err := testwait.Receive(t, patience, "an end", done); !errors.Is(err, sdk.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}

// TestStartTimeout: a job that doesn't start is ended by the server's own bound, and the
// caller told why, as the wire has none of the caller's.
func TestStartTimeout(t *testing.T) {
	w := newWorld(t)
	w.cloud.Set(fake.Knobs{StartDelay: fake.Duration(time.Hour)})
	o := w.options(Client{Name: "ci"})
	o.StartTimeout = 50 * time.Millisecond
	_, err := w.client(w.serve(o), "ci").Exec(w.ctx(), sandbox.Request{Exec: exec("true"), Output: newOutput()})
	if sdk.CodeOf(err) != sdk.FailedPrecondition || !strings.Contains(err.Error(), "did not start within 50ms") {
		t.Errorf("got %v", err)
	}
	for _, run := range w.runs() {
		if run.State != sdk.StateFailed || run.Reason != sdk.ReasonStartTimeout {
			t.Errorf("run %s: %s %s", run.ID.Short(), run.State, run.Reason)
		}
	}
}

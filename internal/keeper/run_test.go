//go:build unix

package keeper

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// numbered is what the fake's `lines n` writes.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

// TestHandOver gives runs to a keeper in the middle of their output: not a byte
// is lost or doubled, and one job runs.
func TestHandOver(t *testing.T) {
	w := newWorld(t)
	k := w.serve()
	e, c := w.engine(), w.client()
	words := []string{"mark", "effect", ";", "lines", "300", ";", "gate", ";", "lines", "300", ";", "sleep", "1s", ";", "lines", "300", ";", "exit", "7"}
	var ids []sdk.ID
	for range 5 {
		ids = append(ids, w.submit(e, spec(words...)))
	}
	for _, id := range ids {
		w.running(id)
		w.handOver(e, c, id)
	}
	if n := len(e.Held()); n != 0 {
		t.Errorf("the command still holds %d", n)
	}
	for _, id := range ids {
		r := w.finished(id)
		w.expect(r, sdk.StateFailed, sdk.ReasonNonzeroExit)
		if r.Verdict != sdk.VerdictComplete || *r.ExitCode != 7 {
			t.Errorf("verdict %s, code %d", r.Verdict, *r.ExitCode)
		}
		if got, want := w.output(id), strings.Repeat(numbered(300), 3); got != want {
			t.Errorf("output of %d bytes, want %d", len(got), len(want))
		}
	}
	cloud, err := w.cloud("fake")
	if err != nil {
		t.Fatal(err)
	}
	if n := cloud.Marks("effect"); n != len(ids) {
		t.Errorf("%d jobs ran, want %d", n, len(ids))
	}
	w.sound(ids...)
	if err := k.end(t); err != nil {
		t.Error(err)
	}
	if n := w.openNow(); n != 1 { // the command's own
		t.Errorf("%d surroundings stay open", n-1)
	}
}

// TestHandedBack: a keeper that is asked to leave, or told to by TERM, leaves
// its runs to others within a bound, and the next command drives them on.
func TestHandedBack(t *testing.T) {
	for name, leave := range map[string]func(*world, *Client, int){
		"asked": func(w *world, c *Client, _ int) {
			if err := c.Leave(w.ctx()); err != nil {
				w.t.Fatal(err)
			}
		},
		"TERM": func(w *world, _ *Client, pid int) {
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.client()
			pid := w.spawned(c)
			e := w.engine()
			id := w.submit(e, spec("mark", "effect", ";", "lines", "100", ";", "gate", ";", "lines", "100"))
			w.running(id)
			w.handOver(e, c, id)
			start := time.Now()
			leave(w, c, pid)
			w.gone(pid)
			if d := time.Since(start); d > LeaveTime/2 {
				t.Errorf("leaving took %s", d)
			}
			if r := w.run(id); !r.Holder.IsZero() || !r.Open() {
				t.Errorf("held by %s in phase %s", r.Holder, r.Phase)
			}
			w.spawned(w.client())
			w.expect(w.finished(id), sdk.StateSucceeded, sdk.ReasonCompleted)
			if got, want := w.output(id), strings.Repeat(numbered(100), 2); got != want {
				t.Errorf("output of %d bytes, want %d", len(got), len(want))
			}
			w.sound(id)
		})
	}
}

// TestKilledKeeper: the next command that needs one starts another, and the
// runs end right.
func TestKilledKeeper(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	pid := w.spawned(c)
	e := w.engine()
	var ids []sdk.ID
	for range 5 {
		ids = append(ids, w.submit(e, spec("mark", "effect", ";", "lines", "200", ";", "gate", ";", "lines", "200", ";", "exit", "3")))
	}
	for _, id := range ids {
		w.handOver(e, c, id)
	}
	w.kill(pid)
	for _, id := range ids {
		free, err := e.Orphaned(t.Context(), id)
		if err != nil || !free {
			t.Errorf("run %s has a holder: %v, %v", id.Short(), free, err)
		}
	}
	if other := w.spawned(w.client()); other == pid {
		t.Fatal("the same process")
	}
	for _, id := range ids {
		w.expect(w.finished(id), sdk.StateFailed, sdk.ReasonNonzeroExit)
		if got, want := w.output(id), strings.Repeat(numbered(200), 2); got != want {
			t.Errorf("output of %d bytes, want %d", len(got), len(want))
		}
	}
	cloud, err := w.cloud("fake")
	if err != nil {
		t.Fatal(err)
	}
	if n := cloud.Marks("effect"); n != len(ids) {
		t.Errorf("%d jobs ran, want %d", n, len(ids))
	}
	w.sound(ids...)
}

// stop stops a process, and returns when none of its threads runs any more: the
// signal itself is only a request. Where there is no /proc it can't tell.
func (w *world) stop(pid int) {
	w.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		w.t.Fatal(err)
	}
	testwait.Until(w.t, patience, "stopped process", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			w.t.Fatal(err)
		}
		return !slices.ContainsFunc(threads, func(name string) bool {
			stat, err := os.ReadFile(name)
			_, state, _ := strings.Cut(string(stat), ") ")
			return err == nil && !strings.HasPrefix(state, "T")
		})
	})
}

// TestF81StoppedKeeper: a keeper that is stopped past its lease loses its runs
// to another; when it goes on, it writes nothing and leaves.
func TestF81StoppedKeeper(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	pid := w.spawned(c)
	e := w.engine()
	id := w.submit(e, spec("mark", "effect", ";", "lines", "100", ";", "gate", ";", "lines", "100", ";", "exit", "4"))
	w.running(id)
	w.handOver(e, c, id)
	stopped := w.run(id)
	w.stop(pid)
	// Within the lease its place and its runs stay its own.
	if p, err := elect(t.Context(), w.dir, w.clock); p != nil || err != nil {
		t.Fatalf("elected beside it: %v", err)
	}
	if free, err := e.Orphaned(t.Context(), id); free || err != nil {
		t.Fatalf("its run is free: %v", err)
	}
	ahead := control.LeaseTime + 10*time.Second
	w.clock.step(ahead)
	next := w.client()
	next.Env = append(next.Env, envAhead+"="+ahead.String())
	if err := next.Offer(w.ctx()); err != nil {
		t.Fatal(err)
	}
	st, err := next.Status(w.ctx())
	if err != nil || st.PID == pid {
		t.Fatalf("status %+v, %v", st, err)
	}
	r := w.until(id, "another holder", func(r ledger.Run) bool { return r.Holder != stopped.Holder && !r.Holder.IsZero() })
	if r.Fence <= stopped.Fence {
		t.Errorf("fence %d, was %d", r.Fence, stopped.Fence)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.gone(pid)
	r = w.finished(id)
	w.expect(r, sdk.StateFailed, sdk.ReasonNonzeroExit)
	if r.Holder == stopped.Holder {
		t.Errorf("ended by the holder that was stopped")
	}
	if got, want := w.output(id), strings.Repeat(numbered(100), 2); got != want {
		t.Errorf("output of %d bytes, want %d", len(got), len(want))
	}
	if now, err := next.Status(w.ctx()); err != nil || now.PID != st.PID {
		t.Errorf("the one that left took the place or the socket with it: %+v, %v", now, err)
	}
	b, err := os.ReadFile(logPath(w.dir))
	if err != nil || !strings.Contains(string(b), "stopped for longer than its lease") {
		t.Errorf("it left without a word: %v\n%s", err, b)
	}
	w.sound(id)
}

// TestOtherVersion: a keeper of another version is asked to leave. The new one
// drives its runs on, with the surroundings that the old one knew.
func TestOtherVersion(t *testing.T) {
	w := newWorld(t)
	old := w.serve()
	first := w.client("TOKEN=of-the-first", "CRED=one")
	e := w.engine("TOKEN=of-the-first", "CRED=one")
	s := spec("secret", "T", ";", "gate", ";", "exit", "9")
	s.Secrets, s.Retries = map[string]sdk.SecretRef{"T": "secret://env/TOKEN"}, 1
	id := w.submit(e, s)
	w.running(id)
	w.handOver(e, first, id)

	second := w.client("TOKEN=of-the-second", "CRED=two")
	second.Version = "v2"
	second.Env = append(second.Env, envVersion+"=v2")
	// Asking is no reason to replace one.
	if st, err := second.Status(w.ctx()); err != nil || st.Version != "v1" {
		t.Fatalf("status %+v, %v", st, err)
	}
	if old.over() {
		t.Fatal("gone by being asked how it is")
	}
	if err := second.Renew(w.ctx()); sdk.CodeOf(err) != sdk.Unavailable || old.over() {
		t.Errorf("renewal with one of another version: %v", err)
	}
	if err := second.Offer(w.ctx()); err != nil {
		t.Fatal(err)
	}
	if err := old.wait(t); err != nil {
		t.Error(err)
	}
	if st, err := second.Status(w.ctx()); err != nil || st.Version != "v2" {
		t.Fatalf("status %+v, %v", st, err)
	}
	w.expect(w.finished(id), sdk.StateFailed, sdk.ReasonNonzeroExit)
	want := strings.Repeat("secret T "+sum("of-the-first")+"\n", 2)
	if got := w.output(id); got != want {
		t.Errorf("output %q, want %q", got, want)
	}
	w.sound(id)
}

// TestKeeperThatCanNotStart: a command is told at once, and where to look.
func TestKeeperThatCanNotStart(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	c.Env = append(c.Env, envFail+"=out of luck")
	start := time.Now()
	err := c.Offer(w.ctx())
	if sdk.CodeOf(err) != sdk.Unavailable || !strings.Contains(err.Error(), logPath(w.dir)) || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("got %v", err)
	}
	if d := time.Since(start); d > startTime/2 {
		t.Errorf("told after %s", d)
	}
	b, err := os.ReadFile(logPath(w.dir))
	if err != nil || !strings.Contains(string(b), "out of luck") {
		t.Errorf("log: %q, %v", b, err)
	}
	// The run stays with its command.
	e := w.engine()
	id := w.submit(e, spec("sleep", "100ms"))
	if err := c.Take(w.ctx(), id); err == nil {
		t.Error("taken by nobody")
	}
	w.expect(w.finished(id), sdk.StateSucceeded, sdk.ReasonCompleted)
}

// TestClockSteps: a clock that jumps ends neither runs nor the keeper.
func TestClockSteps(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			w := newWorld(t)
			k := w.serve(idle(3 * time.Second))
			e, c := w.engine(), w.client()
			s := spec("sleep", "1s", ";", "echo", "x")
			s.Timeout = 10 * time.Second
			id := w.submit(e, s)
			w.running(id)
			w.handOver(e, c, id)
			w.clock.step(step)
			r := w.finished(id)
			if k.over() {
				t.Error("the keeper left")
			}
			if step < 0 {
				w.expect(r, sdk.StateSucceeded, sdk.ReasonCompleted)
			} else if !r.State.Terminal() {
				t.Errorf("state %s", r.State)
			}
			if err := k.wait(t); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRunsOfADeadCommand are taken up by the keeper that the next one starts.
func TestRunsOfADeadCommand(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	id := w.submit(e, spec("gate"))
	w.running(id)
	ctx, cancel := w.t.Context(), func() {}
	defer cancel()
	if err := e.Close(ctx); err != nil {
		t.Fatal(err)
	}
	w.serve()
	if err := w.client().Offer(w.ctx()); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "holder", func() bool { r := w.run(id); return !r.Holder.IsZero() || !r.Open() })
	w.expect(w.finished(id), sdk.StateSucceeded, sdk.ReasonCompleted)
	w.sound(id)
}

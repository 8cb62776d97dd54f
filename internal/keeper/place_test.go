//go:build unix

package keeper

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
)

// TestElection starts many keepers at once: exactly one serves.
func TestElection(t *testing.T) {
	w := newWorld(t)
	var all []*keeper
	for range 8 {
		all = append(all, w.start())
	}
	serving := func() (n int) {
		for _, k := range all {
			if !k.over() {
				n++
			}
		}
		return n
	}
	testwait.Until(t, patience, "single keeper", func() bool {
		_, err := w.client().Status(w.ctx())
		return err == nil && serving() == 1
	})
	if n := strings.Count(w.lines.String(), "keeper started"); n != 1 {
		t.Errorf("%d keepers served", n)
	}
	for _, k := range all {
		if err := k.end(t); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(w.dir, "keeper.sock")); !os.IsNotExist(err) {
		t.Errorf("the socket stays behind: %v", err)
	}
	// Its place is free again.
	w.serve()
}

// TestElectionOfProcesses has many commands want a keeper at the same moment.
func TestElectionOfProcesses(t *testing.T) {
	w := newWorld(t)
	done := make(chan error, 6)
	for range cap(done) {
		go func() { done <- w.client().Offer(w.ctx()) }()
	}
	for range cap(done) {
		if err := testwait.Receive(t, patience, "answer", done); err != nil {
			t.Error(err)
		}
	}
	st, err := w.client().Status(w.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if st.PID == os.Getpid() {
		t.Error("it is this process")
	}
	b, err := os.ReadFile(logPath(w.dir))
	if n := strings.Count(string(b), "keeper started"); n != 1 || err != nil {
		t.Errorf("%d keepers served, %v:\n%s", n, err, b)
	}
}

func TestSocketIsPrivate(t *testing.T) {
	w := newWorld(t)
	w.serve()
	for _, name := range []string{"keeper.sock", "keeper.lock"} {
		fi, err := os.Lstat(filepath.Join(w.dir, name))
		if err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, fi.Mode(), err)
		}
	}
	c := w.client()
	c.StateDir = filepath.Join(w.dir, "other")
	if err := os.Mkdir(c.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	w.spawned(c)
	fi, err := os.Stat(logPath(c.StateDir))
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("log: %v, %v", fi, err)
	}
}

// TestLongStateDir: a socket's address holds about a hundred bytes, a path
// thousands.
func TestLongStateDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("a-long-name/", 15), strings.Repeat("x", 200))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w := newWorldAt(t, dir)
	w.serve()
	e := w.engine()
	id := w.submit(e, spec("gate", ";", "echo", "x"))
	w.handOver(e, w.client(), id)
	w.expect(w.finished(id), sdk.StateSucceeded, sdk.ReasonCompleted)
	// A process, too, and whatever TMPDIR says.
	other := filepath.Join(dir, "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	c := w.client()
	c.StateDir = other
	c.Env = append(c.Env, "TMPDIR="+t.TempDir())
	w.spawned(c)
}

// TestStaleSocket: a keeper that was killed leaves its socket's file, to which
// nobody listens.
func TestStaleSocket(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(w.dir, "keeper.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client().Status(w.ctx()); sdk.CodeOf(err) != sdk.NotFound {
		t.Errorf("status with a stale socket: %v", err)
	}
	if err := w.client().Renew(w.ctx()); err != nil {
		t.Errorf("renewal with nobody there: %v", err)
	}
	w.serve()
	// Neither does a file of another kind keep it from listening.
	w2 := newWorld(t)
	if err := os.WriteFile(filepath.Join(w2.dir, "keeper.sock"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	w2.serve()
}

func TestIdleKeeperLeaves(t *testing.T) {
	w := newWorld(t)
	k := w.serve(idle(300 * time.Millisecond))
	e := w.engine()
	id := w.submit(e, spec("sleep", "900ms"))
	w.handOver(e, w.client(), id)
	w.expect(w.finished(id), sdk.StateSucceeded, sdk.ReasonCompleted)
	if k.over() {
		t.Error("left while it had a run")
	}
	if err := k.wait(t); err != nil {
		t.Error(err)
	}
	if _, err := w.client().Status(w.ctx()); sdk.CodeOf(err) != sdk.NotFound {
		t.Errorf("status: %v", err)
	}
	w.sound(id)
}

// TestTakenSocketIsMadeAgain: a cleaner of old files may remove it.
func TestTakenSocketIsMadeAgain(t *testing.T) {
	w := newWorld(t)
	w.serve(idle(2 * time.Second))
	if err := os.Remove(filepath.Join(w.dir, "keeper.sock")); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, patience, "new socket", func() bool {
		_, err := w.client().Status(w.ctx())
		return err == nil
	})
}

func TestStateDirGone(t *testing.T) {
	w := newWorld(t)
	// What the ledger has open goes on in files without a name.
	k := w.serve(idle(2 * time.Second))
	if err := os.Rename(w.dir, w.dir+".moved"); err != nil {
		t.Fatal(err)
	}
	err := k.wait(t)
	if err := os.Rename(w.dir+".moved", w.dir); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Error(err)
	}
	if s := w.lines.String(); !strings.Contains(s, "the state folder is gone") {
		t.Errorf("it left without a word:\n%s", s)
	}
}

// TestLockTakenAway: whoever removes the lock's file makes room for another.
func TestLockTakenAway(t *testing.T) {
	w := newWorld(t)
	first := w.serve(idle(2 * time.Second))
	if err := os.Remove(lockPath(w.dir)); err != nil {
		t.Fatal(err)
	}
	second := w.start(version("v2"))
	if err := first.wait(t); err != nil {
		t.Error(err)
	}
	c := w.client()
	c.Version = "v2"
	st, err := c.Status(w.ctx())
	if err != nil || st.Version != "v2" || second.over() {
		t.Errorf("status %+v, %v", st, err)
	}
}

// TestLeaseOfThePlace: the lock of a keeper that is stopped can't be had, and
// its lease lapses.
func TestLeaseOfThePlace(t *testing.T) {
	dir, c := t.TempDir(), &stepClock{}
	first, err := elect(t.Context(), dir, c)
	if err != nil || first == nil {
		t.Fatalf("%v, %v", first, err)
	}
	defer func() { _ = first.leave() }()
	if p, err := elect(t.Context(), dir, c); p != nil || err != nil {
		t.Fatalf("a second was elected: %v, %v", p, err)
	}
	c.step(control.LeaseTime - time.Second)
	if p, err := elect(t.Context(), dir, c); p != nil || err != nil {
		t.Fatalf("elected within the lease: %v, %v", p, err)
	}
	if err := first.beat(); err != nil {
		t.Fatal(err)
	}
	c.step(control.LeaseTime - time.Second)
	if p, err := elect(t.Context(), dir, c); p != nil || err != nil {
		t.Fatalf("elected within the renewed lease: %v, %v", p, err)
	}
	c.step(2 * time.Second)
	second, err := elect(t.Context(), dir, c)
	if err != nil || second == nil {
		t.Fatalf("not elected past the lease: %v", err)
	}
	defer func() { _ = second.leave() }()
	if err := first.check(); err == nil || second.check() != nil {
		t.Errorf("both or none have the place: %v, %v", first.check(), second.check())
	}
	// A clock that steps back gives nobody the place.
	c.step(-24 * time.Hour)
	if p, err := elect(t.Context(), dir, c); p != nil || err != nil {
		t.Fatalf("elected by a clock that stepped back: %v, %v", p, err)
	}
}

func TestLogIsBounded(t *testing.T) {
	dir := t.TempDir()
	l := &Log{path: logPath(dir), most: 1000}
	if err := l.open(); err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("x", 99) + "\n")
	for range 100 {
		if n, err := l.Write(line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	sizes := func() (total int64) {
		for _, name := range []string{logPath(dir), logPath(dir) + ".old"} {
			if fi, err := os.Stat(name); err == nil {
				total += fi.Size()
			}
		}
		return total
	}
	if n := sizes(); n == 0 || n > 2000 {
		t.Errorf("%d bytes", n)
	}
	// Where it can't be renamed it doesn't grow without a bound either.
	if err := os.RemoveAll(logPath(dir) + ".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(logPath(dir)+".old", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, err := l.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if fi, err := os.Stat(logPath(dir)); err != nil || fi.Size() > 2200 {
		t.Errorf("%v, %v", fi.Size(), err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestRetentionWhenQuiet: a keeper that has nothing to do applies retention before it
// leaves, once; a run that is driven keeps it from that.
func TestRetentionWhenQuiet(t *testing.T) {
	w := newWorld(t)
	e := w.engine()
	id := w.submit(e, spec("lines", "2000", ";", "exit", "0"))
	w.finished(id)
	size, err := w.logs.Size(id)
	if err != nil || size == 0 {
		t.Fatal(size, err)
	}
	k := w.serve(idle(2*time.Second), func(o *Options) { o.Retention = control.Retention{Ledger: 365 * 24 * time.Hour} })
	if err := k.wait(t); err != nil {
		t.Fatal(err)
	}
	if now, err := w.logs.Size(id); err != nil || now == 0 || now*2 > size {
		t.Errorf("the output took %d bytes and takes %d, %v", size, now, err)
	}
	if got := w.output(id); got != numbered(2000) {
		t.Errorf("%d bytes of output", len(got))
	}
	if e.RetainDue(true) {
		t.Error("retention is still due")
	}
}

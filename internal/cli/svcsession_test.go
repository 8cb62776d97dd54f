package cli

import (
	"context"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/windlass-run/windlass/internal/testwait"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/providertest/fake"
)

// asTerminal makes a command's streams a terminal, whose keys come from in.
func asTerminal(f *Factory, in io.Reader, size func() (int, int, error)) (raw *atomic.Int32, resized chan struct{}) {
	raw, resized = &atomic.Int32{}, make(chan struct{})
	s := f.Streams
	s.In, s.InTerminal, s.OutTerminal, s.Size = in, true, true, size
	s.Raw = func() (func() error, error) {
		raw.Add(1)
		return func() error { raw.Add(-1); return nil }, nil
	}
	s.Resized = func() (<-chan struct{}, func()) { return resized, func() {} }
	return raw, resized
}

func TestSvcExecTerminal(t *testing.T) {
	w := newLiveWorld(t, "alpha")
	w.deploy("alpha", "main/api", 1)
	in, keys := io.Pipe()
	var columns atomic.Int32
	columns.Store(80)
	size := func() (int, int, error) { return int(columns.Load()), 24, nil }
	var raw *atomic.Int32
	var resized chan struct{}
	ready, done := make(chan struct{}), make(chan int, 1)
	out := &buffer{}
	go func() {
		done <- w.doIn(t.Context(), func(f *Factory) {
			f.Streams.Out = out
			raw, resized = asTerminal(f, in, size)
			close(ready)
		}, "svc", "exec", "-t", "--record", "api", "--", "size")
	}()
	<-ready
	testwait.Until(t, soon, "first size", func() bool { return out.String() == "80x24\n" })
	if raw.Load() != 1 {
		t.Error("the terminal doesn't pass on every key")
	}
	resized <- struct{}{} // it is as it was
	columns.Store(120)
	resized <- struct{}{}
	testwait.Until(t, soon, "second size", func() bool { return out.String() == "80x24\n120x24\n" })
	if err := keys.Close(); err != nil {
		t.Fatal(err)
	}
	if code := testwait.Receive(t, soon, "exit", done); code != 0 {
		t.Errorf("exit %d: %s", code, w.err.String())
	}
	if raw.Load() != 0 {
		t.Error("the terminal wasn't given back")
	}
	if got := w.must(0, "logs", "api"); !strings.Contains(got, "80x24\n120x24\n") {
		t.Errorf("the transcript is %q", got)
	}
}

func TestSvcExecTerminalRefused(t *testing.T) {
	w := newLiveWorld(t, "alpha")
	w.deploy("alpha", "main/api", 1)
	if w.must(ExitWindlass, "svc", "exec", "-t", "api", "--", "size"); !strings.Contains(w.err.String(), "no terminal") {
		t.Errorf("%s", w.err.String())
	}
	w.must(ExitUsage, "svc", "exec", "-t", "--json", "api", "--", "size")
	if n := w.clouds["alpha"].Calls(fake.OpExecWorkload); n != 0 {
		t.Errorf("%d calls were made", n)
	}
}

// TestSvcExecSignals passes the first signal on to the command; the second leaves it.
func TestSvcExecSignals(t *testing.T) {
	for _, c := range []struct {
		name    string
		signals []os.Signal
		want    string
	}{
		{"the first goes to the command", []os.Signal{syscall.SIGTERM}, "ended by the signal TERM"},
		{"Ctrl-C too", []os.Signal{os.Interrupt}, "ended by the signal INT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newLiveWorld(t, "alpha")
			w.deploy("alpha", "main/api", 1)
			i := &interrupts{}
			done := make(chan int, 1)
			out := &buffer{}
			go func() {
				done <- w.doIn(t.Context(), func(f *Factory) { f.interrupts, f.Streams.Out = i, out }, "svc", "exec", "api", "--", "echo", "up", ";", "hang")
			}()
			testwait.Until(t, soon, "running command", func() bool { return out.String() == "up\n" })
			for _, s := range c.signals {
				i.deliver(s)
			}
			if code := testwait.Receive(t, soon, "exit", done); code != ExitWindlass {
				t.Errorf("exit %d", code)
			}
			if !strings.Contains(w.err.String(), c.want) {
				t.Errorf("%s", w.err.String())
			}
		})
	}
}

// TestSvcExecLeft leaves a session: what became of the command isn't known, and its
// row says so.
func TestSvcExecLeft(t *testing.T) {
	w := newLiveWorld(t, "alpha")
	w.deploy("alpha", "main/api", 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan int, 1)
	out := &buffer{}
	go func() {
		done <- w.doIn(ctx, func(f *Factory) { f.Streams.Out = out }, "svc", "exec", "api", "--", "echo", "up", ";", "hang")
	}()
	testwait.Until(t, soon, "running command", func() bool { return out.String() == "up\n" })
	cancel(errInterrupted)
	if code := testwait.Receive(t, soon, "exit", done); code == 0 {
		t.Error("a session that was left is no success")
	}
	rows := decode[[]RunView](t, w.must(0, "ledger", "log", "--json"))
	if len(rows) != 1 || rows[0].State != sdk.StateLost {
		t.Errorf("%+v", rows)
	}
}

package cli

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/sdk"
)

// idNoTerminal is the ID of a session that was to have a terminal where none is.
const idNoTerminal = "svc.no-terminal"

// openTerminal hands this terminal to a session: keys go as they are typed, Ctrl-C
// among them, and a change of size follows. close gives it back.
func (o *svcExecOptions) openTerminal(r *sdk.ExecWorkloadRequest) (closeTerminal func() error, err error) {
	s := o.f.Streams
	if !s.InTerminal || !s.OutTerminal || s.Raw == nil {
		return nil, &sdk.Error{Code: sdk.FailedPrecondition, Op: "open terminal", Field: "tty", ID: idNoTerminal, Err: errors.New("-t: standard input and output are no terminal"),
			Remedy: "leave -t out: -i passes standard input on without one"}
	}
	columns, rows := s.size()
	r.Terminal, r.Stdin = &sdk.TerminalSize{Columns: columns, Rows: rows}, s.In
	restore, err := s.Raw()
	if err != nil {
		return nil, &sdk.Error{Code: sdk.FailedPrecondition, Op: "open terminal", Field: "tty", ID: idNoTerminal, Err: err, Remedy: "leave -t out"}
	}
	stop := func() {}
	if s.Resized != nil {
		resized, unwatch := s.Resized()
		sizes, done, ended := make(chan sdk.TerminalSize, 1), make(chan struct{}), make(chan struct{})
		r.Resize = sizes
		go func() {
			defer close(ended)
			passSizes(s, resized, sizes, done)
		}()
		stop = func() {
			unwatch()
			close(done)
			<-ended
		}
	}
	return func() error {
		stop()
		return restore()
	}, nil
}

// passSizes gives the terminal's newest size for each change; a size that nobody has
// taken yet is replaced.
func passSizes(s *Streams, resized <-chan struct{}, sizes chan sdk.TerminalSize, done <-chan struct{}) {
	var last sdk.TerminalSize
	for {
		select {
		case <-done:
			return
		case <-resized:
		}
		columns, rows := s.size()
		now := sdk.TerminalSize{Columns: columns, Rows: rows}
		if now == last {
			continue
		}
		last = now
		select {
		case <-sizes:
		default:
		}
		sizes <- last
	}
}

// passSignals sends the first signal to the command inside, where the provider can;
// the second leaves the session.
func (o *svcExecOptions) passSignals(ctx context.Context, w *control.WorkloadRuntime, t sdk.Target, r *sdk.ExecWorkloadRequest) (context.Context, func(), error) {
	g, err := w.Guarantees(ctx, t.Provider)
	if err != nil {
		return ctx, nil, err
	}
	if !g.Exec.Signals {
		return ctx, func() {}, nil // a signal leaves the session, as of every command
	}
	signals := make(chan string, 1)
	r.Signals = signals
	before := ctx
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unlink := context.AfterFunc(before, func() { cancel(context.Cause(before)) })
	o.f.interrupts.handle(func(n int, sig os.Signal) {
		switch n {
		case 1:
			o.f.Streams.note("%s was passed on to the command; the next one leaves it", signalName(sig))
			signals <- signalWord(sig)
		case 2:
			cancel(errInterrupted)
		default:
			o.f.exit(ExitInterrupted)
		}
	})
	return ctx, func() {
		o.f.interrupts.handle(nil)
		unlink()
		cancel(nil)
	}, nil
}

// signalWord is a signal's name without its first letters.
func signalWord(sig os.Signal) string {
	switch sig {
	case syscall.SIGTERM:
		return "TERM"
	case syscall.SIGHUP:
		return "HUP"
	case os.Interrupt:
		return "INT"
	}
	return strings.TrimPrefix(strings.ToUpper(sig.String()), "SIG")
}

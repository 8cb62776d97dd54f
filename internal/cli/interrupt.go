package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// interrupts hands the signals that ask a command to end to whoever is in
// charge: at first the default, which ends the command's context and at the
// second leaves; an attached run takes over while it has something to cancel.
type interrupts struct {
	// now is time.Now but in tests.
	now func() time.Time

	mu      sync.Mutex
	count   int
	last    time.Time
	handler func(count int, sig os.Signal)
}

// sameWish is how close together two signals are one wish: timeout(1) signals
// its child and then the child's group, and wrappers pass on a Ctrl-C that the
// terminal has sent to all.
const sameWish = 200 * time.Millisecond

// ends are the signals that ask to end: Ctrl-C, kill, a closed terminal.
func ends() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} }

// watchInterrupts begins to listen. Signals that the parent had ignored stay
// so: that is how nohup and background jobs of a shell ask to be left alone.
func watchInterrupts(i *interrupts) (stop func()) {
	c := make(chan os.Signal, 4)
	for _, s := range ends() {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-c:
				i.deliver(s)
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(c)
		close(done)
	}
}

// watchQuit makes SIGQUIT, which Ctrl-\ sends, end the process at once with one
// line in place of Go's dump of all goroutines, which GOTRACEBACK asks for. The
// exit code is what a shell makes of the signal.
func watchQuit(s *Streams, exit func(int)) (stop func()) {
	c := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGQUIT) {
		signal.Notify(c, syscall.SIGQUIT)
	}
	done := make(chan struct{})
	go func() {
		select {
		case <-c:
			s.note("left at once; what runs goes on, and windlass ps finds it (GOTRACEBACK=all shows where this program was)")
			exit(128 + int(syscall.SIGQUIT))
		case <-done:
		}
	}()
	return func() {
		signal.Stop(c)
		close(done)
	}
}

func (i *interrupts) deliver(s os.Signal) {
	now := time.Now
	if i.now != nil {
		now = i.now
	}
	i.mu.Lock()
	at := now()
	if i.count > 0 && at.Sub(i.last) < sameWish {
		i.mu.Unlock()
		return
	}
	i.count++
	i.last = at
	n, h := i.count, i.handler
	i.mu.Unlock()
	if h != nil {
		h(n, s)
	}
}

// handle replaces the handler, and counts from one again.
func (i *interrupts) handle(h func(count int, sig os.Signal)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.count, i.handler = 0, h
}

// endContext is the default handler: the first signal ends a context, the
// second the process.
func endContext(cancel context.CancelCauseFunc, exit func(int)) func(int, os.Signal) {
	return func(n int, _ os.Signal) {
		if n == 1 {
			cancel(errInterrupted)
			return
		}
		exit(ExitInterrupted)
	}
}

// surviveBrokenPipe turns the death by SIGPIPE, when nobody reads our stdout
// any more, into an error of the write. It catches the signal instead of
// ignoring it, since children would inherit that.
func surviveBrokenPipe() (stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGPIPE)
	return func() { signal.Stop(c) }
}

// signalName is how a signal is spoken of.
func signalName(s os.Signal) string {
	switch s {
	case os.Interrupt:
		return "Ctrl-C"
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGHUP:
		return "a closed terminal"
	}
	return s.String()
}

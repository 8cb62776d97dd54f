package run

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

const (
	// outputGrace is how long a pipe may be silent and open once its process has
	// ended and the group is killed. Only a descendant that left the group can
	// hold it that long.
	outputGrace = time.Second
	// outputMax bounds the time for which such a descendant is listened to.
	outputMax = 30 * time.Second
)

// output copies one pipe of a process to its end. What is in the pipe when the
// process ends is copied however slowly it is taken.
type output struct {
	from *os.File
	to   io.Writer

	mu    sync.Mutex
	ended time.Time // when the process ended; zero while it runs
}

// copy returns once the pipe is closed by all, or silent behind the end of the
// process. A write that fails ends nothing: the process goes on, unheard.
func (o *output) copy() {
	defer func() { _ = o.from.Close() }() // nothing was written to it
	buf := make([]byte, 32<<10)
	for {
		final := o.arm()
		n, err := o.from.Read(buf)
		if n > 0 {
			_, _ = o.to.Write(buf[:n])
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded) && !final:
		default:
			return
		}
	}
}

// arm bounds the next read once the process has ended, and reports whether it
// has.
func (o *output) arm() (final bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended.IsZero() {
		return false
	}
	until := time.Now().Add(outputGrace)
	if end := o.ended.Add(outputMax); end.Before(until) {
		until = end
	}
	_ = o.from.SetReadDeadline(until) // see last
	return true
}

// last tells that the process has ended.
func (o *output) last() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = time.Now()
	if err := o.from.SetReadDeadline(o.ended); err != nil {
		// A system whose pipes know no deadline.
		time.AfterFunc(outputGrace, func() { _ = o.from.Close() })
	}
}

//go:build linux || darwin

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/windlass-run/windlass/internal/driver/local/cgroup"
	"github.com/windlass-run/windlass/internal/driver/local/proc"
	"golang.org/x/sys/unix"
)

func nothing() *cgroup.Group { return cgroup.At(nil) }

// expired is a context for what is tried once.
func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// ending is how the job's own process ended.
type ending struct {
	status syscall.WaitStatus
	usage  syscall.Rusage
	at     time.Time
}

// reap waits for children, adopted ones too, until pid has ended.
func reap(pid int, out chan<- ending) {
	for {
		var e ending
		got, err := syscall.Wait4(-1, &e.status, 0, &e.usage)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if got == pid || err != nil {
			e.at = time.Now()
			out <- e
			return
		}
	}
}

// reapAll takes the children that have ended, and reports whether none is left.
// With a subreaper this proves that nothing of the job lives: every process of
// it has an ancestor among our children.
func reapAll() bool {
	for {
		got, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return true
		case got == 0:
			return false
		}
	}
}

func (s *supervisor) exited(e ending) {
	s.end.Ended = e.at
	s.end.MaxRSS = maxRSS(e.usage)
	s.end.UserTime, s.end.SystemTime = time.Duration(e.usage.Utime.Nano()), time.Duration(e.usage.Stime.Nano())
	switch {
	case e.status.Exited():
		code := e.status.ExitStatus()
		s.end.ExitCode = &code
	case e.status.Signaled():
		s.end.Signal, s.end.Core = SignalName(e.status.Signal()), e.status.CoreDump()
	}
}

// SignalName returns a signal's name, such as SIGKILL; those that have none get
// their number, as SIG35.
func SignalName(sig syscall.Signal) string {
	if n := unix.SignalName(sig); n != "" {
		return n
	}
	return fmt.Sprintf("SIG%d", int(sig))
}

// giveUpAfter is how long processes are struck that we may not kill, before
// they are recorded as left.
const giveUpAfter = 2 * time.Second

// killRest ends what outlived the job's own process. Nothing may stay behind:
// a job ends with its process, as a container does.
func (s *supervisor) killRest() {
	seen := map[proc.Identity]bool{}
	defer func() { s.end.RestKilled = len(seen) }()
	begun := time.Now()
	for pause := 500 * time.Microsecond; ; pause = min(2*pause, 50*time.Millisecond) {
		left, err := s.left()
		if err != nil {
			s.note("look for what is left", err)
		} else if len(left) == 0 {
			return
		}
		for _, id := range left {
			seen[id] = true
		}
		_, err = s.strike()
		if errors.Is(err, unix.EPERM) && time.Since(begun) > giveUpAfter {
			s.end.Left = left
			s.note("leave processes behind", err)
			return
		}
		time.Sleep(pause)
	}
}

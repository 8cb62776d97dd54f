package supervisor

import (
	"errors"
	"os"
	"syscall"

	"github.com/windlass-run/windlass/internal/driver/local/proc"
	"golang.org/x/sys/unix"
)

// There is no subreaper here, no death signal and no control group: the job is
// its process group.

func becomeSubreaper() {}

func tie(*syscall.SysProcAttr) {}

func widen(*os.File) {}

func (s *supervisor) signal(sig syscall.Signal) error {
	err := unix.Kill(-s.main.PID, sig)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EPERM) {
		return nil // a group of the dead alone answers EPERM too
	}
	return err
}

// askMain sends TERM to the job's own process, and CONT, as a stopped one could
// not heed it.
func (s *supervisor) askMain() {
	s.others = []proc.Identity{s.main}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		if err := s.main.Signal(sig); err != nil && !errors.Is(err, proc.ErrGone) {
			s.note("ask to end", err)
		}
	}
}

// askOthers is askRest.
func (s *supervisor) askOthers() { s.askRest() }

// askRest does so with the whole group, in which its own process has no special
// place.
func (s *supervisor) askRest() {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		if err := s.signal(sig); err != nil {
			s.note("ask to end", err)
		}
	}
}

func (s *supervisor) strike() (int, error) { return 0, s.signal(syscall.SIGKILL) }

func (s *supervisor) left() ([]proc.Identity, error) {
	reapAll()
	if err := unix.Kill(-s.main.PID, 0); err != nil {
		return nil, nil
	}
	return []proc.Identity{{BootID: s.self.BootID, PID: s.main.PID}}, nil
}

// maxRSS is in bytes.
func maxRSS(u syscall.Rusage) int64 { return u.Maxrss }

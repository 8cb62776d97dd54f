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
	err := unix.Kill(-s.main, sig)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EPERM) {
		return nil // a group of the dead alone answers EPERM too
	}
	return err
}

func (s *supervisor) askTree() {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		if err := s.signal(sig); err != nil {
			s.note("ask to end", err)
		}
	}
}

func (s *supervisor) strike() (int, error) { return 0, s.signal(syscall.SIGKILL) }

func (s *supervisor) left() ([]proc.Identity, error) {
	reapAll()
	if err := unix.Kill(-s.main, 0); err != nil {
		return nil, nil
	}
	return []proc.Identity{{BootID: s.self.BootID, PID: s.main}}, nil
}

// maxRSS is in bytes.
func maxRSS(u syscall.Rusage) int64 { return u.Maxrss }

package supervisor

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/windlass-run/windlass/internal/driver/local/proc"
	"golang.org/x/sys/unix"
)

// becomeSubreaper makes orphans of the job our children, so that even one that
// left the job's session and group can be found and waited for.
func becomeSubreaper() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	_ = os.WriteFile("/proc/self/comm", []byte("windlass-job"), 0) // for people's ps
}

// tie lets the job's own process die with us.
func tie(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

const pipeSize = 1 << 20

// widen gives the pipe more room, where that is allowed.
func widen(f *os.File) {
	_, _ = unix.FcntlInt(f.Fd(), unix.F_SETPIPE_SZ, pipeSize)
}

// tree returns all living processes of the job.
func (s *supervisor) tree() ([]proc.Identity, error) {
	out, err := s.group.Find()
	if err != nil {
		return nil, err
	}
	below, err := proc.Descendants(os.Getpid())
	if err != nil {
		return nil, err
	}
	seen := map[proc.Identity]bool{}
	for _, id := range out {
		seen[id] = true
	}
	for _, id := range below {
		if !seen[id] {
			out = append(out, id)
		}
	}
	return out, nil
}

// askMain sends TERM to the job's own process, and CONT, as a stopped one could
// not heed it. It is stopped while the others of this moment are noted for
// askOthers, so that it makes none in between.
func (s *supervisor) askMain() {
	if s.main.Signal(syscall.SIGSTOP) == nil {
		for pause := 50 * time.Microsecond; pause < 10*time.Millisecond && !s.main.Stopped(); pause *= 2 {
			time.Sleep(pause)
		}
	}
	var err error
	if s.others, err = s.tree(); err != nil {
		s.note("look for processes", err)
	}
	s.ask([]proc.Identity{s.main})
}

// askOthers does so with those that were there when the job was asked to end;
// what its own process started since, it started to end in good order.
func (s *supervisor) askOthers() { s.ask(s.others) }

// askRest does so with all that is left.
func (s *supervisor) askRest() {
	list, err := s.tree()
	if err != nil {
		s.note("look for processes", err)
	}
	s.ask(list)
}

// ask asks each process once.
func (s *supervisor) ask(list []proc.Identity) {
	for _, id := range list {
		if s.told[id] {
			continue
		}
		s.told[id] = true
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
			if err := id.Signal(sig); err != nil && !errors.Is(err, proc.ErrGone) {
				s.note("ask to end", err)
			}
		}
	}
}

// strike sends KILL to every process of the job.
func (s *supervisor) strike() (int, error) {
	n, gerr := s.group.Kill()
	m, err := proc.KillAll(func() ([]proc.Identity, error) { return proc.Descendants(os.Getpid()) })
	return n + m, errors.Join(gerr, err)
}

// left returns what is left of the job, at little cost when that is nothing.
func (s *supervisor) left() ([]proc.Identity, error) {
	childless := reapAll()
	in, err := s.group.Find()
	if err != nil || childless {
		return in, err
	}
	return s.tree()
}

// maxRSS is in bytes.
func maxRSS(u syscall.Rusage) int64 { return u.Maxrss << 10 }

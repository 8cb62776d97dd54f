//go:build linux || darwin

package supervisor

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/windlass-run/windlass/internal/driver/local/attempt"
)

// lookEvery is how often a cancel is sought that nobody could knock for, as
// from another PID namespace.
const lookEvery = 2 * time.Second

// watch returns when the job's own process has ended, and what it left needs no
// more time.
func (s *supervisor) watch() {
	exited := make(chan ending, 1)
	go reap(s.main.PID, exited)
	s.kill, s.rest, s.deadline = stopped(), stopped(), stopped()
	if s.order.Deadline > 0 {
		s.deadline.Reset(s.order.Deadline)
	}
	look, left := time.NewTicker(lookEvery), stopped()
	defer look.Stop()
	pause := time.Millisecond
	s.readCancel() // one that came between the start and now
	for {
		select {
		case e := <-exited:
			s.exited(e)
			s.hit(PointExited)
			if s.end.Cause == "" || !time.Now().Before(s.killAt) {
				return
			}
			// The grace is for all of it.
			s.rest.Stop()
			s.askRest()
			left.Reset(0)
		case <-left.C:
			if list, err := s.left(); err == nil && len(list) == 0 {
				return
			}
			pause = min(2*pause, 20*time.Millisecond)
			left.Reset(pause)
		case sig := <-s.signals:
			s.heed(sig)
		case <-look.C:
			s.readCancel()
			if s.removed() {
				s.terminate(attempt.CauseTerminated, "the attempt's folder was removed", s.order.Grace)
			}
		case <-s.deadline.C:
			s.terminate(attempt.CauseDeadline, fmt.Sprintf("the deadline of %s passed", s.order.Deadline), s.order.Grace)
		case <-s.rest.C:
			if s.others != nil {
				s.askOthers()
				s.others = nil
				s.rest.Reset(max(time.Until(s.killAt)/2, time.Millisecond))
			} else {
				s.askRest() // half of the grace is over
			}
		case <-s.kill.C:
			if !s.end.Ended.IsZero() {
				return // what is left is killed next
			}
			s.killTree()
			s.kill.Reset(100 * time.Millisecond) // until its own process is gone
		}
	}
}

func (s *supervisor) heed(sig os.Signal) {
	switch sig {
	case syscall.SIGCONT:
		s.readCancel()
	case syscall.SIGUSR1:
		s.terminate(attempt.CauseCancel, "", s.order.Grace)
	case syscall.SIGUSR2:
		s.terminate(attempt.CauseCancel, "", 0)
	case syscall.SIGTERM, syscall.SIGINT:
		s.terminate(attempt.CauseTerminated, "the supervisor got "+sig.String(), s.order.Grace)
	}
}

// removed reports whether somebody took the attempt's folder away. Then nobody
// can see the job or end it any more, and it must not stay behind.
func (s *supervisor) removed() bool {
	var st syscall.Stat_t
	return syscall.Fstat(LockFD, &st) == nil && st.Nlink == 0
}

func stopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

func (s *supervisor) readCancel() {
	c, err := attempt.Read[attempt.Cancel](s.folder, attempt.CancelFile)
	if err != nil {
		if !errors.Is(err, attempt.ErrNone) {
			s.note("read cancel", err)
		}
		return
	}
	grace := s.order.Grace
	if c.Grace != nil {
		grace = *c.Grace
	}
	if c.At.Equal(s.asked) {
		return
	}
	// The grace counts from here: clocks that step don't shorten it.
	s.asked = c.At
	s.terminate(attempt.CauseCancel, c.Why, grace)
}

// headStart is how long the job's own process is alone with TERM, so that it
// can end its children in its own way.
const headStart = 200 * time.Millisecond

// terminate asks the whole tree to end, and kills what is left after the
// grace. The first cause stands; a later call can only hurry.
func (s *supervisor) terminate(cause attempt.Cause, why string, grace time.Duration) {
	at := time.Now().Add(grace)
	if s.end.Cause == "" {
		s.end.Cause, s.end.Why = cause, why
		s.deadline.Stop()
		if grace > 0 {
			s.end.EndedBy = "SIGTERM"
			s.askMain()
			s.rest.Reset(min(headStart, grace/4))
		}
	} else if !at.Before(s.killAt) {
		return
	}
	s.killAt = at
	s.kill.Reset(max(time.Until(at), 0))
}

// killTree is one blow at everything that the job consists of.
func (s *supervisor) killTree() {
	s.end.EndedBy = "SIGKILL"
	if _, err := s.strike(); err != nil {
		s.note("kill", err)
	}
}

//go:build linux || darwin

// Package supervisor is the small process that holds one local job: it starts
// the job, keeps its output, ends it when it is told to or its deadline passes,
// ends whatever outlives the job's own process, and leaves a durable record of
// the end. It is in a session of its own and needs nobody.
//
// Whoever starts it passes three or four open files: the attempt's lock, taken;
// a pipe with the order; a pipe for the answer; and the job's standard input,
// if it has one. The order is read to its end before anything is done, so that
// a submitter that dies half-way has started nothing.
package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windlass-run/windlass/internal/driver/local/attempt"
	"github.com/windlass-run/windlass/internal/driver/local/capture"
	"github.com/windlass-run/windlass/internal/driver/local/cgroup"
	"github.com/windlass-run/windlass/internal/driver/local/proc"
	"github.com/windlass-run/windlass/sdk"
)

// Verb is the hidden command that makes a process a supervisor.
const Verb = "__supervise"

// The files that a supervisor inherits.
const (
	LockFD  = 3
	OrderFD = 4
	ReplyFD = 5
	StdinFD = 6
)

// Hello is the first byte on the answer's pipe: the process is a supervisor
// and waits for its order.
const Hello = 'H'

// The boundaries that Run passes, in their order, for tests that kill it there.
const (
	PointOrdered  = "supervisor.ordered"
	PointBegun    = "supervisor.begun"
	PointForked   = "supervisor.forked"
	PointStarted  = "supervisor.started"
	PointExited   = "supervisor.exited"
	PointRecorded = "supervisor.recorded"
)

// Points returns the boundaries in their order.
func Points() []string {
	return []string{PointOrdered, PointBegun, PointForked, PointStarted, PointExited, PointRecorded}
}

// supervisor is the state of the one job. Its goroutine is locked to a thread
// for ever: the job dies with the thread that started it.
type supervisor struct {
	hit    func(string)
	order  attempt.Order
	folder attempt.Folder
	group  *cgroup.Group
	self   proc.Identity

	writer   *capture.Writer
	output   *os.File
	streams  []*stream
	signals  chan os.Signal
	end      attempt.End
	main     proc.Identity // the job's own process, zero before it started
	asked    time.Time     // of the cancel that was read last
	killAt   time.Time
	kill     *time.Timer
	rest     *time.Timer // TERM to others than the job's own process
	others   []proc.Identity
	told     map[proc.Identity]bool // who got TERM
	deadline *time.Timer
}

// Run is the whole life of a supervisor. It returns the process's exit code,
// which says nothing about the job. hit is called at each boundary.
func Run(hit func(point string)) int {
	runtime.LockOSThread()
	for fd := LockFD; fd <= ReplyFD; fd++ {
		syscall.CloseOnExec(fd)
	}
	if !isPipe(OrderFD) || !isPipe(ReplyFD) {
		fmt.Fprintln(os.Stderr, "windlass: "+Verb+" is started by windlass alone")
		return 125
	}
	s := &supervisor{hit: hit, signals: make(chan os.Signal, 16), told: map[proc.Identity]bool{}}
	// CONT is the knock of a cancel: unlike the others it does no harm to a
	// process that doesn't listen yet. USR1 and USR2 are cancels that could not
	// be left in the folder, with the order's grace and with none.
	signal.Notify(s.signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGCONT, syscall.SIGUSR1, syscall.SIGUSR2)
	reply := os.NewFile(ReplyFD, "reply")
	if _, err := reply.Write([]byte{Hello}); err != nil {
		return 1
	}
	if err := s.readOrder(); err != nil {
		fmt.Fprintln(os.Stderr, "supervise:", err)
		return 1 // nothing was ordered
	}
	hit(PointOrdered)
	return s.run(reply)
}

func isPipe(fd int) bool {
	var st syscall.Stat_t
	return syscall.Fstat(fd, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFIFO
}

func (s *supervisor) readOrder() error {
	f := os.NewFile(OrderFD, "order")
	b, err := io.ReadAll(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	// A torn order is not JSON: its last byte closes its first.
	if err := json.Unmarshal(b, &s.order); err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	s.folder = attempt.Folder(s.order.Path)
	keep := ReplyFD
	if s.order.Stdin {
		keep = StdinFD
		syscall.CloseOnExec(StdinFD)
	}
	closeInherited(keep)
	return nil
}

// closeInherited closes what the submitter happened to have open for its
// children, above keep: whoever waits for the end of such a pipe would wait for
// us and for the job. What this program opens itself is closed on exec, by
// which the two are told apart.
func closeInherited(keep int) {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		if list, err = os.ReadDir("/dev/fd"); err != nil {
			return
		}
	}
	for _, e := range list {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= keep {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

// run answers as soon as the job runs, or is recorded as one that can't.
func (s *supervisor) run(reply *os.File) int {
	answer := func(r attempt.Reply) {
		if err := json.NewEncoder(reply).Encode(r); err != nil {
			s.note("answer the submitter", err) // it may be gone; the record stands
		}
		_ = reply.Close()
	}
	if err := s.prepare(); err != nil {
		answer(attempt.Reply{Error: err.Error(), Code: sdk.CodeOf(err), Reason: attempt.MachineReason(err)})
		return 1
	}
	s.hit(PointBegun)
	if !s.cancelled() {
		s.start()
	}
	if s.main.IsZero() {
		code := s.finish()
		answer(attempt.Reply{Supervisor: s.self})
		return code
	}
	answer(attempt.Reply{Supervisor: s.self})
	s.watch()
	return s.finish()
}

// prepare does everything that can fail without having begun, and then begins.
func (s *supervisor) prepare() error {
	refuse := func(code sdk.Code, err error) error {
		return &sdk.Error{Code: code, Op: "supervise", Err: err}
	}
	if s.order.V > attempt.Version {
		return refuse(sdk.FailedPrecondition, fmt.Errorf("the order has version %d, this program reads up to %d", s.order.V, attempt.Version))
	}
	var err error
	if s.self, err = proc.Self(); err != nil {
		return refuse(sdk.Internal, err)
	}
	becomeSubreaper()
	s.output, err = os.OpenFile(s.folder.Path(attempt.OutputFile), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return refuse(diskCode(err), err)
	}
	s.writer = capture.NewWriter(s.output, s.order.MaxOutput)
	if err := s.folder.Reserve(); err != nil {
		return refuse(diskCode(err), err)
	}
	var places []cgroup.Place
	if !s.order.NoCgroup || !s.order.Limits.IsZero() {
		host, err := cgroup.Detect()
		if err == nil {
			places, err = host.Plan(s.order.ID.String(), s.order.Limits)
		}
		if err != nil && (!s.order.Limits.IsZero() || !errors.Is(err, cgroup.ErrNone)) {
			return refuse(sdk.FailedPrecondition, err)
		}
	}
	s.group = cgroup.At(places)
	begun := attempt.Begun{V: attempt.Version, Supervisor: s.self, Cgroup: places, At: time.Now()}
	if err := attempt.Write(s.folder, attempt.BegunFile, begun, attempt.Visible); err != nil {
		return refuse(diskCode(err), err)
	}
	return nil
}

func diskCode(err error) sdk.Code {
	if errors.Is(err, os.ErrPermission) {
		return sdk.PermissionDenied
	}
	return sdk.FailedPrecondition
}

// cancelled reads a cancel that came before the start.
func (s *supervisor) cancelled() bool {
	c, err := attempt.Read[attempt.Cancel](s.folder, attempt.CancelFile)
	if err != nil {
		return false
	}
	s.end.Cause, s.end.Why = attempt.CauseCancel, c.Why
	return true
}

// finish ends what outlived the job's own process, takes the rest of the
// output, and records the end. It returns only when that is durable.
func (s *supervisor) finish() int {
	if !s.main.IsZero() {
		s.killRest()
	}
	for _, st := range s.streams {
		st.finish()
	}
	s.end.OOMKills = s.group.OOMKills()
	totals, err := s.writer.Finish()
	if err != nil {
		s.note("sync output", err)
	}
	s.end.V = attempt.Version
	s.end.Output, s.end.Lost, s.end.Capped, s.end.Untold = totals.Size, totals.Lost, totals.Capped, totals.Untold
	if s.end.Ended.IsZero() {
		s.end.Ended = time.Now()
	}
	// Without its record the end would be a loss, so this goes on for as long
	// as it takes: the attempt counts as running until then.
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		if err = s.folder.WriteEnd(s.end, s.tell); err == nil || s.folder.Has(attempt.EndFile) {
			break
		}
		if gone, xerr := s.folder.Exists(); xerr == nil && !gone {
			break // somebody removed it; there is nowhere to record
		}
		s.note("record the end", err)
		time.Sleep(pause)
	}
	s.hit(PointRecorded)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := s.group.Remove(ctx); err != nil {
		s.note("remove cgroup", err) // clean-up tries again
	}
	return 0
}

// tell tells watchers of the state folder that this attempt changed.
func (s *supervisor) tell() {
	if err := Tell(filepath.Dir(string(s.folder)), s.order.ID); err != nil {
		s.note("tell watchers", err)
	}
}

// note leaves a line in the supervisor's own log, which lies in the folder.
func (s *supervisor) note(what string, err error) {
	fmt.Fprintf(os.Stderr, "%s supervise: %s: %v\n", time.Now().UTC().Format(time.RFC3339Nano), what, err)
}

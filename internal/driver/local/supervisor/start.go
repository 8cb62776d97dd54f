//go:build linux || darwin

package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/windlass-run/windlass/internal/driver/local/attempt"
	"github.com/windlass-run/windlass/internal/driver/local/proc"
	"github.com/windlass-run/windlass/sdk"
)

// defaultPath is where programs are looked for when the job has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// start starts the job. When that fails, the end says why.
func (s *supervisor) start() {
	if err := s.group.Make(s.order.Limits); err != nil {
		if !s.order.Limits.IsZero() {
			s.fail(attempt.FailureOther, err)
			return
		}
		s.note("go on without a cgroup", err)
		s.group = nothing()
	}
	stdin, err := s.stdin()
	if err != nil {
		s.fail(attempt.FailureOther, err)
		return
	}
	defer func() { _ = stdin.Close() }()
	owner := 0
	if s.order.User != nil {
		owner = int(s.order.User.UID)
	}
	for _, name := range []sdk.Stream{sdk.StreamStdout, sdk.StreamStderr} {
		st, oerr := openStream(name, s.writer, owner)
		if oerr != nil {
			err = oerr
			break
		}
		s.streams = append(s.streams, st)
	}
	if err != nil {
		for _, st := range s.streams {
			st.begin()
		}
		s.fail(attempt.FailureOther, err)
		return
	}
	files := []uintptr{stdin.Fd(), s.streams[0].w.Fd(), s.streams[1].w.Fd()}
	s.end.Started = time.Now()
	pid, why, err := s.exec(files)
	for _, st := range s.streams {
		st.begin() // without a job the pipes end at once
	}
	if err != nil {
		s.end.Started = time.Time{}
		s.fail(why, err)
		return
	}
	s.hit(PointForked)
	if s.main, err = proc.Of(pid); err != nil {
		// It has ended already; nobody has waited for it, so the PID is its own.
		s.main = proc.Identity{BootID: s.self.BootID, PIDNS: s.self.PIDNS, PID: pid}
	}
	started := attempt.Started{V: attempt.Version, Process: s.main, At: s.end.Started}
	if err := attempt.Write(s.folder, attempt.StartedFile, started, attempt.Visible); err != nil {
		s.note("record the start", err) // a full disk; the end has its room
	}
	s.tell()
	s.hit(PointStarted)
}

func (s *supervisor) fail(why attempt.Failure, err error) {
	s.end.Failure, s.end.StartError = why, err.Error()
}

func (s *supervisor) stdin() (*os.File, error) {
	if s.order.Stdin {
		return os.NewFile(StdinFD, "stdin"), nil
	}
	return os.Open(os.DevNull)
}

// exec finds the program as execvp(3) does and starts it.
func (s *supervisor) exec(files []uintptr) (int, attempt.Failure, error) {
	args := make([]string, len(s.order.Args))
	for i, a := range s.order.Args {
		args[i] = string(a)
	}
	env := make([]string, len(s.order.Env))
	for i, e := range s.order.Env {
		env[i] = string(e)
	}
	if st, err := os.Stat(s.order.Dir); err != nil || !st.IsDir() {
		if err == nil {
			err = fmt.Errorf("%s is not a folder", s.order.Dir)
		}
		return 0, attempt.FailureDir, fmt.Errorf("start in workdir: %w", err)
	}
	paths, found := search(args[0], env, s.order.Dir)
	var last error
	for _, p := range paths {
		pid, err := s.fork(p, args, env, files)
		if err == nil {
			return pid, "", nil
		}
		last = fmt.Errorf("start %s in %s: %w", p, s.order.Dir, err)
		switch {
		case errors.Is(err, syscall.EACCES):
			// The next folder may have one that can be executed. A folder that
			// can't be looked into is no sign that there is one.
			if !strings.Contains(args[0], "/") && !exists(p, s.order.Dir) {
				last = nil
				continue
			}
			found = true
		case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
			// A script whose interpreter is missing says the same.
		case errors.Is(err, syscall.ENOEXEC), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EISDIR),
			errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ETXTBSY), errors.Is(err, syscall.EINVAL):
			return 0, attempt.FailureNotExecutable, last
		default:
			return 0, attempt.FailureOther, last
		}
	}
	if found {
		if last == nil {
			last = fmt.Errorf("start %s: %w", args[0], syscall.EACCES)
		}
		return 0, attempt.FailureNotExecutable, last
	}
	if last == nil {
		last = fmt.Errorf("start %s: no such program in PATH", args[0])
	}
	return 0, attempt.FailureNotFound, last
}

func exists(path, dir string) bool {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	_, err := os.Stat(path)
	return err == nil
}

// search returns the paths that a command's name stands for, and whether there
// is one that can't be executed.
func search(name string, env []string, dir string) (paths []string, found bool) {
	if strings.Contains(name, "/") {
		return []string{name}, false
	}
	path := defaultPath
	for _, e := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
			break
		}
	}
	for _, d := range filepath.SplitList(path) {
		if d == "" {
			d = "."
		}
		p := d + "/" + name
		at := p
		if !filepath.IsAbs(at) {
			at = filepath.Join(dir, at)
		}
		st, err := os.Stat(at)
		switch {
		case errors.Is(err, os.ErrPermission):
			paths = append(paths, p) // who the job runs as may see more
		case err != nil || !st.Mode().IsRegular():
		case st.Mode()&0o111 == 0:
			found = true
		default:
			paths = append(paths, p)
		}
	}
	return paths, found
}

// fork starts one program, in the group.
func (s *supervisor) fork(path string, args, env []string, files []uintptr) (pid int, err error) {
	start := func(attr *syscall.SysProcAttr) error {
		attr.Setsid = true
		tie(attr)
		if u := s.order.User; u != nil {
			attr.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
		}
		var err error
		pid, err = syscall.ForkExec(path, args, &syscall.ProcAttr{Dir: s.order.Dir, Env: env, Files: files, Sys: attr})
		return err
	}
	err = s.group.Start(s.order.Limits, start)
	if err == nil || s.group.IsZero() {
		return pid, err
	}
	if pid > 0 {
		// It runs, and its group is not as it should be.
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_, _ = syscall.Wait4(pid, nil, 0, nil)
		return 0, err
	}
	if !s.order.Limits.IsZero() {
		return 0, err
	}
	// The group may be what fails: old kernels and filters of system calls
	// know no start inside one. Without limits it can be done without.
	if plain := start(&syscall.SysProcAttr{}); plain != nil {
		return 0, plain
	}
	s.note("go on without a cgroup", err)
	if rerr := s.group.Remove(expired()); rerr != nil {
		s.note("remove cgroup", rerr)
	}
	s.group = nothing()
	return pid, nil
}

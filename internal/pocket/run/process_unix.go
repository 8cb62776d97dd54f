//go:build unix

package run

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// termGroup sends TERM to the process alone, as a container's stop does to its
// first process.
func termGroup(p *os.Process) { _ = syscall.Kill(p.Pid, syscall.SIGTERM) } // it may have ended

// killGroup kills the process and all that it left in its group.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) } // it may be empty

// exitCode is the code, or 128 and the signal.
func exitCode(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}

// credential turns a container's user into the process's, which only root may
// choose.
func credential(name string) (*syscall.Credential, error) {
	if name == "" {
		return nil, nil
	}
	who, group, hasGroup := strings.Cut(name, ":")
	c := &syscall.Credential{}
	uid, gid, err := lookUser(who)
	if err != nil {
		return nil, err
	}
	c.Uid, c.Gid = uid, gid
	if hasGroup {
		if c.Gid, err = lookGroup(group); err != nil {
			return nil, err
		}
	}
	if me := os.Geteuid(); me != 0 {
		if int(c.Uid) == me && (!hasGroup || int(c.Gid) == os.Getegid()) {
			return nil, nil
		}
		return nil, fmt.Errorf("user %q: the pocket cloud runs processes as user %d, and only root may choose", name, me)
	}
	return c, nil
}

func lookUser(name string) (uid, gid uint32, err error) {
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		if u, err := user.LookupId(name); err == nil {
			if g, err := strconv.ParseUint(u.Gid, 10, 32); err == nil {
				return uint32(n), uint32(g), nil
			}
		}
		return uint32(n), 0, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, fmt.Errorf("unable to find user %s: no matching entries in passwd file", name)
	}
	n, err := strconv.ParseUint(u.Uid, 10, 32)
	g, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return uint32(n), uint32(g), errors.Join(err, err2)
}

func lookGroup(name string) (uint32, error) {
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(n), nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, fmt.Errorf("unable to find group %s: no matching entries in group file", name)
	}
	n, err := strconv.ParseUint(g.Gid, 10, 32)
	return uint32(n), err
}

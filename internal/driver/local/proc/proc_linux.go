package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// BootID returns the name of the current boot.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// namespace is empty where it can't be read, which is the same for everybody
// on that machine.
func namespace() string {
	s, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return s
}

func stat(pid int) (status, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
		return status{}, fmt.Errorf("look at process %d: %w", pid, ErrGone)
	case err != nil:
		return status{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	return parseStat(pid, b)
}

// parseStat reads proc_pid_stat(5). The second field is the program's name in
// brackets, which may itself hold brackets and spaces.
func parseStat(pid int, b []byte) (status, error) {
	bad := func() (status, error) { return status{}, fmt.Errorf("look at process %d: odd stat %q", pid, b) }
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return bad()
	}
	f := strings.Fields(string(b[i+1:]))
	if len(f) < 20 {
		return bad()
	}
	ppid, err := strconv.Atoi(f[1])
	if err != nil {
		return bad()
	}
	start, err := strconv.ParseUint(f[19], 10, 64)
	if err != nil {
		return bad()
	}
	return status{pid: pid, ppid: ppid, start: start, ended: f[0] == "Z" || f[0] == "X", stopped: f[0] == "T"}, nil
}

// pids returns the PIDs of all processes that can be seen.
func pids() ([]int, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer func() { _ = d.Close() }()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	out := make([]int, 0, len(names))
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			out = append(out, pid)
		}
	}
	return out, nil
}

func all() ([]status, error) {
	list, err := pids()
	if err != nil {
		return nil, err
	}
	out := make([]status, 0, len(list))
	for _, pid := range list {
		if st, err := stat(pid); err == nil {
			out = append(out, st)
		}
	}
	return out, nil
}

// Signal sends sig to the process, and to no other that may have its PID by
// now.
func (id Identity) Signal(sig syscall.Signal) error {
	fail := func(err error) error {
		if errors.Is(err, unix.ESRCH) {
			err = ErrGone
		}
		return fmt.Errorf("signal %s: %w", id, err)
	}
	if id.PID <= 0 {
		return fail(ErrGone)
	}
	fd, err := unix.PidfdOpen(id.PID, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		// A kernel before 5.3, or a filter that doesn't know the call.
		return id.signalByPID(sig, fail)
	}
	if err != nil {
		return fail(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := id.mustLive(); err != nil {
		return fail(err)
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil {
		return fail(err)
	}
	return nil
}

// Stopped reports whether the process was stopped by a signal.
func (id Identity) Stopped() bool {
	st, err := stat(id.PID)
	return err == nil && st.start == id.Start && st.stopped
}

func (id Identity) mustLive() error {
	l, err := id.Look()
	switch {
	case err != nil:
		return err
	case l == Foreign:
		return ErrForeign
	case l != Alive:
		return ErrGone
	}
	return nil
}

func (id Identity) signalByPID(sig syscall.Signal, fail func(error) error) error {
	if err := id.mustLive(); err != nil {
		return fail(err)
	}
	if err := unix.Kill(id.PID, sig); err != nil {
		return fail(err)
	}
	return nil
}

// Descendants returns the living processes below root, without root. Of a
// subreaper these are all that its children ever started and that live.
func Descendants(root int) ([]Identity, error) {
	list, err := all()
	if err != nil {
		return nil, err
	}
	return identities(descendants(list, root))
}

// Marked returns the living processes that have the entry NAME=value in the
// environment that they were started with, and everything below them. What
// another user started can't be seen, and is not returned.
func Marked(entry string) ([]Identity, error) {
	list, err := all()
	if err != nil {
		return nil, err
	}
	var marked []status
	var roots []int
	for _, s := range list {
		if !s.ended && s.pid != os.Getpid() && hasEntry(s.pid, entry) {
			marked, roots = append(marked, s), append(roots, s.pid)
		}
	}
	return identities(append(marked, descendants(list, roots...)...))
}

func hasEntry(pid int, entry string) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for e := range bytes.SplitSeq(b, []byte{0}) {
		if string(e) == entry {
			return true
		}
	}
	return false
}

func identities(list []status) ([]Identity, error) {
	boot, err := BootID()
	if err != nil {
		return nil, err
	}
	ns := namespace()
	var out []Identity
	for _, s := range list {
		if !s.ended {
			out = append(out, Identity{BootID: boot, PIDNS: ns, PID: s.pid, Start: s.start})
		}
	}
	return out, nil
}

package proc

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// BootID returns the name of the current boot.
func BootID() (string, error) {
	s, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return s, nil
}

func namespace() string { return "" }

// zombie is SZOMB of sys/proc.h.
const zombie = 5

func read(k *unix.KinfoProc) status {
	t := k.Proc.P_starttime
	return status{
		pid: int(k.Proc.P_pid), ppid: int(k.Eproc.Ppid), ended: k.Proc.P_stat == zombie,
		start: uint64(t.Sec)*1e6 + uint64(t.Usec),
	}
}

func stat(pid int) (status, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if errors.Is(err, unix.EIO) || errors.Is(err, unix.ESRCH) {
		// The answer is empty for a PID that no process has.
		return status{}, fmt.Errorf("look at process %d: %w", pid, ErrGone)
	}
	if err != nil {
		return status{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	return read(k), nil
}

// Signal sends sig to the process after a look at who it is: this system has
// nothing that holds on to a process, so a PID that is reused between the two
// is not noticed.
func (id Identity) Signal(sig syscall.Signal) error {
	l, err := id.Look()
	if err != nil {
		return err
	}
	if l != Alive {
		return fmt.Errorf("signal %s: %w", id, ErrGone)
	}
	if err := unix.Kill(id.PID, sig); err != nil {
		if errors.Is(err, unix.ESRCH) {
			err = ErrGone
		}
		return fmt.Errorf("signal %s: %w", id, err)
	}
	return nil
}

// Descendants returns the living processes below root, without root. A process
// whose parent has ended is no longer found: there is no subreaper here.
func Descendants(root int) ([]Identity, error) {
	ks, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	list := make([]status, len(ks))
	for i := range ks {
		list[i] = read(&ks[i])
	}
	boot, err := BootID()
	if err != nil {
		return nil, err
	}
	var out []Identity
	for _, s := range descendants(list, root) {
		if !s.ended {
			out = append(out, Identity{BootID: boot, PID: s.pid, Start: s.start})
		}
	}
	return out, nil
}

// Marked returns nothing: this system shows nobody another process's
// environment.
func Marked(string) ([]Identity, error) { return nil, nil }

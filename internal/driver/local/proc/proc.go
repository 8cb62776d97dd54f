// Package proc names processes of this machine in a way that outlives them. A
// PID alone comes back for another process; together with the boot and the
// time at which the process started it never does.
package proc

import (
	"errors"
	"fmt"
	"os"
)

// Identity names one process, for ever.
type Identity struct {
	// BootID is the boot of the machine, PIDNS the namespace that PID counts
	// in; PIDNS is empty where there are none.
	BootID string `json:"boot_id"`
	PIDNS  string `json:"pid_ns,omitzero"`
	PID    int    `json:"pid"`
	// Start is when the process started, in a unit of the system's own. It is
	// compared and nothing else.
	Start uint64 `json:"start"`
}

// Liveness is what is known about a process.
type Liveness int

// Alive and Dead are proven. Rebooted is dead too: the machine has booted
// since. Foreign means that the process counts in another PID namespace, so
// that nothing can be said from here.
const (
	Alive Liveness = iota + 1
	Dead
	Rebooted
	Foreign
)

// ErrGone is the error of a signal to a process that has ended.
var ErrGone = errors.New("the process has ended")

// ErrForeign is the error of a signal to a process of another PID namespace.
var ErrForeign = errors.New("the process lives in another PID namespace")

// String names the process for people.
func (id Identity) String() string { return fmt.Sprintf("process %d", id.PID) }

// IsZero reports whether id names nothing.
func (id Identity) IsZero() bool { return id.PID == 0 }

// Self returns the identity of the calling process.
func Self() (Identity, error) { return Of(os.Getpid()) }

// Of returns the identity of the process that has the PID now. A process that
// has ended, also one that nobody has waited for yet, is ErrGone.
func Of(pid int) (Identity, error) {
	boot, err := BootID()
	if err != nil {
		return Identity{}, err
	}
	st, err := stat(pid)
	if err != nil {
		return Identity{}, err
	}
	if st.ended {
		return Identity{}, fmt.Errorf("look at process %d: %w", pid, ErrGone)
	}
	return Identity{BootID: boot, PIDNS: namespace(), PID: pid, Start: st.start}, nil
}

// Look tells whether the process lives. It signals nothing.
func (id Identity) Look() (Liveness, error) {
	boot, err := BootID()
	if err != nil {
		return 0, err
	}
	switch {
	case id.IsZero():
		return Dead, nil
	case boot != id.BootID:
		return Rebooted, nil
	case id.PIDNS != namespace():
		return Foreign, nil
	}
	st, err := stat(id.PID)
	switch {
	case errors.Is(err, ErrGone):
		return Dead, nil
	case err != nil:
		return 0, err
	case st.ended || st.start != id.Start:
		return Dead, nil
	}
	return Alive, nil
}

// status is what is read of one process.
type status struct {
	pid, ppid int
	start     uint64
	// ended: it has exited, and its parent hasn't waited for it yet.
	ended, stopped bool
}

// descendants returns root's children, their children and so on, without root.
func descendants(all []status, roots ...int) []status {
	children := map[int][]status{}
	for _, s := range all {
		children[s.ppid] = append(children[s.ppid], s)
	}
	var out []status
	seen := map[int]bool{}
	for _, r := range roots {
		seen[r] = true
	}
	for queue := append([]int(nil), roots...); len(queue) > 0; {
		for _, c := range children[queue[0]] {
			if !seen[c.pid] {
				seen[c.pid] = true
				out = append(out, c)
				queue = append(queue, c.pid)
			}
		}
		queue = queue[1:]
	}
	return out
}

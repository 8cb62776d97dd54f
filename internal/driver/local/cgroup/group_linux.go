package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/windlass-run/windlass/internal/driver/local/proc"
	"golang.org/x/sys/unix"
)

// Group is a job's group. The zero value has no place and no processes.
type Group struct{ places []Place }

// At returns the group at places that were planned before, by any process.
func At(places []Place) *Group { return &Group{places: places} }

// IsZero reports whether the group has no place.
func (g *Group) IsZero() bool { return len(g.places) == 0 }

// Make makes the group's folders and sets its limits. An empty one that is
// there already is made anew. On an error nothing is left.
func (g *Group) Make(l Limits) (err error) {
	defer func() {
		if err != nil {
			_ = g.remove()
			err = fmt.Errorf("make cgroup: %w", err)
		}
	}()
	for _, p := range g.places {
		if p.Enable {
			on := "+" + strings.Join(p.Controllers, " +")
			if err := put(filepath.Join(filepath.Dir(p.Path), "cgroup.subtree_control"), on); err != nil {
				return err
			}
		}
		err := os.Mkdir(p.Path, 0o755)
		if errors.Is(err, fs.ErrExist) {
			if err = rmdir(p.Path); err == nil {
				err = os.Mkdir(p.Path, 0o755)
			}
		}
		if err != nil {
			return err
		}
		for _, c := range p.Controllers {
			if err := p.limit(c, l); err != nil {
				return err
			}
		}
	}
	return nil
}

const period = 100_000 // microseconds

func (p Place) limit(controller string, l Limits) error {
	file := func(name string) string { return filepath.Join(p.Path, name) }
	num := func(n int64) string { return strconv.FormatInt(n, 10) }
	switch {
	case controller == memory && l.Memory > 0 && p.V == 1:
		if err := put(file("memory.limit_in_bytes"), num(l.Memory)); err != nil {
			return err
		}
		return putIfThere(file("memory.memsw.limit_in_bytes"), num(l.Memory))
	case controller == memory && l.Memory > 0:
		if err := put(file("memory.max"), num(l.Memory)); err != nil {
			return err
		}
		return putIfThere(file("memory.swap.max"), "0")
	case controller == cpu && l.CPU > 0 && p.V == 1:
		if err := put(file("cpu.cfs_period_us"), num(period)); err != nil {
			return err
		}
		return put(file("cpu.cfs_quota_us"), num(l.CPU*period/1000))
	case controller == cpu && l.CPU > 0:
		return put(file("cpu.max"), fmt.Sprintf("%d %d", l.CPU*period/1000, period))
	case controller == pids && l.PIDs > 0 && p.V == 1:
		// The thread that starts the job is in the group meanwhile.
		return put(file("pids.max"), num(l.PIDs+1))
	case controller == pids && l.PIDs > 0:
		return put(file("pids.max"), num(l.PIDs))
	}
	return nil
}

func put(file, text string) error {
	h, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = h.WriteString(text)
	if cerr := h.Close(); err == nil {
		err = cerr
	}
	return err
}

func putIfThere(file, text string) error {
	if err := put(file, text); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Start calls start, and the process that it starts is in the group from its
// first instruction on. The calling goroutine must be locked to its thread,
// since in version 1 the thread goes into the group for that long.
func (g *Group) Start(l Limits, start func(attr *syscall.SysProcAttr) error) (err error) {
	var attr syscall.SysProcAttr
	for _, p := range g.places {
		if p.V == 2 {
			fd, err := unix.Open(p.Path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				return fmt.Errorf("open cgroup %s: %w", p.Path, err)
			}
			defer func() { _ = unix.Close(fd) }()
			attr.UseCgroupFD, attr.CgroupFD = true, fd
			continue
		}
		defer func() {
			if back := put(filepath.Join(p.Home, "tasks"), "0"); back != nil && err == nil {
				err = fmt.Errorf("leave cgroup %s: %w", p.Path, back)
			}
			if l.PIDs > 0 && slices.Contains(p.Controllers, pids) && err == nil {
				err = put(filepath.Join(p.Path, "pids.max"), strconv.FormatInt(l.PIDs, 10))
			}
		}()
		if err := put(filepath.Join(p.Path, "tasks"), "0"); err != nil {
			return fmt.Errorf("enter cgroup %s: %w", p.Path, err)
		}
	}
	return start(&attr)
}

// tracker is the place that knows all processes and can end them best.
func (g *Group) tracker() (Place, bool) {
	best := -1
	for i, p := range g.places {
		if p.V == 2 {
			return p, true
		}
		if best < 0 || slices.Contains(p.Controllers, freezer) {
			best = i
		}
	}
	if best < 0 {
		return Place{}, false
	}
	return g.places[best], true
}

// Find returns the group's processes, those of groups below it included.
func (g *Group) Find() ([]proc.Identity, error) {
	seen := map[int]bool{os.Getpid(): true}
	var out []proc.Identity
	for _, p := range g.places {
		list, err := members(p.Path)
		if err != nil {
			return nil, fmt.Errorf("list cgroup: %w", err)
		}
		for _, pid := range list {
			if seen[pid] {
				continue
			}
			seen[pid] = true
			id, err := proc.Of(pid)
			// The PID may be another's by now. If it changes hands after this
			// look, the identity is that of one who has ended.
			if err == nil && isMember(pid, filepath.Base(p.Path)) {
				out = append(out, id)
			}
		}
	}
	return out, nil
}

func isMember(pid int, name string) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if slices.Contains(strings.Split(strings.TrimSpace(line), "/"), name) {
			return true
		}
	}
	return false
}

// members returns the PIDs in a group and below; a group that is gone has none.
func members(dir string) ([]int, error) {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	var out []int
	switch {
	case errors.Is(err, unix.EOPNOTSUPP): // a threaded group; its domain lists its processes
	case err != nil:
		return nil, err
	}
	for _, w := range strings.Fields(string(b)) {
		if pid, err := strconv.Atoi(w); err == nil && pid > 0 {
			out = append(out, pid)
		}
	}
	below, err := subgroups(dir)
	if err != nil {
		return nil, err
	}
	for _, sub := range below {
		list, err := members(sub)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

func subgroups(dir string) ([]string, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range list {
		if e.IsDir() {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out, nil
}

// Kill sends SIGKILL to everything in the group, in one step where the kernel
// can, and doesn't wait. It returns how many there were.
func (g *Group) Kill() (int, error) {
	p, ok := g.tracker()
	if !ok {
		return 0, nil
	}
	list, err := g.Find()
	if err != nil || len(list) == 0 {
		return 0, err
	}
	if p.V == 2 {
		err := put(filepath.Join(p.Path, "cgroup.kill"), "1")
		if err == nil {
			return len(list), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return 0, fmt.Errorf("kill cgroup: %w", err)
		}
	}
	freeze, frozen, thawed := "cgroup.freeze", "1", "0"
	if p.V == 1 {
		freeze, frozen, thawed = "freezer.state", "FROZEN", "THAWED"
	}
	if err := put(filepath.Join(p.Path, freeze), frozen); err != nil {
		return proc.KillAll(g.Find)
	}
	// What is frozen makes no more processes, and dies when it thaws.
	n, err := proc.SignalAll(g.Find, unix.SIGKILL)
	if terr := put(filepath.Join(p.Path, freeze), thawed); err == nil && terr != nil {
		err = fmt.Errorf("thaw cgroup: %w", terr)
	}
	return n, err
}

// KillUntilGone kills until the group is empty, or ctx ends.
func (g *Group) KillUntilGone(ctx context.Context) (int, error) {
	killed := 0
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		list, err := g.Find()
		if err != nil || len(list) == 0 {
			return killed, err
		}
		n, killErr := g.Kill()
		killed += n
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return killed, errors.Join(context.Cause(ctx), killErr)
		}
	}
}

// OOMKills returns how many processes of the group were killed for memory; it
// is 0 where nobody counts.
func (g *Group) OOMKills() int64 {
	for _, p := range g.places {
		file := "memory.events"
		if p.V == 1 {
			file = "memory.oom_control"
		}
		b, err := os.ReadFile(filepath.Join(p.Path, file))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
				if v, err := strconv.ParseInt(n, 10, 64); err == nil {
					return v
				}
			}
		}
	}
	return 0
}

// Remove removes the group's folders, and waits a little for processes that
// are on their way out. Gone is success.
func (g *Group) Remove(ctx context.Context) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := g.remove()
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return err
		}
	}
}

func (g *Group) remove() error {
	var errs []error
	for _, p := range g.places {
		if err := rmdir(p.Path); err != nil {
			errs = append(errs, fmt.Errorf("remove cgroup: %w", err))
		}
	}
	return errors.Join(errs...)
}

func rmdir(dir string) error {
	below, err := subgroups(dir)
	if err != nil {
		return err
	}
	for _, sub := range below {
		if err := rmdir(sub); err != nil {
			return err
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

// Paths returns the group's folders.
func (g *Group) Paths() []string {
	out := make([]string, len(g.places))
	for i, p := range g.places {
		out[i] = p.Path
	}
	return out
}

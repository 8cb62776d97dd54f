package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// hierarchy is one of cgroup v1 that this process is in.
// https://www.kernel.org/doc/html/latest/admin-guide/cgroup-v1/cgroups.html
type hierarchy struct{ controllers, path string }

func hierarchies() ([]hierarchy, error) {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var out []hierarchy
	for line := range strings.Lines(string(data)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && f[1] != "" {
			out = append(out, hierarchy{controllers: f[1], path: f[2]})
		}
	}
	return out, nil
}

func (h hierarchy) dir() string {
	return filepath.Join("/sys/fs/cgroup", strings.TrimPrefix(h.controllers, "name="), h.path)
}

// possible refuses a machine that can't run a cluster.
func possible() error {
	if id := os.Geteuid(); id != 0 {
		return impossible(fmt.Sprintf("a cluster needs root; the effective user ID is %d", id))
	}
	for _, name := range []string{"unshare", "ip", "curl", "bash", "mount"} {
		if _, err := exec.LookPath(name); err != nil {
			return impossible(fmt.Sprintf("a cluster needs the program %s: %v", name, err))
		}
	}
	all, err := hierarchies()
	if err != nil {
		return impossible(err.Error())
	}
	for _, want := range []string{"memory", "cpu", "pids", "devices", "freezer", "cpuset"} {
		found := false
		for _, h := range all {
			for c := range strings.SplitSeq(h.controllers, ",") {
				found = found || c == want
			}
		}
		if !found {
			return impossible("a cluster needs cgroup v1 with the controller " + want + "; hosts with cgroup v2 alone aren't supported yet")
		}
	}
	return nil
}

// shares is the weight of a cluster's group against 1024 of a process outside.
const shares = 16 * 1024

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// makeGroups makes a control group below this process's own in every hierarchy, and
// notes them first, for the sweep.
func (h *home) makeGroups() error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	name := "windlass-cluster-" + filepath.Base(h.dir)
	for _, v := range all {
		if _, err := os.Stat(v.dir()); err == nil {
			h.groups = append(h.groups, filepath.Join(v.dir(), name))
		}
	}
	if err := os.WriteFile(h.groupFile(), []byte(strings.Join(h.groups, "\n")), 0o600); err != nil {
		return err
	}
	for _, dir := range h.groups {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		// The group competes as one with each process beside it, and has dozens: on a
		// loaded machine its pods would starve for minutes.
		if f := filepath.Join(dir, "cpu.shares"); exists(f) {
			if err := os.WriteFile(f, []byte(strconv.Itoa(shares)), 0); err != nil {
				return err
			}
		}
		// A new group of cpuset may use nothing.
		for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
			if data, err := os.ReadFile(filepath.Join(filepath.Dir(dir), f)); err == nil {
				if err := os.WriteFile(filepath.Join(dir, f), data, 0); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// join puts this process into a home's control groups and becomes another program,
// which makes them the root of what it sees.
func join(args []string) error {
	if len(args) < 2 {
		return errUsage
	}
	data, err := os.ReadFile((&home{dir: args[0]}).groupFile())
	if err != nil {
		return err
	}
	for _, dir := range strings.Fields(string(data)) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
			return err
		}
	}
	program, err := exec.LookPath(args[1])
	if err != nil {
		return err
	}
	// The signal of the parent's death is a thread's own, and not inherited: the thread
	// that becomes the program need not be the one that has it.
	runtime.LockOSThread()
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0); errno != 0 {
		return fmt.Errorf("ask for the signal of the parent's death: %w", errno)
	}
	return syscall.Exec(program, args[1:], os.Environ())
}

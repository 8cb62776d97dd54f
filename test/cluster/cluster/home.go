package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// home is the folder of a cluster, with what else it leaves on the machine. Its
// lock, beside it, is held as long as its up lives.
type home struct {
	dir  string
	lock *os.File
	// groups are the control groups, one in each hierarchy.
	groups []string
}

// detachedName is the folder of the one cluster that up -detach starts.
const detachedName = "up"

// root has the folders of all clusters. Sockets are in them, whose paths are
// bounded by 108 bytes.
func root() string { return filepath.Join(os.TempDir(), "windlass-cluster") }

// claim makes a home, after it has removed those whose up was killed.
func claim(detached bool) (*home, error) {
	var h *home
	err := alone(func() error {
		if err := sweep(); err != nil {
			return err
		}
		name := fmt.Sprint(os.Getpid())
		if detached {
			name = detachedName
		}
		dir := filepath.Join(root(), name)
		lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			_ = lock.Close()
			return fmt.Errorf("a cluster is up already in %s; end it by `cluster down`", dir)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			_ = lock.Close()
			return err
		}
		h = &home{dir: dir, lock: lock}
		return os.WriteFile(h.pidFile(), []byte(fmt.Sprint(os.Getpid())), 0o600)
	})
	return h, err
}

// alone does something while no other process looks at the homes.
func alone(do func() error) error {
	if err := os.MkdirAll(root(), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(root(), "homes"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	return do()
}

// sweep removes the homes that nobody holds.
func sweep() error {
	locks, err := filepath.Glob(filepath.Join(root(), "*.lock"))
	if err != nil {
		return err
	}
	for _, name := range locks {
		lock, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			_ = lock.Close()
			continue
		}
		h := &home{dir: strings.TrimSuffix(name, ".lock"), lock: lock}
		if data, err := os.ReadFile(h.groupFile()); err == nil {
			h.groups = strings.Fields(string(data))
		}
		if err := h.remove(); err != nil {
			return fmt.Errorf("what a killed cluster left: %w", err)
		}
	}
	return nil
}

func (h *home) pidFile() string   { return filepath.Join(h.dir, "pid") }
func (h *home) groupFile() string { return filepath.Join(h.dir, "cgroups") }

// remove takes away everything, the lock last. The processes have ended, or are
// about to.
func (h *home) remove() error {
	defer h.lock.Close()
	deadline := time.Now().Add(20 * time.Second)
	for {
		left := slices.DeleteFunc(slices.Clone(h.groups), removeGroup)
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("left behind: %s", strings.Join(left, " "))
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.Join(os.RemoveAll(h.dir), os.Remove(h.dir+".lock"))
}

// removeGroup removes a control group with those below it.
func removeGroup(dir string) (gone bool) {
	var all []string
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, p)
		}
		return nil // one that has just gone is what is wanted
	})
	for _, p := range slices.Backward(all) {
		_ = os.Remove(p)
	}
	_, err := os.Stat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// down ends the cluster that up -detach has started.
func down() error {
	h := &home{dir: filepath.Join(root(), detachedName)}
	data, err := os.ReadFile(h.pidFile())
	if errors.Is(err, fs.ErrNotExist) {
		return alone(sweep)
	}
	if err != nil {
		return err
	}
	var pid int
	if _, err := fmt.Sscan(string(data), &pid); err != nil {
		return fmt.Errorf("%s: %w", h.pidFile(), err)
	}
	lock, err := os.OpenFile(h.dir+".lock", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer lock.Close()
	// Whoever holds the lock is the process of that number.
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && err != syscall.ESRCH {
			return err
		}
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
			return err
		}
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_UN); err != nil {
		return err
	}
	if err := alone(sweep); err != nil {
		return err
	}
	if _, err := os.Stat(h.dir); err == nil {
		return fmt.Errorf("%s is still there", h.dir)
	}
	return nil
}

package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-run/windlass/internal/testneed"
	"github.com/windlass-run/windlass/internal/testwait"
)

const hybridMounts = `25 1 0:22 / /proc rw - proc proc rw
30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/memory rw shared:5 - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, mounts, groups string
		unified              string
		v1                   map[string]string
	}{
		{"hybrid", hybridMounts, "9:name=systemd:/a\n4:memory:/job/x\n2:cpu,cpuacct:/\n0::/u\n", "/sys/fs/cgroup/unified/u",
			map[string]string{"memory": "/sys/fs/cgroup/memory/job/x", "cpu": "/sys/fs/cgroup/cpu,cpuacct", "name=systemd": "/sys/fs/cgroup/systemd/a"}},
		{"unified", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n", "0::/user.slice/user-1000.slice/session-3.scope\n",
			"/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope", nil},
		{"a container of version 1", "40 30 0:28 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", "4:memory:/docker/abc/sub\n", "",
			map[string]string{"memory": "/sys/fs/cgroup/memory/sub"}},
		{"a container's own root", "40 30 0:28 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", "4:memory:/docker/abc\n", "",
			map[string]string{"memory": "/sys/fs/cgroup/memory"}},
		{"outside of the namespace", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/../other\n", "", nil},
		{"blank in the path", `30 25 0:26 / /sys/fs/c\040g rw - cgroup2 cgroup2 rw` + "\n", "0::/\n", "/sys/fs/c g", nil},
		{"nothing", "", "", "", nil},
		{"garbage", "x\n - \n1 2 3 4 5 6 - cgroup2\n", "::\nx\n0:\n", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := parse(c.mounts, c.groups)
			got := ""
			if h.unified != nil {
				got = h.unified.own
			}
			if got != c.unified {
				t.Errorf("version 2: got %q, want %q", got, c.unified)
			}
			for ctrl, want := range c.v1 {
				if h.v1[ctrl] == nil || h.v1[ctrl].own != want {
					t.Errorf("%s: got %+v, want %s", ctrl, h.v1[ctrl], want)
				}
			}
			if len(h.v1) > 0 && c.v1 == nil {
				t.Errorf("got %v", h.v1)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(hybridMounts, "4:memory:/job/x\n0::/u\n")
	f.Fuzz(func(_ *testing.T, mounts, groups string) { parse(mounts, groups) })
}

// unifiedTree makes folders that look like a hierarchy of version 2. A value is
// "controllers / subtree_control / procs".
func unifiedTree(t *testing.T, groups map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range groups {
		dir := filepath.Join(root, path)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		parts := strings.SplitN(text, "/", 3)
		for i, file := range []string{"cgroup.controllers", "cgroup.subtree_control", "cgroup.procs"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(strings.TrimSpace(parts[i])+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if path != "." {
			if err := os.WriteFile(filepath.Join(dir, "cgroup.type"), []byte("domain\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

// TestUnifiedPlace: a group goes as near to the caller's own as its controllers
// are to be had.
func TestUnifiedPlace(t *testing.T) {
	all := Limits{Memory: 1 << 20, CPU: 100, PIDs: 5}
	for _, c := range []struct {
		name   string
		groups map[string]string
		own    string
		limits Limits
		parent string // of the group; "-" is none
		enable bool
		lacks  string
	}{
		{"no limits: below the own group", map[string]string{".": "cpu memory pids/cpu memory pids/", "own": "cpu memory pids//7"}, "own", Limits{}, "own", false, ""},
		{"controllers of the parent", map[string]string{".": "cpu memory pids/cpu memory pids/", "own": "cpu memory pids//7"}, "own", all, ".", false, ""},
		{"a slice in between", map[string]string{".": "cpu memory pids/cpu memory pids/", "slice": "cpu memory pids/memory pids/", "slice/own": "memory pids//7"},
			"slice/own", Limits{Memory: 1 << 20}, "slice", false, ""},
		{"turned on where nobody lives", map[string]string{".": "cpu memory pids/cpu memory pids/", "slice": "cpu memory pids/memory pids/", "slice/own": "memory pids//7"},
			"slice/own", all, "slice", true, ""},
		{"turned on at the root, where processes may be", map[string]string{".": "cpu memory pids//1 2 3"}, ".", all, ".", true, ""},
		{"an empty own group", map[string]string{".": "cpu memory pids/cpu memory pids/", "own": "cpu memory pids//"}, "own", all, "own", true, ""},
		{"controllers with version 1", map[string]string{".": "hugetlb//1"}, ".", all, "-", false, "cpu memory pids"},
		{"one that is missing", map[string]string{".": "memory pids/memory pids/", "own": "memory pids//7"}, "own", all, "-", false, "cpu"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := unifiedTree(t, c.groups)
			h := &Host{unified: &hierarchy{mount: root, own: filepath.Join(root, c.own)}}
			var lacks []string
			for _, l := range h.Lacks(c.limits) {
				lacks = append(lacks, l.Controller)
				if l.Why == "" {
					t.Errorf("%s: no reason", l.Controller)
				}
			}
			if strings.Join(lacks, " ") != c.lacks {
				t.Errorf("lacks %v, want %s", lacks, c.lacks)
			}
			places, err := h.Plan("job", c.limits)
			if c.parent == "-" {
				var lack Lack
				if !errors.As(err, &lack) {
					t.Errorf("got %v, want a lack", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := filepath.Join(root, c.parent, Prefix+"job")
			if len(places) != 1 || places[0].Path != want || places[0].Enable != c.enable {
				t.Errorf("got %+v, want %s, enable %t", places, want, c.enable)
			}
		})
	}
}

// TestUnifiedMake: the limits are written as the kernel's documents say.
func TestUnifiedMake(t *testing.T) {
	root := unifiedTree(t, map[string]string{".": "cpu memory pids//1"})
	h := &Host{unified: &hierarchy{mount: root, own: root}}
	limits := Limits{Memory: 64 << 20, CPU: 1500, PIDs: 7}
	places, err := h.Plan("job", limits)
	if err != nil {
		t.Fatal(err)
	}
	// The folder's files come from the kernel; here they are made by hand.
	dir := places[0].Path
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"memory.max", "memory.swap.max", "cpu.max", "pids.max"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range places[0].Controllers {
		if err := places[0].limit(c, limits); err != nil {
			t.Fatal(err)
		}
	}
	for f, want := range map[string]string{"memory.max": "67108864", "memory.swap.max": "0", "cpu.max": "150000 100000", "pids.max": "7"} {
		if b, err := os.ReadFile(filepath.Join(dir, f)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v; want %q", f, b, err, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte("low 0\noom 3\noom_kill 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if n := At(places).OOMKills(); n != 2 {
		t.Errorf("%d kills for memory", n)
	}
}

// TestReadOnly: a hierarchy that can't be written is no place, and says why.
func TestReadOnly(t *testing.T) {
	testneed.Root(t)
	ro := t.TempDir()
	if err := syscall.Mount("tmpfs", ro, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(ro, syscall.MNT_DETACH) })
	for f, text := range map[string]string{"cgroup.procs": "", "cgroup.controllers": "memory", "cgroup.subtree_control": "memory", "tasks": ""} {
		if err := os.WriteFile(filepath.Join(ro, f), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mount("", ro, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]*Host{
		"v2": {unified: &hierarchy{mount: ro, own: ro}},
		"v1": {v1: map[string]*hierarchy{memory: {mount: ro, own: ro}}},
	} {
		if h.Kind() != "" {
			t.Errorf("%s: kind %q", name, h.Kind())
		}
		if _, err := h.Plan("x", Limits{}); !errors.Is(err, ErrNone) {
			t.Errorf("%s: got %v", name, err)
		}
		lacks := h.Lacks(Limits{Memory: 1 << 20})
		if len(lacks) != 1 || !strings.Contains(lacks[0].Why, "read-only") {
			t.Errorf("%s: got %v", name, lacks)
		}
	}
}

// inGroup runs a shell in a new group and returns it with its process.
func inGroup(t *testing.T, h *Host, l Limits, script string) (*Group, int) {
	t.Helper()
	places, err := h.Plan(fmt.Sprintf("test-%d", time.Now().UnixNano()), l)
	if err != nil {
		t.Fatal(err)
	}
	g := At(places)
	if err := g.Make(l); err != nil {
		t.Fatal(err)
	}
	pid := 0
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := g.KillUntilGone(ctx); err != nil {
			t.Error(err)
		}
		_, _ = syscall.Wait4(pid, nil, 0, nil)
		if err := g.Remove(ctx); err != nil {
			t.Error(err)
		}
	})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = g.Start(l, func(attr *syscall.SysProcAttr) error {
		attr.Setsid = true
		var err error
		pid, err = syscall.ForkExec("/bin/sh", []string{"sh", "-c", script}, &syscall.ProcAttr{Env: []string{"PATH=/usr/bin:/bin"}, Files: []uintptr{0, 1, 2}, Sys: attr})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return g, pid
}

// TestGroups: in both versions a group names what a daemon makes of itself, and
// one blow ends all of it.
func TestGroups(t *testing.T) {
	testneed.Root(t)
	testneed.Cgroup(t)
	host, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]*Host{"v1": host.Without(2), "v2": host.Without(1)} {
		t.Run(name, func(t *testing.T) {
			if h.Kind() == "" {
				t.Skipf("this machine has no cgroup %s", name)
			}
			g, pid := inGroup(t, h, Limits{}, "setsid sh -c 'sleep 1000 & wait' & sleep 1000 & wait")
			testwait.Until(t, 20*time.Second, "four processes", func() bool {
				list, err := g.Find()
				if err != nil {
					t.Fatal(err)
				}
				return len(list) == 4
			})
			var ws syscall.WaitStatus
			if n, err := g.Kill(); err != nil || n != 4 {
				t.Errorf("killed %d, %v", n, err)
			}
			if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil || ws.Signal() != syscall.SIGKILL {
				t.Errorf("ended with %v, %v", ws, err)
			}
			testwait.Until(t, 20*time.Second, "empty group", func() bool {
				list, err := g.Find()
				return err == nil && len(list) == 0
			})
			// A group that is gone is empty, and removed.
			if err := g.Remove(t.Context()); err != nil {
				t.Error(err)
			}
			if list, err := g.Find(); err != nil || len(list) != 0 {
				t.Errorf("gone: %v, %v", list, err)
			}
			if n, err := g.Kill(); err != nil || n != 0 {
				t.Errorf("gone: %d, %v", n, err)
			}
			if err := g.Remove(t.Context()); err != nil {
				t.Errorf("gone: %v", err)
			}
		})
	}
}

// TestThreadComesBack: the thread that starts a job of version 1 is back in its
// own group, and the limit is what was asked for.
func TestThreadComesBack(t *testing.T) {
	testneed.Root(t)
	if testneed.Cgroup(t) != 1 {
		t.Skip("this machine has version 2 alone")
	}
	host, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	g, _ := inGroup(t, host.Without(2), Limits{PIDs: 5, Memory: 64 << 20, CPU: 500}, "sleep 1000")
	b, err := os.ReadFile("/proc/self/task/" + fmt.Sprint(os.Getpid()) + "/cgroup")
	if err != nil || strings.Contains(string(b), Prefix) {
		t.Errorf("%s, %v", b, err)
	}
	tasks, err := filepath.Glob("/proc/self/task/*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range tasks {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), Prefix+"test") {
			t.Errorf("%s is in the group: %s", f, b)
		}
	}
	for _, p := range g.places {
		for file, want := range map[string]string{"pids.max": "5", "memory.limit_in_bytes": "67108864", "memory.memsw.limit_in_bytes": "67108864", "cpu.cfs_quota_us": "50000"} {
			if b, err := os.ReadFile(filepath.Join(p.Path, file)); err == nil && strings.TrimSpace(string(b)) != want {
				t.Errorf("%s: %s, want %s", filepath.Join(p.Path, file), b, want)
			}
		}
	}
}

// TestMakeAgain: what an attempt that was cut short left is made anew.
func TestMakeAgain(t *testing.T) {
	testneed.Root(t)
	testneed.Cgroup(t)
	host, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	places, err := host.Plan("test-again", Limits{PIDs: 5})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := At(places).Make(Limits{PIDs: 5}); err != nil {
			t.Fatal(err)
		}
	}
	if err := At(places).Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
}

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Host is what this machine offers to the calling process.
type Host struct {
	unified *hierarchy
	// v1 has the hierarchies of version 1 by controller.
	v1 map[string]*hierarchy
}

// hierarchy is a mounted hierarchy.
type hierarchy struct {
	// mount is where it is mounted, own the caller's own group below it.
	mount, own string
}

// Detect looks at what the kernel has mounted and where the caller stands. It
// changes nothing. A machine without control groups is no error.
func Detect() (*Host, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("detect cgroups: %w", err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if errors.Is(err, os.ErrNotExist) {
		return &Host{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("detect cgroups: %w", err)
	}
	return parse(string(mounts), string(own)), nil
}

// Without returns the host as if it had no hierarchies of that version.
func (h *Host) Without(version int) *Host {
	out := &Host{unified: h.unified, v1: h.v1}
	switch version {
	case 1:
		out.v1 = nil
	case 2:
		out.unified = nil
	}
	return out
}

// parse reads proc_pid_mountinfo(5) and proc_pid_cgroup(5).
func parse(mountinfo, membership string) *Host {
	own := map[string]string{} // by controller; "" is version 2
	for line := range strings.Lines(membership) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			own[c] = f[2]
		}
	}
	h := &Host{v1: map[string]*hierarchy{}}
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 6 || len(g) < 3 {
			continue
		}
		root, mount := unescape(f[3]), unescape(f[4])
		switch g[0] {
		case "cgroup2":
			if p, ok := place(mount, root, own[""]); ok && h.unified == nil {
				h.unified = &hierarchy{mount: mount, own: p}
			}
		case "cgroup":
			for c := range strings.SplitSeq(g[2], ",") {
				at, known := own[c]
				if !known || h.v1[c] != nil {
					continue
				}
				if p, ok := place(mount, root, at); ok {
					h.v1[c] = &hierarchy{mount: mount, own: p}
				}
			}
		}
	}
	return h
}

// place returns the folder of a group. A container may see a part of the
// hierarchy alone, or a group that lies outside of what it sees.
func place(mount, root, group string) (string, bool) {
	if group == "" || strings.HasPrefix(group, "/..") {
		return "", false
	}
	if root != "/" {
		switch {
		case group == root:
			group = "/"
		case strings.HasPrefix(group, root+"/"):
			group = group[len(root):]
		default:
			// The container's own namespace counts from root already.
		}
	}
	return filepath.Join(mount, group), true
}

// unescape undoes mountinfo's octal escapes.
func unescape(s string) string {
	for _, p := range [][2]string{{`\040`, " "}, {`\011`, "\t"}, {`\012`, "\n"}, {`\134`, `\`}} {
		s = strings.ReplaceAll(s, p[0], p[1])
	}
	return s
}

// writable says why a group can't be made in a folder, or nothing.
func writable(dir, file string) string {
	for _, p := range []string{dir, filepath.Join(dir, file)} {
		err := unix.Access(p, unix.W_OK)
		switch {
		case errors.Is(err, unix.EROFS):
			return p + " is mounted read-only"
		case errors.Is(err, unix.EACCES):
			return p + " belongs to another user"
		case err != nil:
			return fmt.Sprintf("%s: %v", p, err)
		}
	}
	return ""
}

func words(file string) []string {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}

// unifiedPlace returns the parent that a group with these controllers can be
// made in: the nearest to the caller's own group that has them.
func (h *Host) unifiedPlace(controllers []string) (parent string, enable bool, why string) {
	if h.unified == nil {
		return "", false, "no cgroup of version 2 is mounted"
	}
	has := func(file string) bool {
		have := words(file)
		return !slices.ContainsFunc(controllers, func(c string) bool { return !slices.Contains(have, c) })
	}
	for dir := h.unified.own; ; dir = filepath.Dir(dir) {
		if w := writable(dir, "cgroup.procs"); w != "" {
			if why == "" {
				why = w
			}
			return "", false, why
		}
		if has(filepath.Join(dir, "cgroup.subtree_control")) {
			return dir, false, ""
		}
		switch {
		case !has(filepath.Join(dir, "cgroup.controllers")):
			why = dir + " has no such controller"
		case !isRoot(dir) && len(words(filepath.Join(dir, "cgroup.procs"))) > 0:
			// Version 2 allows controllers for a group's children only where
			// the group itself has no processes.
			why = dir + " has processes of its own"
		default:
			return dir, true, ""
		}
		if dir == h.unified.mount || dir == "/" || dir == "." {
			return "", false, why
		}
	}
}

// isRoot reports whether a folder is the root of the hierarchy itself, which
// alone has no cgroup.type.
func isRoot(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, "cgroup.type"))
	return errors.Is(err, os.ErrNotExist)
}

// v1Place returns the caller's own group in a controller's hierarchy.
func (h *Host) v1Place(controller string) (own, why string) {
	v := h.v1[controller]
	if v == nil {
		return "", "it is mounted nowhere"
	}
	if w := writable(v.own, "tasks"); w != "" {
		return "", w
	}
	return v.own, ""
}

// Lacks returns the limits that can't be set here.
func (h *Host) Lacks(l Limits) []Lack {
	_, lacks := h.plan("x", l)
	return lacks
}

// Kind names what ends the whole tree of a job here: "cgroup v2", "cgroup v1",
// or nothing.
func (h *Host) Kind() string {
	places, _ := h.plan("x", Limits{})
	if len(places) == 0 {
		return ""
	}
	return fmt.Sprintf("cgroup v%d", places[0].V)
}

// Plan returns where a group of that name would be made. It changes nothing.
// Without a place to make it in, it is ErrNone; a limit that can't be set is a
// Lack.
func (h *Host) Plan(name string, l Limits) ([]Place, error) {
	places, lacks := h.plan(Prefix+name, l)
	if len(lacks) > 0 {
		return nil, fmt.Errorf("plan cgroup: %w", lacks[0])
	}
	if len(places) == 0 {
		return nil, fmt.Errorf("plan cgroup: %w", ErrNone)
	}
	return places, nil
}

func (h *Host) plan(name string, l Limits) (places []Place, lacks []Lack) {
	// What version 2 can bound it does; a controller that version 1 has taken
	// is not in version 2 (hybrid machines).
	var inUnified, rest []string
	whys := map[string]string{}
	for _, c := range l.controllers() {
		if _, _, why := h.unifiedPlace([]string{c}); why != "" {
			whys[c], rest = why, append(rest, c)
		} else {
			inUnified = append(inUnified, c)
		}
	}
	if parent, enable, why := h.unifiedPlace(inUnified); why == "" {
		places = append(places, Place{Path: path.Join(parent, name), V: 2, Controllers: inUnified, Enable: enable})
	} else {
		// Each alone can be had, but not in one group.
		for _, c := range inUnified {
			whys[c], rest = why, append(rest, c)
		}
	}
	add := func(c string) string {
		own, why := h.v1Place(c)
		if why != "" {
			return why
		}
		p := path.Join(own, name)
		for i := range places {
			if places[i].Path == p { // mounted together, as cpu and cpuacct
				places[i].Controllers = append(places[i].Controllers, c)
				return ""
			}
		}
		places = append(places, Place{Path: p, V: 1, Controllers: []string{c}, Home: own})
		return ""
	}
	for _, c := range rest {
		if why := add(c); why != "" {
			if h.v1[c] != nil {
				whys[c] = why
			}
			lacks = append(lacks, Lack{Controller: c, Why: whys[c]})
		}
	}
	if !slices.ContainsFunc(places, func(p Place) bool { return p.V == 2 || slices.Contains(p.Controllers, freezer) }) {
		for _, c := range []string{freezer, pids, memory, cpu} {
			if add(c) == "" {
				break
			}
		}
	}
	return places, lacks
}

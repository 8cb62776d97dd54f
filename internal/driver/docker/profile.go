package docker

import (
	"fmt"
	"path"
	"strings"

	"github.com/moby/moby/api/types/container"

	"github.com/windlass-run/windlass/sdk"
)

// What the profile strict gives.
const (
	strictMemory = 256 << 20
	strictCPU    = 500
	strictPIDs   = 64
	strictTmp    = 64 << 20
	strictShm    = 64 << 20
	standardPIDs = 1024
	tmpPath      = "/tmp"
)

const networkNone = "none"

// profile is one named set of security settings. None of them gives a
// container more than the engine's own defaults do.
type profile struct {
	name sdk.Profile
	// named: the user asked for it, so that nothing may loosen it.
	named bool
}

func profileOf(s sdk.JobSpec) profile {
	if s.Profile == sdk.ProfileUnset {
		return profile{name: sdk.ProfileStandard}
	}
	return profile{name: s.Profile, named: true}
}

// fit fills in what the user left unset, so that the request shows it.
func (f profile) fit(s *sdk.JobSpec) []sdk.Fitted {
	var out []sdk.Fitted
	why := "profile " + string(f.name)
	set := func(field string, v *int64, value int64) {
		if *v == 0 {
			*v = value
			out = append(out, sdk.Fitted{Field: field, Value: fmt.Sprint(value), Why: why})
		}
	}
	switch f.name {
	case sdk.ProfileStrict:
		set("memory", &s.Memory, strictMemory)
		set("cpu", &s.CPU, strictCPU)
		set("pids", &s.PIDs, strictPIDs)
		if s.Network == "" {
			s.Network = networkNone
			out = append(out, sdk.Fitted{Field: "network", Value: networkNone, Why: why})
		}
	case sdk.ProfileStandard:
		set("pids", &s.PIDs, standardPIDs)
	}
	return out
}

// apply sets what no field of a spec speaks of.
func (f profile) apply(h *container.HostConfig, s sdk.JobSpec) {
	switch f.name {
	case sdk.ProfileStrict:
		h.CapDrop = []string{"ALL"}
		h.ReadonlyRootfs = true
		h.SecurityOpt = []string{"no-new-privileges"}
		for _, m := range s.Mounts {
			if path.Clean(m.Target) == tmpPath {
				return
			}
		}
		h.Tmpfs = map[string]string{tmpPath: fmt.Sprintf("rw,noexec,nosuid,nodev,mode=1777,size=%d", strictTmp)}
	case sdk.ProfileStandard:
		h.SecurityOpt = []string{"no-new-privileges"}
	}
}

// loosened returns what in a spec would take away from a profile that the user
// named. Tightening it further is fine.
func (f profile) loosened(s sdk.JobSpec, o options, socket string) []sdk.Problem {
	if !f.named || f.name == sdk.ProfilePermissive {
		return nil
	}
	var ps []sdk.Problem
	bad := func(field, value, format string, args ...any) {
		ps = append(ps, sdk.Problem{Field: field, Value: value, Code: sdk.InvalidArgument,
			Message: fmt.Sprintf("the profile %s doesn't allow it: ", f.name) + fmt.Sprintf(format, args...)})
	}
	above := func(field string, v, most int64, words func(int64) string) {
		if v > most {
			bad(field, fmt.Sprint(v), "at most %s", words(most))
		}
	}
	if len(o.CapAdd) > 0 {
		bad("options.cap_add", strings.Join(o.CapAdd, ","), "it adds no capabilities")
	}
	if o.Runtime != "" {
		bad("options.runtime", o.Runtime, "another runtime may isolate less")
	}
	for i, m := range s.Mounts {
		if m.Type == sdk.MountBind && socket != "" && covers(m.Source, socket) {
			bad(fmt.Sprintf("mounts[%d].source", i), m.Source, "it holds the engine's socket, which gives the whole machine")
		}
	}
	if f.name == sdk.ProfileStandard {
		above("pids", s.PIDs, standardPIDs, whole)
		if n := s.Network; n == "host" || strings.HasPrefix(n, "container:") {
			bad("network", n, "the job has a network of its own")
		}
		return ps
	}
	above("memory", s.Memory, strictMemory, size)
	above("cpu", s.CPU, strictCPU, cores)
	above("pids", s.PIDs, strictPIDs, whole)
	above("options.shm_size", o.ShmSize, strictShm, size)
	if s.Network != "" && s.Network != networkNone {
		bad("network", s.Network, "the job has none")
	}
	if s.GPU > 0 {
		bad("gpu", fmt.Sprint(s.GPU), "it adds no devices")
	}
	if len(o.Ulimits) > 0 {
		bad("options.ulimits", o.Ulimits[0].Name, "limits stay the engine's")
	}
	for i, m := range s.Mounts {
		switch {
		case m.Type == sdk.MountTmpfs && (m.Size == 0 || m.Size > strictTmp):
			bad(fmt.Sprintf("mounts[%d].size", i), fmt.Sprint(m.Size), "a tmpfs has a size, of %s at most", size(strictTmp))
		case m.Type != sdk.MountTmpfs && !m.ReadOnly:
			bad(fmt.Sprintf("mounts[%d].read_only", i), "false", "nothing outside is writable")
		}
	}
	return ps
}

// covers reports whether a folder that is mounted holds a path.
func covers(dir, file string) bool {
	dir = path.Clean(dir)
	for _, p := range []string{file, strings.TrimPrefix(file, "/var")} {
		if p == dir || dir == "/" || strings.HasPrefix(p, dir+"/") {
			return true
		}
	}
	return false
}

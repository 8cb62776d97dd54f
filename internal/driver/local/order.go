//go:build linux || darwin

package local

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/internal/driver/local/attempt"
	"github.com/windlass-run/windlass/sdk"
)

// order brings together what the launch says, what the job inherits and the
// secrets' values. It stays in memory.
func (s *submission) order(ctx context.Context) (attempt.Order, error) {
	o := attempt.Order{V: attempt.Version, Path: string(s.folder), ID: s.r.Launch.AttemptID, Dir: s.dir(), User: s.req.User,
		Grace: s.req.Grace, Deadline: s.req.Deadline, MaxOutput: s.req.MaxOutput, Limits: s.req.Limits, NoCgroup: s.req.NoCgroup}
	if o.MaxOutput <= 0 {
		o.MaxOutput = defaultMaxOutput
	}
	for _, a := range s.req.Args {
		o.Args = append(o.Args, []byte(a))
	}
	secrets := map[string][]byte{}
	for name, ref := range s.r.Launch.Secrets {
		if s.p.secrets == nil {
			return o, sdk.Errorf(sdk.FailedPrecondition, "resolve secret", "%s: nobody here can resolve secrets", name)
		}
		v, err := s.p.secrets.ResolveSecret(ctx, ref)
		if err != nil {
			return o, fmt.Errorf("secret %s: %w", name, err)
		}
		if bytes.IndexByte(v.Reveal(), 0) >= 0 {
			return o, sdk.Errorf(sdk.InvalidArgument, "deliver secret", "%s has a NUL byte, which no environment can hold", name)
		}
		secrets[name] = v.Reveal()
	}
	o.Env = s.environment(o.Dir, secrets)
	return o, nil
}

// dir is the job's folder.
func (s *submission) dir() string {
	base := "/"
	if a := s.r.Ambient; a != nil && a.Dir != "" {
		base = a.Dir
	}
	if s.req.Dir == "" {
		return base
	}
	if filepath.IsAbs(s.req.Dir) {
		return s.req.Dir
	}
	return filepath.Join(base, s.req.Dir)
}

// ownPrefix starts the variables that are ours and inherited by no job.
const ownPrefix = "WINDLASS_"

// environment is, from weak to strong: what the submitter has, what follows
// from folder and user, what the spec says, the secrets, and our marks.
func (s *submission) environment(dir string, secrets map[string][]byte) [][]byte {
	var out [][]byte
	at := map[string]int{}
	set := func(name string, value []byte) {
		e := append([]byte(name+"="), value...)
		if i, ok := at[name]; ok {
			out[i] = e
			return
		}
		at[name] = len(out)
		out = append(out, e)
	}
	if a := s.r.Ambient; a != nil {
		for _, e := range a.Env {
			name, value, ok := strings.Cut(string(e), "=")
			if ok && name != "" && !strings.HasPrefix(name, ownPrefix) && bytes.IndexByte(e, 0) < 0 {
				set(name, []byte(value))
			}
		}
	} else {
		set("PATH", []byte("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"))
	}
	set("PWD", []byte(dir))
	if u := s.req.User; u != nil {
		set("USER", []byte(u.Name))
		set("LOGNAME", []byte(u.Name))
		home := u.Home
		if home == "" {
			home = "/"
		}
		set("HOME", []byte(home))
	}
	for _, name := range sorted(s.req.Env) {
		set(name, []byte(s.req.Env[name]))
	}
	for _, name := range sorted(secrets) {
		set(name, secrets[name])
	}
	set(attemptVariable, []byte(s.r.Launch.AttemptID.String()))
	set(runVariable, []byte(s.r.Launch.RunID.String()))
	return out
}

func sorted[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

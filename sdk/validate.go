package sdk

import (
	"cmp"
	"fmt"
	"path"
	"sort"
	"strings"
	"time"
	"unicode/utf8"
)

// Problem is one reason why a spec can't run on a provider. It names the
// field and the value as the user set them.
type Problem struct {
	Field string `json:"field"`
	// Value is what was set, as JobSpec.Value writes it: thousandths of a core,
	// bytes.
	Value   string `json:"value,omitzero"`
	Message string `json:"message"`
	// Code is InvalidArgument for what no backend takes, FailedPrecondition
	// for what this target lacks at the moment, Unimplemented for what this
	// backend can't do.
	Code Code `json:"code,omitzero"`
}

// String returns "field VALUE: message".
func (p Problem) String() string {
	if p.Value == "" {
		return p.Field + ": " + p.Message
	}
	return fmt.Sprintf("%s %q: %s", p.Field, p.Value, p.Message)
}

// Problems are several, as the cause of one Error: errors.As finds them there.
type Problems []Problem

// Error returns them in one line.
func (ps Problems) Error() string { return JoinProblems(ps) }

// ValidateSpec returns what no backend would take: every problem at once, in
// the order of the fields' names. It reads nothing outside the spec.
func ValidateSpec(s JobSpec) []Problem {
	var ps []Problem
	bad := func(field, value, format string, args ...any) {
		ps = append(ps, Problem{Field: field, Value: value, Message: fmt.Sprintf(format, args...), Code: InvalidArgument})
	}
	nul := func(field, v string) {
		if i := strings.IndexByte(v, 0); i >= 0 {
			bad(field, "", "has a NUL byte at position %d, which no process can take", i)
		}
	}
	if s.V > SpecVersion {
		bad("v", fmt.Sprint(s.V), "this program reads specs up to version %d", SpecVersion)
	}
	for field, list := range map[string]Argv{"entrypoint": s.Entrypoint, "args": s.Args, "image_entrypoint": s.ImageEntrypoint} {
		for i, a := range list {
			nul(fmt.Sprintf("%s[%d]", field, i), a)
		}
	}
	if len(s.Entrypoint) > 0 && s.Entrypoint[0] == "" {
		bad("entrypoint[0]", "", "is empty; a command needs a name")
	}
	for k, v := range s.Env {
		if msg := checkEnvName(k); msg != "" {
			bad("env", k, "%s", msg)
		}
		nul("env."+k, v)
	}
	for k, ref := range s.Secrets {
		if msg := checkSecretName(k); msg != "" {
			bad("secrets", k, "%s", msg)
		}
		if _, ok := s.Env[k]; ok {
			bad("secrets", k, "is set in env too; keep one of them")
		}
		if _, err := ParseSecretRef(string(ref)); err != nil {
			bad("secrets."+k, string(ref), "%v", err)
		}
	}
	for field, v := range map[string]string{"name": s.Name, "image": s.Image, "workdir": s.Workdir, "user": s.User, "network": s.Network} {
		nul(field, v)
		if !utf8.ValidString(v) {
			bad(field, "", "is not UTF-8")
		}
	}
	for field, v := range map[string]int64{"cpu": s.CPU, "memory": s.Memory, "gpu": s.GPU, "ephemeral_storage": s.EphemeralStorage,
		"pids": s.PIDs, "retries": int64(s.Retries), "timeout": int64(s.Timeout), "start_timeout": int64(s.StartTimeout), "ttl": int64(s.TTL)} {
		if v < 0 {
			bad(field, fmt.Sprint(v), "is negative")
		}
	}
	if s.TTL%time.Second != 0 {
		bad("ttl", s.TTL.String(), "is not in whole seconds, and backends keep nothing finer")
	}
	if s.Grace != nil && *s.Grace < 0 {
		bad("grace", s.Grace.String(), "is negative")
	}
	if s.Retries > MaxRetries {
		bad("retries", fmt.Sprint(s.Retries), "at most %d", MaxRetries)
	}
	for k, v := range s.Labels {
		if k == "" {
			bad("labels", k, "a label needs a name")
		}
		if strings.HasPrefix(k, LabelPrefix) {
			bad("labels", k, "names that start with %s are ours", LabelPrefix)
		}
		nul("labels."+k, v)
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			bad("labels", k, "is not UTF-8")
		}
	}
	ps = append(ps, validateMounts(s)...)
	switch s.Stdin {
	case StdinNone, StdinAttached, StdinSpooled:
	default:
		bad("stdin", string(s.Stdin), "is none of attached, spooled")
	}
	if s.Stdin == StdinAttached && s.Retries > 0 {
		bad("stdin", string(s.Stdin), "can't be read again for a retry; spool it")
	}
	switch s.Profile {
	case ProfileUnset, ProfileStrict, ProfileStandard, ProfilePermissive:
	default:
		bad("profile", string(s.Profile), "is none of strict, standard, permissive")
	}
	sort.SliceStable(ps, func(i, j int) bool {
		a, b := ps[i], ps[j]
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Message, b.Message)) < 0
	})
	return ps
}

// MaxRetries bounds JobSpec.Retries.
const MaxRetries = 100

func validateMounts(s JobSpec) []Problem {
	var ps []Problem
	bad := func(field, value, format string, args ...any) {
		ps = append(ps, Problem{Field: field, Value: value, Message: fmt.Sprintf(format, args...), Code: InvalidArgument})
	}
	seen := map[string]bool{}
	for i, m := range s.Mounts {
		field := fmt.Sprintf("mounts[%d]", i)
		if strings.ContainsRune(m.Source+m.Target, 0) {
			bad(field, "", "has a NUL byte")
		}
		if !utf8.ValidString(m.Source + m.Target) {
			bad(field, m.Target, "is not UTF-8")
		}
		switch m.Type {
		case MountBind:
			if !path.IsAbs(m.Source) {
				bad(field+".source", m.Source, "a bind mount needs an absolute path")
			}
		case MountVolume:
			if m.Source == "" || strings.Contains(m.Source, "/") {
				bad(field+".source", m.Source, "a volume needs a name")
			}
		case MountTmpfs:
			if m.Source != "" {
				bad(field+".source", m.Source, "a tmpfs has no source")
			}
		default:
			bad(field+".type", string(m.Type), "is none of bind, volume, tmpfs")
		}
		if !path.IsAbs(m.Target) || path.Clean(m.Target) == "/" {
			bad(field+".target", m.Target, "needs an absolute path below /")
		}
		if m.Size < 0 || (m.Size > 0 && m.Type != MountTmpfs) {
			bad(field+".size", fmt.Sprint(m.Size), "only a tmpfs has a size, and it is positive")
		}
		if t := path.Clean(m.Target); seen[t] {
			bad(field+".target", m.Target, "is mounted twice")
		} else {
			seen[t] = true
		}
	}
	total := 0
	for i, f := range s.Files {
		field := fmt.Sprintf("files[%d]", i)
		total += len(f.Data)
		if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || f.Path == "/" || strings.ContainsRune(f.Path, 0) {
			bad(field+".path", f.Path, "needs a clean absolute path")
		}
		if !utf8.ValidString(f.Path) {
			bad(field+".path", f.Path, "is not UTF-8")
		}
		if f.Mode < 0 || f.Mode > 0o777 {
			bad(field+".mode", fmt.Sprintf("%o", f.Mode), "permission bits only")
		}
		if seen[f.Path] {
			bad(field+".path", f.Path, "is set twice")
		}
		seen[f.Path] = true
	}
	if total > MaxInputBytes {
		bad("files", fmt.Sprintf("%d bytes", total), "at most %d bytes in all; mount a folder instead", MaxInputBytes)
	}
	return ps
}

func checkEnvName(k string) string {
	switch {
	case k == "":
		return "a variable needs a name"
	case strings.ContainsAny(k, "=\x00"):
		return "a variable's name has no = and no NUL"
	case !utf8.ValidString(k):
		return "a variable's name is UTF-8"
	}
	return ""
}

// checkSecretName keeps secrets' names legal as variables and as file names.
func checkSecretName(k string) string {
	if k == "" || len(k) > 255 {
		return "a secret's name has 1 to 255 characters"
	}
	for i := 0; i < len(k); i++ {
		c := k[i]
		ok := c == '_' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || i > 0 && c >= '0' && c <= '9'
		if !ok {
			return "a secret's name has letters, digits and _ only, and doesn't start with a digit"
		}
	}
	return ""
}

package sdk

import (
	"encoding"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxTarget bounds a target's text form, in bytes.
const MaxTarget = 1024

// Target names a live workload: PROVIDER/PATH in text.
type Target struct {
	// Provider is the configured name of the provider; it has no slash.
	Provider string
	// Path is the workload's own on that provider.
	Path WorkloadPath
}

// WorkloadPath names a workload on its provider: segments with a slash between
// them, whose number and meaning are the kind's own (SERVICE on Compose,
// NAMESPACE/KIND/NAME on Kubernetes). Only the driver takes it apart.
type WorkloadPath string

var (
	_ fmt.Stringer             = Target{}
	_ encoding.TextMarshaler   = Target{}
	_ encoding.TextUnmarshaler = (*Target)(nil)
)

// ParseTarget reads PROVIDER/PATH; what doesn't fit is InvalidArgument.
// String gives back exactly what was read.
func ParseTarget(s string) (Target, error) {
	provider, path, ok := strings.Cut(s, "/")
	t := Target{Provider: provider, Path: WorkloadPath(path)}
	if !ok {
		return Target{}, badTarget(s, "it has no slash")
	}
	if err := t.Check(); err != nil {
		return Target{}, err
	}
	return t, nil
}

// Check returns InvalidArgument for a target that ParseTarget wouldn't return.
func (t Target) Check() error {
	if why := badSegment(t.Provider); why != "" {
		return badTarget(t.String(), "the provider's name "+why)
	}
	if strings.Contains(t.Provider, "/") {
		return badTarget(t.String(), "the provider's name has a slash")
	}
	if len(t.String()) > MaxTarget {
		return badTarget(t.String()[:40]+"...", fmt.Sprintf("it is longer than %d bytes", MaxTarget))
	}
	for _, seg := range t.Path.Segments() {
		if why := badSegment(seg); why != "" {
			return badTarget(t.String(), "a segment of the path "+why)
		}
	}
	return nil
}

// String returns PROVIDER/PATH.
func (t Target) String() string { return t.Provider + "/" + string(t.Path) }

// IsZero reports whether t names nothing.
func (t Target) IsZero() bool { return t == Target{} }

// MarshalText implements encoding.TextMarshaler.
func (t Target) MarshalText() ([]byte, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	return []byte(t.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler, as ParseTarget.
func (t *Target) UnmarshalText(b []byte) error {
	v, err := ParseTarget(string(b))
	if err == nil {
		*t = v
	}
	return err
}

// Segments returns the parts between slashes.
func (p WorkloadPath) Segments() []string { return strings.Split(string(p), "/") }

// Name returns the last segment: what people call the workload.
func (p WorkloadPath) Name() string { return string(p[strings.LastIndexByte(string(p), '/')+1:]) }

// Check returns InvalidArgument for a path that no listing may give.
func (p WorkloadPath) Check() error { return Target{Provider: "p", Path: p}.Check() }

// JoinPath returns the path of these segments. A segment that is empty, or that
// has a slash or a character that no path may have, is InvalidArgument.
func JoinPath(segments ...string) (WorkloadPath, error) {
	p := WorkloadPath(strings.Join(segments, "/"))
	if len(p.Segments()) != len(segments) {
		return "", badTarget(string(p), "a segment of the path has a slash")
	}
	return p, p.Check()
}

// badSegment says why a segment can't stand in a target. White space is refused
// since a listing's columns and a shell's words are told apart by it.
func badSegment(s string) string {
	switch {
	case s == "":
		return "is empty"
	case s == "." || s == "..":
		return "is " + s
	case !utf8.ValidString(s):
		return "is not UTF-8"
	}
	for _, r := range s {
		if unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar {
			return fmt.Sprintf("has the character %q", r)
		}
	}
	return ""
}

func badTarget(s, why string) error {
	return &Error{Code: InvalidArgument, Op: "parse target", Field: "target", ID: "svc.bad-target",
		Remedy: "write PROVIDER/PATH as `windlass svc ls` prints it", Err: fmt.Errorf("%q: %s", s, why)}
}

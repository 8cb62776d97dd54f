package sdk

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Redacted stands wherever a secret value would.
const Redacted = "[redacted]"

// SecretRef is a reference such as secret://env/TOKEN. It is not secret.
type SecretRef string

// ParsedSecretRef is the parts of secret://SCHEME/PATH[#KEY][?version=V].
type ParsedSecretRef struct {
	Scheme, Path, Key, Version string
}

// ParseSecretRef reads a reference; what doesn't fit is InvalidArgument.
func ParseSecretRef(s string) (ParsedSecretRef, error) {
	var p ParsedSecretRef
	fail := func(format string, args ...any) (ParsedSecretRef, error) {
		return ParsedSecretRef{}, &Error{Code: InvalidArgument, Op: "parse secret reference",
			Remedy: "write secret://SCHEME/PATH[#KEY][?version=V]", Err: fmt.Errorf(format, args...)}
	}
	rest, ok := strings.CutPrefix(s, "secret://")
	if !ok {
		// The text may be the secret itself, so it is not shown.
		return fail("a reference starts with secret://")
	}
	if p.Scheme, rest, ok = strings.Cut(rest, "/"); !ok || p.Scheme == "" {
		return fail("no scheme")
	}
	for _, c := range p.Scheme {
		if c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return fail("scheme %q has letters, digits and - only", p.Scheme)
		}
	}
	rest, query, hasQuery := strings.Cut(rest, "?")
	rest, p.Key, ok = strings.Cut(rest, "#")
	if ok && p.Key == "" {
		return fail("the key behind # is empty")
	}
	if hasQuery {
		q, err := url.ParseQuery(query)
		if err != nil {
			return fail("bad query: %w", err)
		}
		for k, v := range q {
			if k != "version" || len(v) != 1 || v[0] == "" {
				return fail("only ?version=V may follow, found %q", k)
			}
			p.Version = v[0]
		}
	}
	if p.Path = rest; p.Path == "" {
		return fail("no path")
	}
	if !utf8.ValidString(s) {
		return fail("is not UTF-8")
	}
	for _, c := range s + p.Version {
		if c < 0x20 || c == 0x7f {
			return fail("has a control character")
		}
	}
	return p, nil
}

// SecretValue is a resolved secret. Every way of printing or encoding it gives
// [redacted]; only Reveal gives the bytes.
type SecretValue struct {
	// A function, since fmt shows what unexported fields hold, in a struct that
	// holds a SecretValue in turn, without asking Format, and follows pointers.
	reveal func() []byte
}

// NewSecretValue wraps bytes; it keeps them without a copy.
func NewSecretValue(b []byte) SecretValue {
	return SecretValue{reveal: func() []byte { return b }}
}

// Reveal returns the bytes. The caller sends them to the backend and nowhere else.
func (s SecretValue) Reveal() []byte {
	if s.reveal == nil {
		return nil
	}
	return s.reveal()
}

// String implements fmt.Stringer.
func (SecretValue) String() string { return Redacted }

// GoString implements fmt.GoStringer.
func (SecretValue) GoString() string { return Redacted }

// Format implements fmt.Formatter, so that no verb prints the bytes.
func (SecretValue) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(Redacted)) }

// MarshalText implements encoding.TextMarshaler.
func (SecretValue) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// SecretResolver turns references into values.
type SecretResolver interface {
	// ResolveSecret returns NotFound for what doesn't exist and Unimplemented
	// for an unknown scheme. No error holds a value.
	ResolveSecret(ctx context.Context, ref SecretRef) (SecretValue, error)
}

// Package secret turns references such as secret://env/TOKEN into values, and
// keeps the values out of sight.
//
// Two schemes are resolved here: env, the submitter's variables, and file, a
// file of the submitter's. Others belong to backends, which fetch the value
// themselves; a resolver is given further ones as a map.
//
// A value is in memory alone. A process that drives the runs of others must not
// take its own variables for theirs: it resolves by [Elsewhere], and by what the
// context of a call brings of the run's own submitter ([Own], [Bind]).
package secret

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// The stable names of this package's errors, which `windlass explain` knows.
const (
	ErrUnknownScheme = "secret.unknown-scheme"
	ErrNotFound      = "secret.not-found"
	ErrUnusable      = "secret.unusable"
	ErrNotHeld       = "secret.not-held"
)

// Explanation is what `windlass explain` says about an error.
type Explanation struct {
	// ID is the error's stable name.
	ID string
	// What went wrong, Why that happens, and what to Do, in whole sentences.
	What, Why, Do string
}

// Explanations returns a row for every error name of this package.
func Explanations() []Explanation {
	return []Explanation{
		{ErrUnknownScheme, "A secret reference has an unknown scheme.",
			"Neither Windlass nor the provider knows it: each kind takes some schemes, and others aren't its own.",
			"docs/secrets.md has the table of schemes and kinds; use one of the provider's."},
		{ErrNotFound, "A secret isn't there.",
			"The reference names a variable that isn't set, a file that doesn't exist, or an entry that the store doesn't have.",
			"Set it, or correct the name in the reference."},
		{ErrUnusable, "A secret is there, but can't be used.",
			"It is empty, larger than 1 MiB, unreadable or no regular file, or the reference has a #key or ?version= that its scheme doesn't have.",
			"Mend the secret or the reference; docs/secrets.md says what each scheme takes."},
		{ErrNotHeld, "A further attempt lacks its secret.",
			"The background process doesn't have it: it was restarted, and secrets are kept in memory alone.",
			"Start the job again with windlass rerun RUN from where the secret is."},
	}
}

// Scheme resolves the references of one scheme. Its errors hold no value.
type Scheme func(ctx context.Context, ref sdk.ParsedSecretRef) (sdk.SecretValue, error)

// Resolver resolves references by scheme. It is safe for concurrent use.
type Resolver struct {
	schemes  map[string]Scheme
	redactor *Redactor
}

var _ sdk.SecretResolver = (*Resolver)(nil)

// NewResolver returns a resolver of the given schemes. Where redactor isn't
// nil it learns every value that is resolved.
func NewResolver(schemes map[string]Scheme, redactor *Redactor) *Resolver {
	return &Resolver{schemes: maps.Clone(schemes), redactor: redactor}
}

// Schemes returns the names of the schemes that are resolved here, sorted.
func (r *Resolver) Schemes() []string { return slices.Sorted(maps.Keys(r.schemes)) }

// ResolveSecret returns the value of a reference: what the run's own scheme, or
// ours, finds. An unknown scheme is Unimplemented.
func (r *Resolver) ResolveSecret(ctx context.Context, ref sdk.SecretRef) (sdk.SecretValue, error) {
	p, err := sdk.ParseSecretRef(string(ref))
	if err != nil {
		return sdk.SecretValue{}, err
	}
	scheme, ok := r.scheme(ctx, p.Scheme)
	if !ok {
		return sdk.SecretValue{}, unknownScheme(p.Scheme, r.Schemes())
	}
	v, err := scheme(ctx, p)
	if err != nil {
		out := &sdk.Error{Code: sdk.CodeOf(err), Op: "resolve secret", ID: idOf(err), Err: fmt.Errorf("%s: %w", ref, err)}
		if out.ID == ErrNotHeld {
			out.Reason = sdk.ReasonCredentials
		}
		return sdk.SecretValue{}, out
	}
	r.redactor.Know(v)
	return v, nil
}

func idOf(err error) string {
	var e *sdk.Error
	if errors.As(err, &e) && e.ID != "" {
		return e.ID
	}
	return ErrUnusable
}

func unknownScheme(scheme string, known []string) error {
	e := &sdk.Error{Code: sdk.Unimplemented, Op: "resolve secret", ID: ErrUnknownScheme, Err: fmt.Errorf("no scheme is called %q here", scheme)}
	if len(known) > 0 {
		e.Remedy = "the schemes are " + strings.Join(known, ", ")
	}
	if near := sdk.Nearest(scheme, known); near != "" {
		e.Err = fmt.Errorf("no scheme is called %q here; did you mean %q?", scheme, near)
	}
	return e
}

// problem makes a scheme's error.
func problem(code sdk.Code, id, remedy, format string, args ...any) error {
	return &sdk.Error{Code: code, ID: id, Remedy: remedy, Err: fmt.Errorf(format, args...)}
}

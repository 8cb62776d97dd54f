package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// The stable names of this package's errors, which `windlass explain` knows.
const (
	ErrUnreadable      = "config.unreadable"
	ErrUntrusted       = "config.untrusted-file"
	ErrSyntax          = "config.syntax"
	ErrDuplicateKey    = "config.duplicate-key"
	ErrUnknownKey      = "config.unknown-key"
	ErrMissingKey      = "config.missing-key"
	ErrBadValue        = "config.bad-value"
	ErrUnknownProvider = "config.unknown-provider"
	ErrUnknownKind     = "config.unknown-kind"
	ErrProviderConfig  = "config.provider-config"
	ErrStateDir        = "config.state-dir"
)

// Explanation is what `windlass explain` says about an error.
type Explanation struct {
	// ID is the error's stable name, Text what it means and what to do.
	ID, Text string
}

// Explanations returns a row for every error name of this package.
func Explanations() []Explanation {
	return []Explanation{
		{ErrUnreadable, "A config file that was named, or found, can't be read. Windlass doesn't go on without it: what it says might matter. Mend its permissions, or name another with --config."},
		{ErrUntrusted, "A windlass.yaml was found in a folder above the working folder, and it belongs to another user. It could send your jobs and secrets elsewhere, so it isn't read. If you trust it, name it with --config or WINDLASS_CONFIG, or take it over with chown."},
		{ErrSyntax, "A config file isn't YAML that Windlass reads: one document of at most 256 KiB, in UTF-8. The message has the line and column."},
		{ErrDuplicateKey, "A key stands twice in one mapping of a config file. Keep one of them."},
		{ErrUnknownKey, "A config file has a key that Windlass doesn't know. The message names the nearest one that it knows; `windlass config schema` has them all. An unknown key is an error because a mistyped one would otherwise be ignored in silence."},
		{ErrMissingKey, "A config file lacks a key that its entry needs."},
		{ErrBadValue, "A setting has a value that it can't have. The message says where the value comes from and what it may be; docs/configuration.md has all settings."},
		{ErrUnknownProvider, "No provider has that name. `windlass provider ls` lists those that there are; others are added under providers: in windlass.yaml."},
		{ErrUnknownRunner, "No remote runner has that name. exec_env is one of local-docker, ephemeral and provider-ephemeral, or a name under runners: in windlass.yaml; docs/exec-environments.md describes them."},
		{ErrUnknownPlugin, "No plugin has that name. `windlass plugin ls` lists those that there are; `windlass plugin install` adds one to the folder of plugins, and so does an entry under plugins: in windlass.yaml. docs/plugins.md describes both."},
		{ErrUnknownKind, "A provider's kind is none that this program has, and no plugin's. The message lists those that there are, and docs/providers.md describes them."},
		{ErrDeployment, "A file for `windlass svc start -f` isn't a deployment. The message has line and column of each mistake; `windlass svc start --help` shows a file."},
		{ErrProviderConfig, "What stands under config: of a provider doesn't fit its kind. docs/providers.md and `windlass config schema` describe each kind's keys."},
		{ErrStateDir, "The state folder can't be used: it belongs to someone else, others may write to it, or it can't be made. It holds the ledger, logs and sockets, so only its owner may write there. Set WINDLASS_STATE to a folder of your own, or mend this one as the message says."},
	}
}

// Problem is one thing that is wrong, and where.
type Problem struct {
	// ID is the error's stable name.
	ID string
	// Origin is where the value stands.
	Origin Origin
	// Key is the setting or the path in the file; may be empty.
	Key string
	// Message says what is wrong, Remedy what to do; Remedy may be empty.
	Message, Remedy string
}

// String returns "FILE:LINE:COLUMN: key: message; remedy".
func (p Problem) String() string {
	if p.Remedy == "" {
		return p.what()
	}
	return p.what() + "; " + p.Remedy
}

func (p Problem) what() string {
	var b strings.Builder
	if s := p.Origin.String(); s != "" {
		b.WriteString(s + ": ")
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Invalid is everything that is wrong with a configuration, in the order of
// its places. It is the cause inside the *sdk.Error that Load returns.
type Invalid struct{ Problems []Problem }

// Error returns the problems: several one to a line, and a single one without
// its remedy, which the *sdk.Error around it has.
func (e *Invalid) Error() string {
	if len(e.Problems) == 1 {
		return e.Problems[0].what()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d problems", len(e.Problems))
	for _, p := range e.Problems {
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

// ProblemsOf returns the problems in an error of this package.
func ProblemsOf(err error) []Problem {
	var e *Invalid
	if errors.As(err, &e) {
		return e.Problems
	}
	return nil
}

// invalid makes the error of problems, nil when there are none.
func invalid(op string, ps []Problem) error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int { return a.Origin.compare(b.Origin) })
	code := sdk.InvalidArgument
	switch ps[0].ID {
	case ErrUnreadable, ErrUntrusted, ErrStateDir:
		code = sdk.FailedPrecondition
	}
	e := &sdk.Error{Code: code, Op: op, ID: ps[0].ID, Err: &Invalid{Problems: ps}}
	if len(ps) == 1 {
		e.Remedy = ps[0].Remedy
	}
	return e
}

// meant returns what a mistyped word was most likely meant to be, to be
// appended to a message.
func meant(word string, candidates []string) string {
	if near := sdk.Nearest(word, candidates); near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}

// OriginKind is the sort of place that a value comes from.
type OriginKind string

// The places, strongest first.
const (
	FromFlag        OriginKind = "flag"
	FromEnvironment OriginKind = "environment"
	FromFile        OriginKind = "file"
	FromDefault     OriginKind = "default"
)

// Origin is where a value comes from.
type Origin struct {
	Kind OriginKind `json:"kind"`
	// Name is the flag, the variable or the file's path.
	Name string `json:"name,omitzero"`
	// Line and Column count from 1; 0 is the file as a whole.
	Line   int `json:"line,omitzero"`
	Column int `json:"column,omitzero"`
}

// String returns the origin for people: "--on", "WINDLASS_OWNER",
// "/home/a/windlass.yaml:3:5", "default"; nothing for the zero Origin.
func (o Origin) String() string {
	switch o.Kind {
	case FromFlag:
		return "--" + o.Name
	case FromFile:
		if o.Line > 0 {
			return fmt.Sprintf("%s:%d:%d", o.Name, o.Line, o.Column)
		}
		return o.Name
	case FromDefault:
		return "default"
	}
	return o.Name
}

func (o Origin) compare(p Origin) int {
	if o.Kind != FromFile || p.Kind != FromFile {
		return 0
	}
	if c := strings.Compare(o.Name, p.Name); c != 0 {
		return c
	}
	if o.Line != p.Line {
		return o.Line - p.Line
	}
	return o.Column - p.Column
}

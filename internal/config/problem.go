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
	// ID is the error's stable name.
	ID string
	// What went wrong, Why that happens, and what to Do, in whole sentences.
	What, Why, Do string
}

// Explanations returns a row for every error name of this package.
func Explanations() []Explanation {
	return []Explanation{
		{ErrUnreadable, "A config file can't be read.",
			"A file that was named, or found, is there and its rights or the disk forbid reading it; or the one that was named isn't there. Windlass doesn't go on without it: what it says might matter.",
			"Mend the path or the file's permissions, or name another with --config."},
		{ErrUntrusted, "A windlass.yaml belongs to another user.",
			"It was found in a folder above the working folder. It could send your jobs and secrets elsewhere, so it isn't read.",
			"If you trust it, name it with --config or WINDLASS_CONFIG, or take it over with chown."},
		{ErrSyntax, "A config file isn't YAML that Windlass reads.",
			"It is one document of YAML 1.2 of at most 256 KiB, in UTF-8. The message has the line and column.",
			"Mend the line that is named; tabs can't indent, and a text with a colon or a # in it needs quotes."},
		{ErrDuplicateKey, "A key stands twice in one mapping of a config file.",
			"Which of the two is meant can't be told.",
			"Keep one of them."},
		{ErrUnknownKey, "A config file has a key that Windlass doesn't know.",
			"An unknown key is an error because a mistyped one would otherwise be ignored in silence.",
			"The message names the nearest key that is known; windlass config schema has them all."},
		{ErrMissingKey, "A config file lacks a key that its entry needs.",
			"The entry can't be used without it, and nothing can stand in for it.",
			"Add the key that the message names; docs/configuration.md and docs/providers.md say what it holds."},
		{ErrBadValue, "A setting has a value that it can't have.",
			"It is of another type, out of bounds, or none of the words that are allowed. The message says where the value comes from and what it may be.",
			"Correct it there; docs/configuration.md has all settings."},
		{ErrUnknownProvider, "No provider has that name.",
			"It is neither local nor docker, and stands under providers: in no file that is in force.",
			"windlass provider ls lists those that there are. Add it under providers: in windlass.yaml; windlass init writes entries for what it finds."},
		{ErrUnknownRunner, "No remote runner has that name.",
			"exec_env is one of local-docker, ephemeral and provider-ephemeral, or a name under runners: in windlass.yaml.",
			"Add the runner there, or mend the name; docs/exec-environments.md describes them."},
		{ErrUnknownPlugin, "No plugin has that name.",
			"Neither the folder of plugins nor plugins: in windlass.yaml has one.",
			"windlass plugin ls lists those that there are. windlass plugin install adds one to the folder, and so does an entry under plugins: in windlass.yaml; docs/plugins.md describes both."},
		{ErrUnknownKind, "A provider's kind is none that there is.",
			"It is neither built into this program nor a plugin's name.",
			"The message lists those that there are, and docs/providers.md describes them."},
		{ErrDeployment, "A file for windlass svc start -f isn't a deployment.",
			"It is no YAML, or has a key or a value that a deployment can't have. The message has line and column of each mistake.",
			"Mend what is named; windlass svc start --help shows a file."},
		{ErrProviderConfig, "What stands under config: of a provider, or of its plugin's entry, doesn't fit its kind.",
			"A key isn't the kind's, or its value isn't one that it can have. The message has the place of each mistake.",
			"docs/providers.md and windlass config schema describe each kind's keys; windlass provider describe NAME does so for one."},
		{ErrStateDir, "The state folder can't be used.",
			"It belongs to someone else, others may write to it, or it can't be made. It holds the ledger, logs and sockets, so only its owner may write there.",
			"Set WINDLASS_STATE to a folder of your own, or mend this one as the message says."},
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

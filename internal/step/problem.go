package step

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// The stable names of this package's errors, which `windlass explain` knows.
const (
	ErrFile     = "step.file"
	ErrTemplate = "step.template"
	ErrBackend  = "step.backend"
)

// Problem is one thing that is wrong with a step file, and where.
type Problem struct {
	// File is the path as it was given; Line and Column count from 1, 0 is
	// unknown.
	File         string
	Line, Column int
	// Key is the path in the file, such as steps[0].config.image; may be empty.
	Key string
	// ID is the error's stable name.
	ID string
	// Message says what is wrong, Remedy what to do; Remedy may be empty.
	Message, Remedy string
}

// String returns "FILE:LINE:COLUMN: key: message; remedy".
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Place() + ": ")
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Message)
	if p.Remedy != "" {
		b.WriteString("; " + p.Remedy)
	}
	return b.String()
}

// Place returns "FILE:LINE:COLUMN".
func (p Problem) Place() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Invalid is everything that is wrong with a step file, in the order of its
// lines.
type Invalid struct{ Problems []Problem }

// Error lists the problems, each on a line of its own where there are several.
func (e *Invalid) Error() string {
	if len(e.Problems) == 1 {
		return e.Problems[0].String()
	}
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = "\n  " + p.String()
	}
	return fmt.Sprintf("%d problems", len(e.Problems)) + strings.Join(lines, "")
}

// ProblemsOf returns the problems of a step file that an error tells of; nil for
// any other error.
func ProblemsOf(err error) []Problem {
	var e *Invalid
	if !errors.As(err, &e) {
		return nil
	}
	return e.Problems
}

func invalid(op string, ps []Problem) error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) })
	e := &sdk.Error{Code: sdk.InvalidArgument, Op: op, ID: ps[0].ID, Err: &Invalid{Problems: ps}}
	return e
}

// meant is what a mistyped word was most likely meant to be, to be appended.
func meant(word string, candidates []string) string {
	if near := nearest(word, candidates); near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}

// nearest is what a mistyped word was most likely meant to be: the only one that it
// is a part of, as profile is of security_profile, else the one that is spelt most
// like it. Empty is none.
func nearest(word string, candidates []string) string {
	var whole []string
	for _, c := range candidates {
		if slices.Contains(strings.Split(c, "_"), word) {
			whole = append(whole, c)
		}
	}
	if len(whole) == 1 {
		return whole[0]
	}
	return sdk.Nearest(word, candidates)
}

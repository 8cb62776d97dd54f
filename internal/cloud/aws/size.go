package aws

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Largest names the three variables and arguments that most make a request too
// large, for an error.
func Largest(env map[string]string, args []string) string {
	type part struct {
		name string
		n    int
	}
	parts := make([]part, 0, len(env)+len(args))
	for k, v := range env {
		parts = append(parts, part{"env." + k, len(v)})
	}
	for i, a := range args {
		parts = append(parts, part{fmt.Sprintf("args[%d]", i), len(a)})
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Or(b.n-a.n, strings.Compare(a.name, b.name)) })
	var out []string
	for _, p := range parts[:min(3, len(parts))] {
		out = append(out, fmt.Sprintf("%s (%d bytes)", p.name, p.n))
	}
	return strings.Join(out, ", ")
}

package gapi

import (
	"cmp"
	"strings"
)

// Project is a Google Cloud project, which has an ID and a number that mean the
// same in every name.
type Project struct {
	ID, Number string
}

// Is says whether a segment of a name means the project.
func (p Project) Is(segment string) bool { return segment == p.ID || segment == p.Number }

// Segments matches a name against a pattern like projects/*/secrets/* and
// returns what stands for each star, which is never empty.
func Segments(name, pattern string) (values []string, ok bool) {
	parts, want := strings.Split(name, "/"), strings.Split(pattern, "/")
	if len(parts) != len(want) {
		return nil, false
	}
	for i, w := range want {
		switch {
		case w == "*" && parts[i] != "":
			values = append(values, parts[i])
		case w != parts[i]:
			return nil, false
		}
	}
	return values, true
}

// Size is the size of a page: what is asked for within 1 and limit, standard
// when nothing is. Knob bounds it further when positive.
func Size(asked int32, standard, limit, knob int) int {
	size := min(cmp.Or(int(asked), standard), limit)
	if knob > 0 {
		size = min(size, knob)
	}
	return size
}

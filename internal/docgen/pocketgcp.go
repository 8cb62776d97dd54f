package main

import (
	"maps"
	"slices"
	"strings"

	grpccodes "google.golang.org/grpc/codes"

	"github.com/windlass-run/windlass/internal/pocket/gcp"
)

// pocketGCP writes docs/pocket-gcp.md: what the pocket Google Cloud offers, and
// every rule that it keeps.
func pocketGCP() ([]byte, error) {
	operations := gcp.Operations()
	var offered [][]string
	for _, service := range slices.Sorted(maps.Keys(operations)) {
		offered = append(offered, []string{code(service), codes(operations[service])})
	}
	var rules [][]string
	for _, r := range gcp.Rules() {
		refused := "-"
		if r.Code != grpccodes.OK {
			refused = code(googleCode(r.Code))
		}
		page := r.Doc[strings.LastIndexByte(r.Doc, '/')+1:]
		rules = append(rules, []string{code(r.ID), r.Text, refused, "[" + page + "](" + r.Doc + ")"})
	}
	return render("pocket-gcp.md", map[string]string{
		"Operations": table([]string{"Service", "Methods"}, offered),
		"Rules":      table([]string{"Rule", "What holds", "Refused with", "Page"}, rules),
	})
}

// googleCode is a code's name in Google's spelling, like NOT_FOUND.
func googleCode(c grpccodes.Code) string {
	var b strings.Builder
	for i, r := range c.String() {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToUpper(b.String())
}

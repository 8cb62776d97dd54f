package main

import (
	"path"
	"strconv"
	"strings"

	"github.com/windlass-run/windlass/internal/pocket/azure"
)

// pocketAzure writes docs/pocket-azure.md: what the pocket Azure offers, and
// every rule that it keeps.
func pocketAzure() ([]byte, error) {
	var rules [][]string
	for _, r := range azure.Rules() {
		refused := "-"
		if r.Status != 0 {
			refused = strconv.Itoa(r.Status) + " " + code(r.Code)
		}
		page, _, _ := strings.Cut(strings.TrimSuffix(r.Doc, "/"), "#")
		rules = append(rules, []string{code(r.ID), r.Text, refused, "[" + path.Base(page) + "](" + r.Doc + ")"})
	}
	return render("pocket-azure.md", map[string]string{
		"Operations": table([]string{"Operations, by the names of the APIs' own documents"}, [][]string{{codes(azure.Actions())}}),
		"Rules":      table([]string{"Rule", "What holds", "Refused with", "Page"}, rules),
	})
}

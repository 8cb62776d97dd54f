package main

import (
	"path"
	"strconv"
	"strings"

	"github.com/windlass-run/windlass/internal/pocket/digitalocean"
)

// pocketDigitalOcean writes docs/pocket-digitalocean.md: what the pocket
// DigitalOcean offers, and every rule that it keeps.
func pocketDigitalOcean() ([]byte, error) {
	var rules [][]string
	for _, r := range digitalocean.Rules() {
		refused := "-"
		if r.Status != 0 {
			refused = strconv.Itoa(r.Status)
		}
		page := r.Doc
		if _, operation, ok := strings.Cut(page, "#"); ok {
			page = operation
		}
		rules = append(rules, []string{code(r.ID), r.Text, refused, "[" + path.Base(strings.TrimSuffix(page, "/")) + "](" + r.Doc + ")"})
	}
	return render("pocket-digitalocean.md", map[string]string{
		"Operations": table([]string{"Operations, by the names of the API's document"}, [][]string{{codes(digitalocean.Actions())}}),
		"Rules":      table([]string{"Rule", "What holds", "Refused with", "Page"}, rules),
	})
}

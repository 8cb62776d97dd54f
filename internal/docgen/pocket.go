package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/internal/pocket/aws"
	"github.com/windlass-run/windlass/internal/pocket/awsjson"
)

// pocket writes docs/pocket.md: what the pocket clouds offer, and every rule
// that they keep.
func pocket() ([]byte, error) {
	actions, err := aws.Actions()
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, service := range slices.Sorted(maps.Keys(actions)) {
		rows = append(rows, []string{code(service), codes(actions[service])})
	}
	return render("pocket.md", map[string]string{
		"AWSActions": table([]string{"Service", "Operations"}, rows),
		"AWSRules":   rules(aws.Rules()),
	})
}

// rules shows a table of rules.
func rules(list awsjson.Rules) string {
	var rows [][]string
	for _, r := range list {
		page := r.Doc[strings.LastIndexByte(strings.TrimSuffix(r.Doc, "/"), '/')+1:]
		rows = append(rows, []string{code(r.ID), r.Text, code(r.Code), "[" + strings.TrimSuffix(strings.TrimSuffix(page, "/"), ".html") + "](" + r.Doc + ")"})
	}
	return table([]string{"Rule", "What holds", "Refused with", "Page"}, rows)
}

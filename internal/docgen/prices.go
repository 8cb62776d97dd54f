package main

import (
	"strconv"

	"github.com/windlass-run/windlass/internal/price"
)

// prices writes docs/prices.md: what `windlass reap` estimates costs by.
func prices() ([]byte, error) {
	sum := func(f float64) string {
		if f == 0 {
			return ""
		}
		return "$" + strconv.FormatFloat(f, 'f', -1, 64)
	}
	var rows [][]string
	for _, r := range price.Table() {
		flat := sum(r.Flat)
		switch {
		case r.Flat > 0:
			flat = "$" + strconv.FormatFloat(r.Flat, 'f', 6, 64)
		case r.Core == 0:
			flat = "nothing"
		}
		class := ""
		if r.Class != "" {
			class = code(r.Class)
		}
		rows = append(rows, []string{code(r.Kind), r.Type, class, r.Region, flat, sum(r.Core), sum(r.GiB), sum(r.DiskGiB), "[page](" + r.Source + ")"})
	}
	return render("prices.md", map[string]string{"Date": price.Date,
		"Table": table([]string{"Kind", "Object", "Class", "Region", "As such", "A core", "A GiB of memory", "A GiB of disk", "Source"}, rows)})
}

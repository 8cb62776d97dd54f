package main

import (
	"slices"

	"github.com/windlass-run/windlass/internal/driver/all"
	"github.com/windlass-run/windlass/internal/secret"
)

// secrets writes docs/secrets.md: what each kind does with each scheme.
func secrets() ([]byte, error) {
	drivers := all.Drivers()
	local := []string{secret.SchemeEnv, secret.SchemeFile}
	schemes := slices.Clone(local)
	for _, d := range drivers {
		for _, s := range d.Schemes {
			if !slices.Contains(schemes, s) {
				schemes = append(schemes, s)
			}
		}
	}
	slices.Sort(schemes[len(local):])
	head := []string{"Kind"}
	for _, s := range schemes {
		head = append(head, code(s))
	}
	var rows [][]string
	for _, d := range drivers {
		row := []string{code(d.Kind)}
		for _, s := range schemes {
			row = append(row, secret.Deliver(s, local, d).How)
		}
		rows = append(rows, row)
	}
	return render("secrets.md", map[string]string{"Table": table(head, rows), "MaxBytes": bytesText(secret.MaxBytes)})
}

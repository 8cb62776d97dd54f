package main

import (
	"slices"

	"github.com/windlass-run/windlass/internal/driver/all"
	"github.com/windlass-run/windlass/internal/secret"
	"github.com/windlass-run/windlass/sdk"
)

// secrets writes docs/secrets.md: what each kind does with each scheme, and in
// which words it refuses one.
func secrets() ([]byte, error) {
	local := []string{secret.SchemeEnv, secret.SchemeFile}
	head := []string{"Kind"}
	for _, s := range secret.Known() {
		head = append(head, code(s))
	}
	var rows, refusals [][]string
	for _, d := range all.Drivers() {
		row, last := []string{code(d.Kind)}, ""
		for _, s := range secret.Known() {
			how := secret.Deliver(s, local, d)
			row = append(row, how.How)
			if how.Refused {
				last = s
			}
		}
		rows = append(rows, row)
		if last != "" {
			ref := sdk.SecretRef("secret://" + last + "/NAME")
			refusals = append(refusals, []string{code(d.Kind), code(secret.Check(map[string]sdk.SecretRef{"PASSWORD": ref}, local, d)[0].String())})
		}
	}
	return render("secrets.md", map[string]string{"Table": table(head, rows), "Refusals": table([]string{"Kind", "Such as"}, slices.Clip(refusals)), "MaxBytes": bytesText(secret.MaxBytes)})
}

package main

import (
	"github.com/windlass-run/windlass/internal/control"
)

// machine writes docs/state-machine.md: the transitions of an attempt, and the
// boundaries at which the crash tests kill.
func machine() ([]byte, error) {
	var rows, points [][]string
	for _, t := range control.Transitions() {
		var from []string
		for _, f := range t.From {
			if f == "" {
				from = append(from, "none, or the last attempt is over")
				continue
			}
			from = append(from, string(f))
		}
		for _, f := range from {
			if f != "none, or the last attempt is over" {
				f = code(f)
			}
			rows = append(rows, []string{f, code(string(t.Kind)), code(string(t.To)), t.Doc})
		}
	}
	for _, p := range control.Failpoints() {
		points = append(points, []string{code(p)})
	}
	return render("state-machine.md", map[string]string{
		"Transitions": table([]string{"Phase", "Event", "Phase after", "When"}, rows),
		"Failpoints":  table([]string{"Boundary"}, points),
	})
}

package main

import (
	"strings"

	"github.com/windlass-run/windlass/internal/cli"
	"github.com/windlass-run/windlass/sdk"
)

// states writes docs/states.md: the legal pairs of state and reason, each one's
// exit code and whether another attempt may follow.
func states() ([]byte, error) {
	var rows, reasons [][]string
	for _, st := range sdk.JobStates() {
		if sdk.LegalReason(st, "") {
			rows = append(rows, []string{code(string(st)), "none given", cli.ExitWords(st, ""), "–"})
		}
		for _, r := range sdk.ReasonRules() {
			if !sdk.LegalReason(st, r.Reason) {
				continue
			}
			retry := "–"
			if st == sdk.StateFailed {
				retry = yesNo(r.Retry)
			}
			rows = append(rows, []string{code(string(st)), code(string(r.Reason)), cli.ExitWords(st, r.Reason), retry})
		}
	}
	for _, r := range sdk.ReasonRules() {
		var beside []string
		for _, s := range r.States {
			beside = append(beside, string(s))
		}
		reasons = append(reasons, []string{code(string(r.Reason)), strings.Join(beside, ", "), r.Doc})
	}
	var verdicts []string
	for _, v := range sdk.Verdicts() {
		verdicts = append(verdicts, string(v))
	}
	return render("states.md", map[string]string{
		"Pairs":    table([]string{"State", "Reason", "Exit code of `run` and `wait`", "`--retries` makes a new attempt"}, rows),
		"Reasons":  table([]string{"Reason", "Beside", "What happened"}, reasons),
		"Verdicts": codes(verdicts),
	})
}

package cli

import (
	"strings"

	"github.com/windlass-run/windlass/sdk"
)

// WorkloadGuaranteeRow is one guarantee for live workloads, for windlass provider
// describe and the documents' matrix.
type WorkloadGuaranteeRow struct {
	Name string
	// Words say in one line what a provider gives.
	Words func(g sdk.WorkloadGuarantees) string
}

// WorkloadGuaranteeRows covers every field of sdk.WorkloadGuarantees.
func WorkloadGuaranteeRows() []WorkloadGuaranteeRow {
	return []WorkloadGuaranteeRow{
		{"Lost reply of a change", lostWords},
		{"Expected generation", func(g sdk.WorkloadGuarantees) string {
			if g.Compares {
				return "the backend compares it at the change"
			}
			return "read right before the change, so that another one may come between"
		}},
		{"Restart", func(g sdk.WorkloadGuarantees) string {
			switch g.Restart {
			case sdk.RestartRolling:
				return "one instance after another: of two or more, one always serves"
			case sdk.RestartInPlace:
				return "each instance is stopped, and started where it stands"
			case sdk.RestartReplaces:
				return "all instances end before new ones start, which may have another address"
			case "":
				return "not said"
			}
			return underscored(string(g.Restart))
		}},
		{"Stop", func(g sdk.WorkloadGuarantees) string {
			switch g.Stop {
			case sdk.StopStops:
				return "the backend has a state for it"
			case sdk.StopZero:
				return "the count becomes zero, and the workload keeps what it was"
			case sdk.StopForgets:
				return "the count becomes zero, and the ledger alone knows what it was"
			}
			return underscored(string(g.Stop))
		}},
		{"Reason of a failure", func(g sdk.WorkloadGuarantees) string {
			if g.Failures {
				return "the backend's own"
			}
			return "not told"
		}},
		{"Exec", execGuaranteeWords},
		{"Metrics", func(g sdk.WorkloadGuarantees) string {
			if g.Warms > 0 {
				return "up to " + g.Warms.String() + " after an instance's start"
			}
			return "from an instance's start"
		}},
	}
}

func lostWords(g sdk.WorkloadGuarantees) string {
	words := ""
	switch g.Ops.By {
	case sdk.OpInHistory:
		words = "every change can be found for a while"
	case sdk.OpOnObject:
		words = "the last change can be found, an earlier one can't"
	case sdk.OpNowhere:
		words = "can't be cleared up"
	default:
		words = underscored(string(g.Ops.By))
	}
	if g.Ops.Within > 0 {
		words += ", surely after " + g.Ops.Within.String()
	}
	return words
}

func execGuaranteeWords(g sdk.WorkloadGuarantees) string {
	words := []string{"exit code not told"}
	if g.Exec.ExitCode {
		words[0] = "the command's own exit code"
	}
	if g.Exec.Argv != "" {
		words = append(words, "arguments "+underscored(string(g.Exec.Argv)))
	}
	for _, x := range []struct {
		has  bool
		word string
	}{{g.Exec.Stdin, "input"}, {g.Exec.Terminal, "a terminal"}, {g.Exec.Apart, "stdout and stderr apart"}, {g.Exec.Signals, "signals"}} {
		if x.has {
			words = append(words, x.word)
		}
	}
	return strings.Join(words, ", ")
}

func underscored(s string) string { return strings.ReplaceAll(s, "_", " ") }

package cli

import (
	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/sdk"
)

// svcEntries explains the errors about live workloads.
func svcEntries() []Entry {
	return []Entry{
		{"svc.bad-target", "That is no workload's name.",
			"A workload is PROVIDER/PATH, without white space and empty parts.",
			"Write it as windlass svc ls prints it."},
		{sdk.ErrAutoscaler, "An autoscaler owns the number of replicas.",
			"What it is told to keep would undo the change within moments, and the two would fight.",
			"Change the autoscaler's bounds where they are kept, or repeat the command with --against-autoscaler."},
		{sdk.ErrExpect, "The workload isn't as it was expected to be.",
			"Somebody changed it since you looked: --expect-replicas or --expect-generation no longer holds. Nothing was changed.",
			"Look with windlass svc status, and windlass ledger log --target for who did what, and repeat the command if it still makes sense."},
		{control.ErrWorkloadAmbiguous, "The name fits several workloads, or may.",
			"A name alone is taken only where one workload of all providers has it, and that can't be told while a provider doesn't answer.",
			"Name it as PROVIDER/PATH; the message lists the candidates."},
		{control.ErrWorkloadUnknown, "There is no such workload.",
			"No provider that can operate live workloads lists one of that name.",
			"windlass svc ls lists what there is."},
		{control.ErrWorkloadBusy, "Somebody else changes the workload at the moment.",
			"Two changes of one workload never cross: each would be made with something else in view than what is there. The message names who, and the row. An earlier change whose command was killed counts, too, while its call may still come.",
			"Look with windlass status RUN, wait for the time that the message names, if it names one, and repeat the command afterwards if it still makes sense."},
		{control.ErrWorkloadUnconfirmed, "What became of the change can't be told.",
			"The reply was lost, and the provider keeps no trace by which the change could be found. It may have been made.",
			"Look with windlass svc status before you repeat it. The row is closed by the next change of the workload."},
		{control.ErrWorkloadRollout, "The change was accepted, and didn't succeed.",
			"The provider has given the rollout up, or another change took its place.",
			"windlass svc status says why; the change stands until another is made."},
		{control.ErrWorkloadWait, "The change hadn't settled when the wait's own time-out passed.",
			"--wait-timeout bounds the waiting. The change goes on, and nothing is known yet about its end.",
			"Wait on with windlass svc status --wait, or look with windlass svc status."},
		{idNoTerminal, "The command can't have this terminal.",
			"-t hands a terminal to the command, and standard input or output is a pipe or a file here, or the terminal refuses.",
			"Leave -t out; -i passes standard input on without a terminal."},
		{idNoWorkloads, "There are no live workloads to show.",
			"No provider that is configured can operate live workloads.",
			"Add one of a kind that can under providers: in windlass.yaml; docs/providers.md has the table of kinds."},
		{idExecUnknown, "No exit code of the command is known.",
			"The session ended before the provider told how the command ended: it was left, cut off, or the provider doesn't tell. The command may still run.",
			"Look inside the instance whether it did its work. The row in the ledger is lost, which is no success."},
	}
}

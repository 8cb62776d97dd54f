#!/usr/bin/env bash
# Finishes what run.sh may have left, and sums up. It runs after a cancelled step, too:
# a run that isn't proven to have ended is cancelled here, for which GitHub gives five
# minutes.
set -euo pipefail
. "$(dirname "$0")/common.sh"

code=0
mapfile -t left < <(asks ps -q --filter "name=$name")
if [ ${#left[@]} -gt 0 ]; then
	echo "windlass: ending what the step before left"
	asks cancel --reason 'the workflow was cancelled' "${left[@]}" || code=$?
fi

run=${RUN_ID:-$(newest)}
ledger="$WINDLASS_STATE.jsonl"
asks ledger export >"$ledger"
printf 'ledger=%s\n' "$ledger" >>"$GITHUB_OUTPUT"

{
	printf '### windlass: %s\n\n' "$name"
	if [ -n "$run" ]; then
		printf 'Run `%s`, exit code %s.\n\n' "$run" "${RUN_CODE:-not known: the step was ended}"
		# Indented, so that nothing in it is markup.
		asks status "$run" | sed 's/^/    /'
	else
		printf 'No run was begun: the log of the step says why.\n'
	fi
	printf '\nThe ledger of this job is `%s` on the runner' "$ledger"
	if [ -n "${GITHUB_RUN_ID:-}" ]; then
		printf '; once the workflow uploads it, [it is here](%s/%s/actions/runs/%s#artifacts)' "${GITHUB_SERVER_URL:-}" "${GITHUB_REPOSITORY:-}" "$GITHUB_RUN_ID"
	fi
	printf '.\n'
} >>"$GITHUB_STEP_SUMMARY"
exit "$code"

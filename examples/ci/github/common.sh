# shellcheck shell=bash
# Sourced by run.sh and end.sh: where the ledger is, and who acts.

# Nothing is left to a process in the background, which the runner would kill.
export WINDLASS_KEEPER=off
export WINDLASS_STATE="${RUN_STATE:-${RUNNER_TEMP:?this script is a part of a workflow}/windlass}"
export WINDLASS_ACTOR="${WINDLASS_ACTOR:-${GITHUB_ACTOR:-unknown}@${GITHUB_REPOSITORY:-github}}"
name=${RUN_NAME:-${GITHUB_JOB:-job}}

# escaped is a text as the value of a command to the runner.
escaped() {
	local s=${1//'%'/%25}
	s=${s//$'\r'/%0D}
	printf '%s' "${s//$'\n'/%0A}"
}

# fail ends the step with the code that Windlass has for what it can't do.
fail() {
	printf '::error title=windlass::%s\n' "$(escaped "$1")"
	exit 125
}

command -v windlass >/dev/null || fail "there is no windlass in PATH: a step before this one installs it"

# asks runs a command of Windlass that reads the configuration of the step.
asks() { windlass "$@" ${RUN_CONFIG:+--config "$RUN_CONFIG"}; }

# newest is the ID of the newest run of this name, or nothing.
newest() { asks ps -a -q -n 1 --filter "name=$name"; }

#!/usr/bin/env bash
# Runs one job of a workflow: its output goes to the step's log, its exit code is the
# step's. GitHub cancels a step by SIGINT, after 7.5 seconds SIGTERM, and kills it after
# 2.5 more. The first makes Windlass cancel the job and wait for proof, the second
# makes it leave; end.sh then finishes what is left.
set -euo pipefail
. "$(dirname "$0")/common.sh"

# lines puts each line of a text that isn't empty into the array of a name.
lines() {
	local -n into=$1
	local line
	into=()
	while IFS= read -r line || [ -n "$line" ]; do
		line=${line%$'\r'}
		[ -z "$line" ] || into+=("$line")
	done <<<"$2"
}

# mask keeps a value out of the log, line by line.
mask() {
	local value
	lines value "$1"
	local v
	for v in ${value[@]+"${value[@]}"}; do
		printf '::add-mask::%s\n' "$(escaped "$v")"
	done
}

lines vars "${RUN_ENV:-}"
lines secrets "${RUN_SECRETS:-}"
lines flags "${RUN_FLAGS:-}"
lines command "${RUN_COMMAND:-}"

args=(run --name "$name")
[ -z "${RUN_CONFIG:-}" ] || args+=(--config "$RUN_CONFIG")
[ -z "${RUN_PROVIDER:-}" ] || args+=(--on "$RUN_PROVIDER")
[ -z "${RUN_IMAGE:-}" ] || args+=(--image "$RUN_IMAGE")
for v in ${vars[@]+"${vars[@]}"}; do
	args+=(--env "$v")
done
for s in ${secrets[@]+"${secrets[@]}"}; do
	[[ $s == *=* ]] || s="$s=secret://env/$s"
	args+=(--secret "$s")
	if [[ $s =~ =secret://env/([A-Za-z_][A-Za-z0-9_]*) ]]; then
		from=${BASH_REMATCH[1]}
		mask "${!from:-}"
	fi
done
args+=(${flags[@]+"${flags[@]}"})
if [ -n "${RUN_SCRIPT:-}" ]; then
	[ ${#command[@]} -eq 0 ] || fail "command and script are both given: one of them says what runs"
	args+=(--shell -- "$RUN_SCRIPT")
else
	args+=(-- ${command[@]+"${command[@]}"})
fi

# The newest run of this name before, so that a run of this step is told from it.
before=$(newest)

printf '::group::windlass run%s%s\n' "${RUN_PROVIDER:+ on $RUN_PROVIDER}" "${RUN_IMAGE:+ of $RUN_IMAGE}"
# What the job writes is no command to the runner.
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
printf '::stop-commands::%s\n' "$token"

pid='' signalled=''
# Each signal is passed on. To a process in the background SIGINT means nothing.
pass_on() {
	signalled=yes
	[ -z "$pid" ] || kill -TERM "$pid" 2>/dev/null || true
}
trap pass_on INT TERM HUP
# One stream, so that the lines of both keep their order.
windlass "${args[@]}" 2>&1 &
pid=$!
[ -z "$signalled" ] || kill -TERM "$pid" 2>/dev/null || true
code=0
while :; do
	signalled=
	wait "$pid" && code=0 || code=$?
	# A signal ends the waiting, not the process: its code is still to come.
	[ -n "$signalled" ] || break
done

printf '\n::%s::\n::endgroup::\n' "$token"
run=$(newest)
[ "$run" != "$before" ] || run=
{
	printf 'run=%s\n' "$run"
	printf 'exit-code=%s\n' "$code"
} >>"$GITHUB_OUTPUT"
if [ "$code" != 0 ]; then
	printf '::error title=%s::%s\n' "$(escaped "windlass: $name")" "$(escaped "ended with exit code $code${run:+, run $run}")"
fi
exit "$code"

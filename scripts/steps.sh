# shellcheck shell=bash
# Sourced behind env.sh by the scripts that run checks in steps, go on after a failure,
# and name what was flaky (ADR 0032).

failed=() # the steps that failed
flaky=()  # packages and tests that failed beside the others and passed alone
# via runs go test: a command that it is an argument of.
via=()

# logs_in empties the folder for the logs of the steps, one of the clone's own.
logs_in() {
	out="$clone_cache/$1"
	mkdir -p "$out"
	rm -f "$out"/*
}

# step runs a command under a heading, and keeps its output.
step() {
	local name=$1 start=$SECONDS status
	shift
	printf '\n== %s\n' "$name"
	"$@" 2>&1 | tee "$out/$name.log"
	status=${PIPESTATUS[0]}
	printf -- '-- %s: %ds\n' "$name" $((SECONDS - start))
	[ "$status" = 0 ] || failed+=("$name")
	return "$status"
}

# tests is a step of go test, with the flags up to -- and the packages behind it. Up to
# three packages that fail are run once more, one after the other with nothing beside
# them: what then passes is flaky, a defect of its own that the closing lines name.
# A data race and what doesn't build are never run again.
tests() {
	local name=$1 log="$out/$1.log" flags=() again p status=0
	shift
	while [ "$1" != -- ]; do
		flags+=("$1")
		shift
	done
	shift
	# What other clones passed is no result of this one.
	[ "${CI:-}" != true ] || flags+=(-count 1)
	step "$name" ${via[@]+"${via[@]}"} go test "${flags[@]}" "$@" && return 0
	mapfile -t again < <(sed -nE 's/^FAIL\t([^[:space:]]+)(\t.*)?$/\1/p' "$log" | sort -u)
	if [ ${#again[@]} -eq 0 ] || [ ${#again[@]} -gt 3 ] || grep -qE 'WARNING: DATA RACE|\[(build|setup) failed\]' "$log"; then
		return 1
	fi
	mapfile -t flags < <(printf '%s\n' "${flags[@]}" | grep -v '^-cover')
	unset 'failed[-1]'
	for p in "${again[@]}"; do
		if step "$name-again-$(basename "$p")" ${via[@]+"${via[@]}"} go test "${flags[@]}" -count 1 "$p"; then
			flaky+=("$p$(awk -F '\t' -v p="$p" '/^--- FAIL: /{split($0, w, " "); n = n " " w[3]} /^(ok|FAIL)\t/{if ($2 == p) print n; n = ""}' "$log")")
		else
			status=1
		fi
	done
	return $status
}

# verdicts are the closing lines of the steps of a target of make, but for those named
# behind it, whose own lines say that they failed; and of what was flaky.
verdicts() {
	local target=$1 f
	shift
	for f in ${failed[@]+"${failed[@]}"}; do
		[[ " $* " = *" $f "* ]] || printf 'FAIL\tmake %s: %s\n' "$target" "$f"
	done
	# Passed alone, but not beside the others: mend it.
	for f in ${flaky[@]+"${flaky[@]}"}; do
		printf 'flaky\t%s\n' "$f"
	done
}

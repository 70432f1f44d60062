#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Every test: on the host, of the scripts, in guests.  T=pattern picks some by name.
# Results are lines "pass|fail|skip <name> [reason]" in one file; the summary is made from it.

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/results.sh
. "$TOP/scripts/results.sh"
# shellcheck source=scripts/test-guest.sh
. "$TOP/scripts/test-guest.sh"

KDIR=
PATTERN=${T:-*}
WORK=$SMBD_CACHE/run/test-$(date +%m%d-%H%M%S)-$$
RESULTS=${SMBD_RESULTS:-$WORK/results}
mkdir -p "$WORK"
touch "$RESULTS"

# cargo_tests <folder> <build's name> [for the tests...]: cargo in the build root, whose compiler is
# the only one a user is sure to have.
cargo_tests() {
	local log=$WORK/$1.log results=$WORK/$1.results build=$2 rc=0 limit=1200 long=()
	[ -z "${SMBD_LONG:-}" ] || { limit=36000 long=(SMBD_LONG=1 PROPTEST_CASES=200000); }
	(cd "$TOP/tests/$1" && shift 2 && timeout -k 10 $limit "$TOP/scripts/enter-root.sh" "${long[@]}" \
		CARGO_TARGET_DIR="$SMBD_CACHE/target/$(hash_of "$TOP")" cargo test --no-fail-fast -- "$@") >"$log" 2>&1 </dev/null || rc=$?
	# The loom tests are modules of one crate.
	cargo_results "$log" | sed 's,host/lib/tests::\([a-z_]*\)::,host/loom_\1/,' >"$results"
	# A build that fails runs no test and must not pass for an empty suite.
	[ "$rc" -eq 0 ] || grep -q '^fail' "$results" ||
		echo "fail host/$build cargo test ended with $rc: $(grep -m1 -E '^error' "$log") ($log)" >>"$results"
}

host_tests() {
	suite_wanted host || return 0
	begin host
	cargo_tests host build --show-output
	cargo_tests loom loom_build --show-output
	grep -hE '^[0-9]+ explorations, ' "$WORK/host.log" | sed 's/^/    /' >&2 || true
	cat "$WORK/loom.results" >>"$WORK/host.results"
	finish host "$WORK/host.results"
}

# script_tests: each program in tests/scripts speaks KTAP.
script_tests() {
	local t name
	for t in "$TOP"/tests/scripts/*.sh; do
		name=$(basename "$t" .sh)
		[ -x "$t" ] || continue
		suite_wanted "scripts/$name" || continue
		begin "scripts/$name"
		timeout -k 10 1200 "$t" >"$WORK/$name.out" 2>"$WORK/$name.err" </dev/null || true
		ktap_results "scripts/$name" "$WORK/$name.out" >"$WORK/$name.results"
		# The plan comes last.
		grep -q '^1\.\.[0-9]' "$WORK/$name.out" || echo "fail scripts/$name ended early ($WORK/$name.err)" >>"$WORK/$name.results"
		finish "scripts/$name" "$WORK/$name.results"
	done
}

say "tests, results in $WORK"
# A sanitizer is a matter of the guests alone.  The rest goes on beside the making of the kernels, where
# one core often waits for the other; it counts as one guest.
if [ -z "$SANITIZER" ]; then
	"$TOP/scripts/root.sh" >/dev/null
	{ host_tests; script_tests; } &
fi
guest_tests
wait
summary

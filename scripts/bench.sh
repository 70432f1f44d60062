#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Our module, the C module and TCP side by side, counted in instructions:	bench.sh [case] [pairs]
# One guest whose clock goes on by 2 ns with each instruction, so that the host's load does not matter. A case
# prints its table; without one all are measured, and Documentation/bench.{rst,json,svg} are written. The case "scale" is
# the curves of cost against size and number, in Documentation/scale.{rst,json,svg}.

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
case=${1:-*} pairs=${2:-5}
[[ $pairs =~ ^[1-9][0-9]*$ ]] || die "PAIRS=$pairs is not a number of pairs"
[ -z "$SANITIZER" ] || die "a kernel with sanitizers says nothing about speed; use the stock one"
run=$SMBD_CACHE/run/bench-$(date +%m%d-%H%M%S)-$$

# measure <run folder> <pattern of cases>
# One thread emulates all processors in turn. While the guest waits for this machine, for a file, its clock jumps
# from timer to timer; so all its bounds are far away.
measure() {
	ACCEL=tcg,thread=single TRANSPORT=rust BOOT_BOUND=600 "$TOP/scripts/guest.sh" -t 28800 -d "$1" -v SLOW=1000 -v PROFILE="${PROFILE:-}" \
		-q -icount -q shift=1,sleep=off -- "$TOP/tests/bench/guest.sh" "$pairs" "$2" ||
		die "the guest did not measure it all: $(tail -n1 "$1/out")" "$1/out"
}

# all: two guests at a time, each with about half of the work; a case is measured whole in one of them.
all() {
	local half='@(verbs-rxe|rxe|rxe-3.0|rxe-channels)' first rc=0
	measure "$run/1" "$half/*" &
	first=$!
	(measure "$run/2" "!($half)/*") || rc=$?
	[ "$rc" -eq 0 ] || kill_tree "$first"
	wait "$first" && return "$rc"
}

# report <program> [folder]
report() {
	"$TOP/scripts/enter-root.sh" python3 "$TOP/tests/bench/$1.py" "$run" "$(<"$("$TOP/scripts/kernel.sh")/release")" \
		"$(git -C "$TOP" rev-parse --short HEAD)" "${@:2}"
}

ROOT=$("$TOP/scripts/root.sh")
export ROOT
case $case in
'*') step "bench, $pairs pairs of all" all && report report "$TOP/Documentation" ;;
scale) step "bench, scale" measure "$run" scale && report scale "$TOP/Documentation" ;;
*) step "bench, $pairs pairs of $case" measure "$run" "$case" && report report ;;
esac

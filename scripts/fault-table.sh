#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Every fault several times, with the C module and ours by turns, each in a guest of its own:
#	fault-table.sh [runs] [pattern]
# Writes Documentation/fault-table.rst: what became of the mount, and how long it took from the repair to the
# first new write.  The pattern picks faults by name; the others keep what was measured before.

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/results.sh
. "$TOP/scripts/results.sh"
# shellcheck source=scripts/test-guest.sh
. "$TOP/scripts/test-guest.sh"

runs=${1:-3} faults=${2:-*}
[[ $runs =~ ^[1-9][0-9]*$ ]] || die "RUNS=$runs is not a number of runs"
table=$TOP/Documentation/fault-table.tsv
WORK=$SMBD_CACHE/run/faults-$(date +%m%d-%H%M%S)-$$
RESULTS=$WORK/results
PARALLEL=$(parallel)
mkdir -p "$WORK"

# boot <run> <transport> <test>: in one guest or, if its name says so, two; sets PATTERN, the test's full name, and
# run, the client's results.
boot() {
	local prefix=guest/$SERIES/$2/$1-$3
	if [[ $3 == far-* ]]; then
		PATTERN=$prefix/client/$3 run=$WORK/${prefix//\//-}-client
		pair "$SERIES" "$2" "$2" "$prefix" far-client far-server
	else
		PATTERN=$prefix/$3 run=$WORK/$1-$2-$3
		one_guest "$SERIES" "$2" "$run" faults "$prefix"
	fi
}

# once <run> <transport> <test>: a line "test, transport, run, result, recovery in ms, reason".
once() {
	local run PATTERN kind reason
	boot "$@"
	# The C module's own warning is reported as a skip with its reason.
	read -r kind _ reason < <(grep -F " $PATTERN " "$run.results" | tail -n1) || kind=fail reason="no result"
	reason=${reason% (*}
	reason=${reason%%: fio *}
	printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$3" "$2" "$1" "$kind" \
		"$(sed -n 's/^# recovery \([0-9]*\) ms$/\1/p' "$run/out")" "${reason//$'\t'/ }" >>"$WORK/new.tsv"
	say "  $1 $2 $3: $kind $reason"
}

SERIES=$(series_of "$KVER") || die "the build environment could not be made"
RUST_KO=$("$TOP/scripts/modules.sh" build)
say "faults, $runs runs each, results in $WORK"
for t in $(for g in faults far-client; do LIST=1 "$TOP/tests/selftests/run.sh" "$g"; done); do
	# shellcheck disable=SC2053 # the right side is a pattern
	[[ $t == $faults ]] || continue
	for ((run = 1; run <= runs; run++)); do
		for transport in c rust; do job once "$run" "$transport" "$t"; done
	done
done
wait
[ -s "$WORK/new.tsv" ] || die "no fault is called $faults"
touch "$table"
awk -F'\t' 'NR == FNR { new[$1]; next } !($1 in new)' "$WORK/new.tsv" "$table" | cat - "$WORK/new.tsv" | sort >"$WORK/all.tsv"
cp "$WORK/all.tsv" "$table"
"$TOP/scripts/enter-root.sh" python3 "$TOP/scripts/fault-table.py" "$table" "$(<"$("$TOP/scripts/kernel.sh")/release")" \
	>"$TOP/Documentation/fault-table.rst"

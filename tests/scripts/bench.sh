#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# What "make bench" makes of measurements: ratios pair by pair, per operation, and no case without a measurement.
set -uo pipefail
# shellcheck source=tests/scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/lib.sh
. "$TOP/scripts/lib.sh"
set +e
# In the cache, which the build root sees.
RUN=$SMBD_CACHE/run/report-$$
trap 'rm -rf "$RUN" "$TMP"' EXIT
mkdir -p "$RUN/bench"
echo "TAP version 13"

# measured <case> <pair> <arm> <milliseconds> <context switches>: 1,000 operations of 4 KiB.
measured() {
	local base=$RUN/bench/$1.$2.$3
	cat >"$base.json" <<-JSON
		{"jobs": [{"read": {"total_ios": 1000, "io_bytes": 4096000, "runtime": $4,
		  "clat_ns": {"percentile": {"50.000000": 500000, "99.000000": 900000}}},
		  "write": {"total_ios": 0}}]}
	JSON
	printf 'cpu 0 0 100 900 0 0 0 0\nctxt %d\nmaps 10\n' 5000 >"$base.before"
	printf 'cpu 0 0 150 950 0 0 0 0\nctxt %d\nmaps 1010\n' $((5000 + $5)) >"$base.after"
}
report() { "$TOP/scripts/enter-root.sh" python3 "$TOP/tests/bench/report.py" "$RUN" kernel commit "$@"; }

nothing() { ! report >"$TMP/out" 2>&1 && grep -q 'no case' "$TMP/out"; }
ok "bench/nothing" nothing
measured rxe.read 1 c 500 26000
measured rxe.read 1 rust 250 10000
measured rxe.read 2 c 300 26000
measured rxe.read 2 rust 300 10000
measured rxe.read 1 tcp 200 9000
report >"$TMP/out" 2>"$TMP/err"
# Pair 1 is twice as fast, pair 2 as fast; the median of the times is that of the pairs.
ok "bench/ratio" grep -qE '^rxe/read +400 +275 +200 +- +- +1\.50 \(1\.00-2\.00\) +0\.80' "$TMP/out"
ok "bench/context-switches" grep -qF '26.0 / 10.0 / 9.0' "$TMP/out"
# 400 us are 200,000 instructions of 2 ns.
ok "bench/instructions" grep -qF '200 / 138 / 100' "$TMP/out"
ok "bench/counters" grep -qF 'maps 1' "$TMP/out"
files() {
	mkdir "$RUN/page" && report "$RUN/page" >/dev/null && grep -q '^rxe/read' "$RUN/page/bench.rst" &&
		grep -q '"rxe/read"' "$RUN/page/bench.json" && grep -q '<svg' "$RUN/page/bench.svg"
}
ok "bench/files" files
finished

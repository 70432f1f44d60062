# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034
#
# For tests of the scripts: KTAP, and the one question they all ask.  Sourced.

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
N=0 BAD=0

# ok <name> <command...>
ok() {
	local name=$1
	shift
	N=$((N + 1))
	if "$@" >"$TMP/ok.log" 2>&1; then
		echo "ok $N $name"
	else
		echo "not ok $N $name # $(tail -n1 "$TMP/ok.log")"
		BAD=$((BAD + 1))
	fi
}

# skip <name> <reason>
skip() {
	N=$((N + 1))
	echo "ok $N $1 # SKIP $2"
}

# says <regular expression> <command...>: it fails, and its last words are one clear sentence that
# matches; nothing in its output looks like a tool's trace.
says() {
	local want=$1 out rc=0
	shift
	out=$(timeout 300 "$@" 2>&1 </dev/null) || rc=$?
	[ "$rc" -ne 0 ] || { echo "succeeded, but should have failed: $*"; return 1; }
	grep -qE "^error: .*$want" <<<"$out" || { echo "said: $(tail -n3 <<<"$out" | paste -sd'|')"; return 1; }
	! grep -qE 'Traceback|line [0-9]+:|unbound variable|command not found' <<<"$out" || { echo "a trace: $out"; return 1; }
}

finished() {
	echo "1..$N"
	[ "$BAD" -eq 0 ]
}

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The cache: what is complete is used, what is not is made again, two runs do not meet; steps and
# results say what happened.
set -uo pipefail
# shellcheck source=tests/scripts/lib.sh
. "$(dirname "$0")/lib.sh"
export SMBD_CACHE=$TMP/cache
echo "TAP version 13"

# in_lib <commands>: run with the scripts' library, as a script of its own.
in_lib() { bash -c ". '$TOP/scripts/lib.sh'; SMBD_CACHE='$TMP/cache'; $1"; }

# A stage that leaves one line per time it was made, slowly or badly if told so.
# shellcheck disable=SC2016 # expanded by the inner shell
MAKE='make_it() { echo made >>"$SMBD_CACHE/count"; touch "$1/half"; sleep "${SLOW:-0}"; [ -z "${BAD:-}" ] || exit 3; mv "$1/half" "$1/whole"; }; cached "$SMBD_CACHE/stage" make_it'

count() { wc -l <"$TMP/cache/count" 2>/dev/null || echo 0; }
# soon <command...>: within ten seconds.
soon() {
	local i
	for ((i = 0; i < 100; i++)); do
		if "$@" 2>/dev/null; then return; fi
		sleep 0.1
	done
	return 1
}
fresh() { rm -rf "$TMP/cache"; mkdir -p "$TMP/cache/locks"; }

once() {
	fresh
	in_lib "$MAKE" && in_lib "$MAKE" && [ "$(count)" -eq 1 ] && [ -e "$TMP/cache/stage/whole" ]
}
redone() {
	fresh
	! BAD=1 in_lib "$MAKE" && [ -e "$TMP/cache/stage/half" ] && in_lib "$MAKE" &&
		[ "$(count)" -eq 2 ] && [ ! -e "$TMP/cache/stage/half" ] && [ -e "$TMP/cache/stage/whole" ]
}
killed() {
	fresh
	SLOW=30 setsid bash -c ". '$TOP/scripts/lib.sh'; $MAKE" &
	soon test -s "$TMP/cache/count"
	kill -9 -- -$!
	wait $! 2>/dev/null
	in_lib "$MAKE" && [ "$(count)" -eq 2 ] && [ -e "$TMP/cache/stage/whole" ]
}
together() {
	fresh
	SLOW=1 in_lib "$MAKE" &
	SLOW=1 in_lib "$MAKE" &
	wait && [ "$(count)" -eq 1 ] && [ -e "$TMP/cache/stage/whole" ]
}
ok "cache/made-once" once
ok "cache/failed-is-redone" redone
ok "cache/killed-is-redone" killed
ok "cache/two-at-once" together

names_and_time() { in_lib 'step "a thing" true' 2>&1 | grep -qE '^  a thing +\([0-9]+ s\)$'; }
reason_and_log() {
	local out
	out=$(in_lib 'bad() { die "the moon is in the way"; }; step "a thing" bad' 2>&1)
	grep -q '^error: the moon is in the way$' <<<"$out" && grep -q '^  log: /' <<<"$out"
}
progress() { in_lib 'step "long" sleep 8' 2>&1 | grep -qE '^  long \.+\([0-9]+ s\)$'; }
sleeping() { grep -qa 'sleep.[4]242' /proc/[0-9]*/cmdline; }
gone() { ! sleeping; }
stopped() {
	setsid bash -c ". '$TOP/scripts/lib.sh'; step long bash -c 'sleep 4242; true'" 2>/dev/null &
	soon sleeping
	kill $!
	wait $!
	[ $? -eq 143 ] && soon gone
}
ok "step/stopped-with-all-below" stopped
ok "step/name-and-time" names_and_time
ok "step/reason-and-log" reason_and_log
ok "step/progress" progress

# results <KTAP lines>: what becomes of them.
results() { printf '%s\n' "$1" >"$TMP/ktap"; bash -c ". '$TOP/scripts/results.sh'; ktap_results p '$TMP/ktap'"; }
ok "results/pass" test "$(results 'ok 1 a/b')" = "pass p/a/b "
ok "results/fail" test "$(results 'not ok 2 a # the reason')" = "fail p/a the reason"
ok "results/skip" test "$(results 'ok 3 a # SKIP no device')" = "skip p/a no device"
ok "results/skip_by_helper" test "$(results 'ok 3 a # SKIP no device # SKIP')" = "skip p/a no device"
totals() {
	printf '%s\n' "pass a/b" "fail a/c it broke" "skip a/d no device" >"$TMP/results"
	! out=$(bash -c ". '$TOP/scripts/results.sh'; RESULTS='$TMP/results' PATTERN='*'; summary") &&
		[ "$(tail -n1 <<<"$out")" = "1 passed, 1 failed, 1 skipped" ] &&
		grep -q 'failed: .*a/c it broke' <<<"$out" && grep -q 'skipped: .*a/d no device' <<<"$out"
}
ok "results/totals" totals

# judged <results>: what becomes of them in the summary.
judged() { printf '%s\n' "$@" >"$TMP/results"; bash -c ". '$TOP/scripts/results.sh'; control_alone '$TMP/results'"; cat "$TMP/results"; }
alone() {
	[ "$(judged "fail guest/7.3/c/A/x why" "pass guest/7.3/c/A/y" "pass guest/7.3/rust/A/x" | head -n1)" = \
		"skip guest/7.3/c/A/x the control alone fails this: why" ]
}
alone_in_pair() {
	[ "$(judged "fail guest/7.3/pair/c-to-c/server/whole why" "pass guest/7.3/pair/c-to-c/client/y" \
		"pass guest/7.3/pair/rust-to-rust/client/y" | grep -c '^skip')" = 1 ]
}
not_alone() {
	! judged "fail guest/7.3/c/A/x why" "pass guest/7.3/c/A/y" "fail guest/7.3/rust/A/x" | grep '^skip' &&
		! judged "fail guest/7.3/c/A/x why" "pass guest/7.3/rust/A/x" | grep '^skip' &&
		! judged "fail guest/7.3/c/A/x why" "pass guest/7.3/c/A/y" | grep '^skip' &&
		! judged "fail guest/7.3/c/A/whole why" "pass guest/7.3/c/A/y" "fail guest/7.3/rust/A/x" "pass guest/7.3/rust/A/y" | grep '^skip' &&
		! judged "fail guest/7.3/rust/A/x why" "pass guest/7.3/rust/A/y" "pass guest/7.3/c/A/x" | grep '^skip'
}
ok "results/control_alone" alone
ok "results/control_alone_in_pair" alone_in_pair
ok "results/control_not_alone" not_alone
finished

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The check "traceability" passes here, and fails on a copy for each thing it is there to notice.
set -uo pipefail
# shellcheck source=tests/scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/lib.sh
. "$TOP/scripts/lib.sh"
set +e
echo "TAP version 13"
# In the cache, which the build root sees.
COPY=$(mktemp -d "$SMBD_CACHE/run/traceability-XXXXXX")
trap 'rm -rf "$TMP" "$COPY"' EXIT

fresh() {
	rm -rf "${COPY:?}"/*
	(cd "$TOP" && git ls-files scripts/traceability.py Documentation tests | tar -cf - -T -) | tar -xf - -C "$COPY"
}
trace() { "$TOP/scripts/enter-root.sh" python3 "$COPY/scripts/traceability.py" "$@"; }

# notices <words> <file> <sed script>: the change makes it fail and say so.
notices() {
	local out
	fresh
	sed -i -E "$3" "$COPY/$2"
	! cmp -s "$TOP/$2" "$COPY/$2" || { echo "the change changes nothing"; return 1; }
	! out=$(trace -c) || { echo "passed"; return 1; }
	grep -q "$1" <<<"$out" || { echo "said: $out"; return 1; }
}
pdu=tests/host/tests/pdu.rs page=Documentation/traceability.rst

fresh
ok "whole" trace -c
ok "no-positive-case" notices "no host test claims D2+" $pdu 's,(// rules: .*)D2\+,\1D2-,'
ok "no-negative-case" notices "no host test claims C7-" tests/host/tests/credits.rs 's,(// rules: .*)C7-,\1C7+,'
ok "unclaimed-name" notices "named after D2" $pdu '/rules: D2- D2\+/d'
ok "unknown-rule" notices "claims D99" $pdu 's,// rules: D2- D2\+,& D99-,'
ok "unknown-rule-in-a-guest" notices "claims X99" tests/kmod/wire.c 's,rules: X8,rules: X99,'
# shellcheck disable=SC2016 # the dollar is sed's
ok "claim-without-a-test" notices "not right above" $pdu '$a // rules: D1-'
ok "test-that-does-not-exist" notices "names pdu/d2_nowhere, which does not exist" $page 's,pdu/d2_no_credits_requested,pdu/d2_nowhere,'
# shellcheck disable=SC2016
ok "new-rule-without-tests" notices "no host test claims D13+" tests/rules.list '$a D13 pure a rule to come'
ok "stale-page" notices "out of date" tests/rules.list 's,^(D1 pure).*,\1 another title,'
stays() { trace >/dev/null && trace -c; }
fresh
ok "written-anew-is-up-to-date" stays
finished

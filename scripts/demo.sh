#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# From nothing to a file system over our module at both ends, in a virtual machine with a stock
# kernel.  TRANSPORT=c is the same with the kernel's own C module, as control.

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

[ -z "$KDIR" ] || say "note: KDIR= is for 'make modules'; the demo runs on the cached kernel"
KDIR=
run=$SMBD_CACHE/run/demo-$TRANSPORT-$(date +%m%d-%H%M%S)-$$

fail() {
	say "demo: FAIL: $1"
	say "  log: ${2:-$SMBD_CACHE/logs}"
	exit 1
}

# follow <file>: show a growing file until killed, so that a long step is seen to move.  By name, since
# guest.sh makes the run folder anew.
follow() { exec tail -n +1 -F "$1" 2>/dev/null; }

start=$SECONDS
"$TOP/scripts/peers.sh" >/dev/null || fail "the build environment could not be made (see above)"
KERNEL=$("$TOP/scripts/kernel.sh")
if [ "$TRANSPORT" = rust ]; then
	SMBDIRECT_KO=$("$TOP/scripts/modules.sh" build) || fail "smbdirect.ko could not be built (see above)"
	export SMBDIRECT_KO
fi

say "  guest: kernel $(<"$KERNEL/release"), transport $TRANSPORT"
mkdir -p "$run"
touch "$run/out"
rc=0
"$TOP/scripts/guest.sh" -t 600 -d "$run" -- "$TOP/tests/selftests/demo.sh" >&2 &
pid=$!
(sleep 1 && follow "$run/out") &
tail=$!
wait "$pid" || rc=$?
sleep 0.3
kill "$tail" 2>/dev/null || true
wait "$tail" 2>/dev/null || true

say "  whole run: $((SECONDS - start)) s; log: $run"
if [ "$rc" -eq 0 ] && grep -q '^demo: PASS' "$run/out"; then
	echo "demo: PASS"
	exit 0
fi
fail "$(sed -n 's/^demo: FAIL: //p' "$run/out" | grep . || echo "the guest did not get to the end (status $rc)")" "$run"
